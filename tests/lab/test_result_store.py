"""The store: whole records or none, failures that are tried again, parts that join without loss."""

import polars as pl

from dualgap.lab.results import ResultStore, file_name


def test_failures_are_recorded_and_not_finished(tmp_path):
    store = ResultStore(tmp_path)
    store.add({"key": "a", "status": "max_epochs", "trace_primal": [1.0, 0.5]})
    store.add({"key": "b", "status": "failed", "error": "ValueError: no"})
    assert store.finished() == {"a"}
    assert dict(zip(*store.read().select("key", "error").to_dict(as_series=False).values(), strict=True))["b"] == "ValueError: no"
    store.join()
    assert store.finished() == {"a"}
    store.add({"key": "b", "status": "converged"})  # tried again, with success
    assert store.finished() == {"a", "b"}
    store.add({"key": "a", "status": "failed", "error": "x"})  # a part is newer than the joined file
    assert store.finished() == {"b"}


def test_join_loses_nothing(tmp_path):
    store = ResultStore(tmp_path)
    for i in range(5):
        store.add({"key": str(i), "status": "converged", "trace_primal": [float(i)]})
        if i in (1, 3):
            store.join()
    table = store.read().sort("key")
    assert table["key"].to_list() == list("01234")
    assert table["trace_primal"].to_list() == [[float(i)] for i in range(5)]
    store.join()
    assert not list(store.parts.glob("*.parquet"))
    assert pl.read_parquet(store.joined).height == 5


def test_records_with_different_columns(tmp_path):
    store = ResultStore(tmp_path)
    store.add({"key": "a", "status": "failed", "error": "x"})
    store.add({"key": "b", "status": "converged", "gap": 0.1})
    assert store.read(["b"])["gap"].to_list() == [0.1]


def test_file_names_are_harmless():
    assert file_name("plain-name") == "plain-name"
    assert "/" not in file_name("../../etc/passwd")
    assert file_name("a/b") != file_name("a.b")
