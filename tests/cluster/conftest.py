"""A cluster of two processes, made once; where Dask is not installed, the tests that need it are skipped."""

import warnings

import pytest

import dualgap
from cluster_cases import OPTIONS, X, y


@pytest.fixture(scope="session")
def cluster():
    pytest.importorskip("distributed", reason="dask.distributed is not installed: pip install 'dualgap[dask]'")
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as made:
        yield made


@pytest.fixture
def client(cluster):
    from distributed import Client

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Client(cluster) as made:
            made.wait_for_workers(2, timeout=120)
            yield made


@pytest.fixture(scope="session")
def best():
    return dualgap.solve(dualgap.Problem(X, y, **OPTIONS), "sdca", tol=1e-8, max_epochs=20_000).certificate
