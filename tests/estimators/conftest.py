"""What the tests of the estimators share."""


def pytest_configure(config):
    config.addinivalue_line("markers", "thread_unsafe: a mark that scikit-learn's own tests carry")
