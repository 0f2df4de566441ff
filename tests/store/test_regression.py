"""Stores of targets: conversion, problems, LinearSVR and the commands."""

import json

import numpy as np
import pytest
from scipy import sparse

import dualgap
from dualgap import LinearSVC, LinearSVR
from dualgap.app.cli import main
from dualgap.data import DataError
from dualgap.store import Store, StoreError, convert, write_store

LOSSES = {
    "squared_error": {},
    "huber": {},
    "epsilon_insensitive": {"epsilon": 0.5},
    "quantile": {"quantile": 0.8},
}


def made_data(kind="dense", n=900):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6))
    if kind == "sparse":
        X = X * (rng.random(X.shape) < 0.4)
    y = X @ rng.normal(size=6) * 5.0 + 20.0 + rng.normal(size=n)
    return (sparse.csr_matrix(X) if kind == "sparse" else X), y


def written(folder, X, y, **options):
    pairs = [(X[k : k + 200], y[k : k + 200]) for k in range(0, len(y), 200)]
    return write_store(pairs, folder, task="regression", block_bytes=12_000, **options)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_store_has_the_targets(tmp_path, kind):
    X, y = made_data(kind)
    store = written(tmp_path / "s", X, y)
    assert "targets" in repr(store)
    assert (store.task, store.classes.tolist()) == ("regression", [])
    assert len(store.parts) > 1
    assert np.array_equal(store.labels()[np.argsort(store.origin())], y)
    assert Store(tmp_path / "s").task == "regression"


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("loss", LOSSES)
def test_models_are_those_in_memory(tmp_path, kind, loss):
    X, y = made_data(kind)
    store = written(tmp_path / "s", X, y)
    for intercept in ("free", "penalised"):
        settings = {"C": 0.3, "loss": loss, "intercept": intercept, "random_state": 0, **LOSSES[loss]}
        model = LinearSVR(tol=1e-3, **settings).fit(store)
        exact = LinearSVR(tol=1e-6, **settings).fit(X, y)
        assert model.status_ == "converged"
        assert exact.certificate_.dual * (1 - 1e-9) <= model.objective_ <= exact.objective_ * 1.0011
        assert model.coef_.shape == (6,)
        assert np.abs(model.predict(X) - exact.predict(X)).mean() < 0.5
    result = dualgap.solve(store.problem(loss, l2=0.01, intercept="free", **LOSSES[loss]), tol=1e-2)
    assert result.status == "converged"


def test_warm_start(tmp_path):
    X, y = made_data()
    store = written(tmp_path / "s", X, y)
    model = LinearSVR(loss="huber", tol=1e-3, warm_start=True, random_state=0).fit(store)
    first = model.n_iter_
    assert model.fit(store).n_iter_ <= first


def test_refusals(tmp_path):
    X, y = made_data()
    store = written(tmp_path / "s", X, y)
    classes = write_store([(X, (y > 20.0).astype(int))], tmp_path / "c")
    with pytest.raises(ValueError, match=r"LinearSVC is for classification, and Store.* was converted for regression"):
        LinearSVC().fit(store)
    with pytest.raises(ValueError, match=r"LinearSVR is for regression, and Store.* was converted for classification"):
        LinearSVR().fit(classes)
    with pytest.raises(ValueError, match="a store has its own labels"):
        LinearSVR().fit(store, y)
    with pytest.raises(StoreError, match="has the targets of a regression"):
        store.problem("hinge")
    with pytest.raises(StoreError, match="has classes, and the loss is one of regression"):
        classes.problem("huber")
    with pytest.raises(DataError, match="the target 'a' is not a number"):
        write_store([(X[:2], ["a", "b"])], tmp_path / "w", task="regression")
    with pytest.raises(ValueError, match="task='ranking' is unknown"):
        write_store([(X, y)], tmp_path / "r", task="ranking")
    manifest = json.loads((tmp_path / "s" / "manifest.json").read_text())
    for changes in ({"task": "ranking"}, {"task": "classification"}, {"classes": [1], "counts": [900]}):
        (tmp_path / "s" / "manifest.json").write_text(json.dumps(manifest | changes))
        with pytest.raises(StoreError):
            Store(tmp_path / "s")


def test_convert_and_the_commands(tmp_path, capsys):
    X, y = made_data()
    table = tmp_path / "t.csv"
    cells = (",".join(f"{x:.6f}" for x in [*row, t]) for row, t in zip(X, y, strict=True))
    table.write_text("a,b,c,d,e,f,price\n" + "\n".join(cells) + "\n")
    store, model = str(tmp_path / "store"), str(tmp_path / "m.skops")
    assert main(["convert", str(table), store, "--target", "price", "--block-mb", "0.02", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["task"] == "regression"
    assert main(["fit", store, "--model", model, "--tol", "1e-3"]) == 0
    out = capsys.readouterr().out
    assert "a regression" in out
    assert "On the training rows: R² 0.9" in out
    assert main(["predict", model, store, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert np.corrcoef(told["predictions"], y)[0, 1] > 0.9
    assert main(["predict", model, str(table)]) == 0
    assert main(["certify", model, store, "--tol", "2e-3"]) == 0
    assert main(["certify", model, str(table), "--tol", "2e-3"]) == 0
    capsys.readouterr()
    assert main(["fit", store, "--model", model, "--loss", "hinge"]) == 1
    assert "was converted for a regression, and --task or --loss says classification" in capsys.readouterr().err
    svm = tmp_path / "t.svm"
    svm.write_text("".join(f"{t:.4f} 1:{row[0]:.4f} 2:{row[1]:.4f}\n" for row, t in zip(X, y, strict=True)))
    assert main(["convert", str(svm), str(tmp_path / "s2"), "--task", "regression"]) == 0
    assert Store(tmp_path / "s2").task == "regression"
    assert convert(svm, tmp_path / "s3", task="regression").task == "regression"
    assert convert(svm, tmp_path / "s3", task="regression").task == "regression"  # the same again is not another store
