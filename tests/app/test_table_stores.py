"""Stores of tables: names and preparation are kept, rows are scaled, a fit goes on after a stop."""

import csv
import json

import numpy as np
import polars as pl
import pytest

from dualgap.app import training
from dualgap.app.cli import main
from dualgap.app.model_file import load_model
from dualgap.data import DataError, Preparation, TableOptions, csv_files
from dualgap.store import Store, StoreError, convert


@pytest.fixture(scope="module")
def frame():
    """Numbers of very different scales, a category, a gap here and there."""
    rng = np.random.default_rng(0)
    n = 900
    a, b, town = rng.normal(size=n), rng.normal(size=n), rng.choice(["Rome", "Oslo", "Kyiv"], n)
    y = np.where(a - b + 1.5 * (town == "Oslo") + 0.4 * rng.normal(size=n) > 0, "buys", "leaves")
    gap = rng.random(n) < 0.05
    return pl.DataFrame(
        {
            "a": [None if g else 1e6 * v for g, v in zip(gap, a, strict=True)],
            "b": 1e-3 * b,
            "town": town,
            "year": 2020 + rng.integers(3, size=n),
            "y": y,
        }
    )


@pytest.fixture(scope="module")
def made(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    frame.write_csv(folder / "all.csv")
    frame.select(frame.columns[::-1]).head(20).write_csv(folder / "other-order.csv")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(csv_files, "PIECE_BYTES", 8000)
        assert main(["convert", str(folder / "all.csv"), str(folder / "store"), "--target", "y", "--block-mb", "0.01"]) == 0
    assert main(["fit", str(folder / "store"), "--model", str(folder / "m.skops"), "--tol", "1e-3"]) == 0
    return folder


def rows_of(out):
    return list(csv.reader(out.splitlines()))[1:]


def test_rows_are_those_of_the_table(frame, made):
    store = Store(made / "store")
    assert len(store.parts) > 1
    assert store.preparation.to_dict() == Preparation("y").fit(frame, frame["y"].to_numpy()).to_dict()
    order = np.argsort(store.origin())
    X = np.concatenate([store.matrix(k) for k in range(len(store.parts))])[order]
    assert np.allclose(X, store.preparation.transform(frame))
    assert np.abs(X[:, :2].std(axis=0) - 1).max() < 0.01  # scaled
    assert store.labels()[order].tolist() == frame["y"].to_list()


def test_columns_in_another_order_predict_the_same(made, capsys):
    said = []
    for data in ("all.csv", "other-order.csv", "store"):
        capsys.readouterr()
        assert main(["predict", str(made / "m.skops"), str(made / data)]) == 0
        said.append(np.array([float(row[1]) for row in rows_of(capsys.readouterr().out)]))
    assert np.allclose(said[0][:20], said[1])
    assert np.allclose(said[0], said[2])


def test_a_store_is_certified_as_closely_as_it_was_trained(made, capsys):
    for data in ("store", "all.csv"):
        assert main(["certify", str(made / "m.skops"), str(made / data), "--tol", "1.1e-3"]) == 0
        assert "leaves against buys: primal" in capsys.readouterr().out


def test_a_missing_column_is_named(frame, made, capsys):
    frame.drop("town").write_csv(made / "short.csv")
    assert main(["predict", str(made / "m.skops"), str(made / "short.csv")]) == 1
    assert "there is no column 'town'" in capsys.readouterr().err


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_several_files(frame, tmp_path, ending):
    write = {"csv": pl.DataFrame.write_csv, "parquet": pl.DataFrame.write_parquet, "arrow": pl.DataFrame.write_ipc}[ending]
    write(frame.head(500), tmp_path / f"1.{ending}")
    write(frame.tail(400).select(frame.columns[::-1]), tmp_path / f"2.{ending}")
    store = convert([tmp_path / f"1.{ending}", tmp_path / f"2.{ending}"], tmp_path / "store", target="y", tables=TableOptions())
    order = np.argsort(store.origin())
    assert np.allclose(store.matrix(0)[order], Preparation("y").fit(frame, frame["y"].to_numpy()).transform(frame))


def test_many_categories_are_stored_sparse(tmp_path):
    rng = np.random.default_rng(0)
    town = [f"town {k}" for k in rng.integers(200, size=2000)]
    pl.DataFrame({"town": town, "x": rng.normal(size=2000), "y": rng.integers(2, size=2000)}).write_parquet(tmp_path / "t.parquet")
    store = convert(tmp_path / "t.parquet", tmp_path / "store", target="y", tables=TableOptions())
    assert store.is_sparse
    assert store.shape == (2000, 201)


def test_a_conversion_goes_on(frame, made, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "PIECE_BYTES", 8000)

    class Stop(Exception):
        pass

    def stop(stage, rows):
        raise Stop

    options = {"target": "y", "block_bytes": 10_000, "tables": TableOptions()}
    with pytest.raises(Stop):
        convert(made / "all.csv", tmp_path / "store", progress=stop, **options)
    store = convert(made / "all.csv", tmp_path / "store", **options)
    whole = Store(made / "store")
    assert [part.files for part in store.parts] == [part.files for part in whole.parts]
    with pytest.raises(StoreError, match="other data, or with other options"):
        convert(made / "all.csv", tmp_path / "store", **{**options, "tables": TableOptions(drop=["town"])})


def test_bad_cells_have_a_place(frame, tmp_path):
    words = ["1.5"] * 100 + ["inf"]
    pl.DataFrame({"x": words, "y": ["a", "b"] * 50 + ["a"]}).write_csv(tmp_path / "t.csv")
    with pytest.raises(DataError, match="column 'x', row 101"):
        convert(tmp_path / "t.csv", tmp_path / "store", target="y", tables=TableOptions(kinds={"x": "number"}))


def test_a_fit_goes_on_after_a_kill(made, tmp_path, monkeypatch, capsys):
    """The process ends right after a checkpoint; the same command starts from it and ends on the same objective."""
    model = tmp_path / "m.skops"
    command = ["fit", str(made / "store"), "--model", str(model), "--tol", "1e-5"]
    saved = []

    def save_and_die(made_model, path):
        training_save(made_model, path)
        saved.append(path.name)
        raise RuntimeError("killed")

    training_save = training.save_model
    with monkeypatch.context() as patched:
        patched.setattr(training, "FIRST_ROUND", 1e-4)
        patched.setattr(training, "save_model", save_and_die)
        assert main(command) == 1
    assert saved == ["m.skops.checkpoint"]
    assert not model.exists()
    capsys.readouterr()
    assert main([*command, "--json"]) == 0
    out, err = capsys.readouterr()
    assert "going on from" in err
    assert not (tmp_path / "m.skops.checkpoint").exists()
    told = json.loads(out.splitlines()[-1])
    assert told["status"] == "converged"
    assert told["certificates"][0]["relative_gap"] <= 1e-5
    load_model(model)


def test_a_checkpoint_of_another_problem_is_left_aside(made, tmp_path, monkeypatch, capsys):
    model = tmp_path / "m.skops"
    (tmp_path / "m.skops.checkpoint").write_text("no model")
    assert main(["fit", str(made / "store"), "--model", str(model), "--tol", "1e-2"]) == 0
    assert "the checkpoint is left aside" in capsys.readouterr().err


def test_options_that_belong_to_convert(made, tmp_path, capsys):
    for option in (["--drop", "a"], ["--as", "a=category"], ["--above", "1"], ["--target", "y"]):
        assert main(["fit", str(made / "store"), "--model", str(tmp_path / "m"), *option]) == 1
        assert f"{option[0]} with a store" in capsys.readouterr().err


def test_a_damaged_preparation_is_refused(frame, tmp_path, capsys):
    frame.write_csv(tmp_path / "t.csv")
    store = convert(tmp_path / "t.csv", tmp_path / "store", target="y", tables=TableOptions())
    (tmp_path / "store" / "preparation.json").write_text('{"preparation": {"rules": 3}}')
    with pytest.raises(StoreError, match=r"preparation\.json is damaged"):
        _ = store.preparation
