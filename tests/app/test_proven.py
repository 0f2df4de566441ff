"""Proven labels in the commands: shares in the reports, a column in predictions, and models that know it from their file alone."""

import csv
import json

import numpy as np
import pytest
import skops.io

from dualgap.app.cli import main
from dualgap.app.model_file import ModelError, load_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("proven")
    rng = np.random.default_rng(0)
    for name, K in (("two", 2), ("three", 3)):
        y = np.arange(120) % K
        X = rng.normal(size=(120, 4)) + 1.5 * np.eye(4)[y]
        np.savez(made / f"{name}.npz", X=X, y=y)
    return made


def run(capsys, *command):
    assert main(list(map(str, command))) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["two", "three"])
@pytest.mark.parametrize("intercept", ["free", "none"])
def test_fit_predict_and_certify(folder, capsys, name, intercept):
    data, model = folder / f"{name}.npz", folder / f"{name}-{intercept}.skops"
    said = run(capsys, "fit", data, "--model", model, "--intercept", intercept, "--tol", "1e-6", "--loss", "hinge")
    assert said.count("% of these labels are proven") == 2  # training rows and cross-validation
    rows = list(csv.DictReader(run(capsys, "predict", model, data).splitlines()))
    proven = [row["proven"] == "True" for row in rows]
    assert {row["proven"] for row in rows} <= {"True", "False"}
    assert np.mean(proven) > 0.8
    answer = json.loads(run(capsys, "predict", model, data, "--json"))
    assert answer["proven"] == proven
    svc = load_model(model).estimator
    with np.load(data) as arrays:
        exact = svc.set_params(tol=1e-11).fit(load_model(model).features(arrays["X"]), arrays["y"])
        labels = exact.predict(load_model(model).features(arrays["X"]))
    assert all(str(label) == row["label"] for label, row, sure in zip(labels, rows, proven, strict=True) if sure)
    assert "% of these labels are proven" in run(capsys, "certify", model, data)
    share = json.loads(run(capsys, "certify", model, data, "--json"))["proven"]
    assert abs(share - np.mean(proven)) < 0.2


def test_json_of_fit_has_the_shares(folder, capsys):
    told = json.loads(run(capsys, "fit", folder / "two.npz", "--model", folder / "j.skops", "--json"))
    assert 0.0 < told["training"]["proven"] <= 1.0
    assert 0.0 < told["cross_validation"]["proven"] <= 1.0


def test_a_model_of_a_store_proves_no_labels(folder, capsys, tmp_path):
    lines = [f"{k % 2} 1:{k % 7 - 3 + 2 * (k % 2)} 2:{k % 5}" for k in range(60)]
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    run(capsys, "convert", tmp_path / "rows.svm", tmp_path / "store")
    run(capsys, "fit", tmp_path / "store", "--model", tmp_path / "m.skops", "--tol", "1e-2")
    assert run(capsys, "predict", tmp_path / "m.skops", tmp_path / "rows.svm").splitlines()[0] == "label,score"
    assert "proven" not in json.loads(run(capsys, "predict", tmp_path / "m.skops", tmp_path / "rows.svm", "--json"))


def test_a_damaged_ball_is_refused(folder, capsys):
    model = folder / "damaged.skops"
    run(capsys, "fit", folder / "two.npz", "--model", model, "--cv", "0")
    content = skops.io.load(model, trusted=[])
    content["estimator"]["fitted"]["balls"]["centre"] = np.zeros((1, 3))
    skops.io.dump(content, model)
    with pytest.raises(ModelError, match="bounds of the exact model"):
        load_model(model)
