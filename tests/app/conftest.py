"""Commands write reports and models to the working folder: each test has one of its own."""

import pytest


@pytest.fixture(autouse=True)
def own_folder(tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path_factory.mktemp("working"))
