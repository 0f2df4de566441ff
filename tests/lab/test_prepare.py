"""Data as a study prepares them, and the problems made of them."""

import numpy as np
import polars as pl
import pytest

from dualgap.data import DataError, Preparation, split_indices
from dualgap.lab.prepare import prepare
from dualgap.lab.run_one import make_problem
from dualgap.lab.study import DataSpec


def test_prepared_data_say_what_was_done():
    data = prepare(DataSpec(id="bc", name="breast-cancer"))
    assert (data.X.shape, data.X_test.shape) == ((379, 30), (190, 30))
    assert data.notes[-1] == "standardised: each feature has mean 0 and variance 1 on the training rows"
    assert make_problem(data, {"sum_c": 3.79}).l2 == 0.01


@pytest.fixture
def table(tmp_path):
    """A table whose test rows have values that the training rows lack: another town, far larger sizes, gaps."""
    rng = np.random.default_rng(0)
    y = np.array(["no", "yes"] * 45)
    train, test = split_indices(y, 1 / 3, 0)
    size, town = rng.normal(size=90), rng.choice(["Rome", "Oslo"], 90).astype(object)
    size[test] *= 1e6
    town[test[:5]] = "Lima"
    frame = pl.DataFrame({"size": size, "town": town, "zip": rng.integers(3, size=90), "note": ["x"] * 90, "y": y})
    frame.write_csv(tmp_path / "t.csv")
    return tmp_path / "t.csv", pl.read_csv(tmp_path / "t.csv"), train, test


def test_a_table_is_prepared_by_its_training_rows_alone(table):
    path, frame, train, test = table
    data = prepare(DataSpec(id="t", path=str(path), target="y", options={"kinds": {"zip": "category"}}))
    ours = Preparation("y", kinds={"zip": "category"}).fit(frame[train], frame["y"].to_numpy()[train])
    assert np.array_equal(data.X, ours.transform(frame[train]))
    assert np.array_equal(data.X_test, ours.transform(frame[test]))
    assert "town = Lima" not in ours.feature_names
    assert abs(data.X_test[:, 0]).max() > 1e5  # scaled by what the training rows show
    assert any(note.startswith("column 'zip': 3 categories") for note in data.notes)


def test_options_of_tables(table, tmp_path):
    path, *_ = table
    narrow = prepare(DataSpec(id="t", path=str(path), target="y", options={"drop": ["town", "zip"]}, standardise=False))
    assert narrow.X.shape == (60, 1)
    above = prepare(DataSpec(id="t", path=str(path), target="size", options={"above": "median", "drop": ["y"]}))
    assert set(above.y.tolist()) == {0, 1}
    with pytest.raises(DataError, match="a table has no option 'n_features'"):
        prepare(DataSpec(id="t", path=str(path), target="y", options={"n_features": 3}))
    (tmp_path / "t.svm").write_text("1 1:1\n-1 2:1\n" * 9)
    with pytest.raises(DataError, match="--drop is for tables"):
        prepare(DataSpec(id="t", path=str(tmp_path / "t.svm"), options={"drop": ["a"]}))
    assert prepare(DataSpec(id="t", path=str(tmp_path / "t.svm"), options={"n_features": 5})).X.shape == (12, 5)
