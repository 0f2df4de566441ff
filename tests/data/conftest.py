"""What the tests of data share: a cache folder of their own, so that no test reads or fills the user's."""

import pytest

from dualgap.data import known_files


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """An empty data cache, and no folder named by the environment."""
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setattr(known_files, "data_cache", lambda: cache)
    monkeypatch.delenv("DUALGAP_DATA", raising=False)
    return cache
