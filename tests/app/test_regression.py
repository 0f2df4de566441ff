"""fit, predict and certify with a target of numbers."""

import csv
import json

import numpy as np
import polars as pl
import pytest

from dualgap.app import load_model
from dualgap.app.cli import main
from dualgap.data import DataError, learn_target
from dualgap.estimators import LinearSVR


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with a category and gaps, whose price follows from its columns; the same as LIBSVM text."""
    made = tmp_path_factory.mktemp("houses")
    rng = np.random.default_rng(0)
    n = 300
    rooms, town = rng.normal(size=n), np.arange(n) % 3
    price = 1e5 + 2e4 * rooms + 3e4 * town + 1e3 * rng.normal(size=n)
    frame = pl.DataFrame(
        {
            "rooms": [None if i % 20 == 0 else round(float(x), 4) for i, x in enumerate(rooms)],
            "town": np.array(["Rome", "Oslo", "Kyiv"])[town],
            "price": [None if i % 50 == 7 else round(float(x), 2) for i, x in enumerate(price)],
        }
    )
    frame.write_csv(made / "houses.csv")
    lines = [f"{p:.2f} 1:{x:.4f} 2:{t}" for p, x, t in zip(price, rooms, town, strict=True)]
    (made / "houses.svm").write_text("\n".join([*lines, ""]))
    assert main(["fit", str(made / "houses.csv"), "--target", "price", "--model", str(made / "m.skops")]) == 0
    return made


def run(capsys, *words):
    capsys.readouterr()
    code = main([str(word) for word in words])
    return (code, *capsys.readouterr())


def test_fit_says_how_good_the_regression_is(folder, tmp_path, capsys):
    code, out, err = run(capsys, "fit", folder / "houses.csv", "--target", "price", "--model", tmp_path / "m")
    assert code == 0, err
    assert "294 rows × 2 columns, a regression on 'price' from " in out
    assert "6 rows without a label in 'price' are left out" in out
    assert "Loss squared_error, C 1" in out
    assert "In 5-fold cross-validation: R² 0.9" in out
    assert "Always saying the median" in out
    assert "rooms" in out
    assert "raises the prediction" in out


def test_json_predict_and_certify(folder, tmp_path, capsys):
    words = ["--target", "price", "--model", tmp_path / "m", "--json", "--loss", "huber", "--cv", 3]
    code, out, _ = run(capsys, "fit", folder / "houses.csv", *words)
    about = json.loads(out)
    assert code == 0
    assert about["task"] == "regression"
    assert (about["loss"], about["status"]) == ("huber", "converged")
    assert about["cross_validation"]["r2"] > 0.9
    assert len(about["cross_validation"]["folds"]) == 3
    assert about["training"]["within"]["half"] <= about["training"]["within"]["all"]
    price = pl.read_csv(folder / "houses.csv")["price"].drop_nulls().to_numpy()
    assert about["C"] == pytest.approx(price.std())
    code, out, err = run(capsys, "predict", tmp_path / "m", folder / "houses.csv")
    assert code == 0
    assert "mean absolute error" in err
    assert "on 294 rows with a target" in err
    rows = list(csv.DictReader(out.splitlines()))
    assert len(rows) == 300
    assert all(float(row["low"]) <= float(row["prediction"]) <= float(row["high"]) for row in rows)
    code, out, _ = run(capsys, "predict", tmp_path / "m", folder / "houses.csv", "--json")
    told = json.loads(out)
    assert told["predictions"] == [float(row["prediction"]) for row in rows]
    assert told["r2"] > 0.9
    assert load_model(tmp_path / "m").predict(folder / "houses.csv").tolist() == told["predictions"]
    code, out, _ = run(capsys, "certify", tmp_path / "m", folder / "houses.csv", "--tol", 1e-3)
    assert code == 0
    assert "of these predictions are proven to be within" in out
    code, out, _ = run(capsys, "certify", tmp_path / "m", folder / "houses.csv", "--json")
    assert json.loads(out)["relative_gap"] <= 1e-3


def test_libsvm_text_and_classes_of_numbers(folder, tmp_path, capsys):
    code, out, _ = run(capsys, "fit", folder / "houses.svm", "--model", tmp_path / "m", "--cv", 0)
    assert code == 0
    assert "a regression on numbers from" in out
    assert run(capsys, "certify", tmp_path / "m", folder / "houses.svm")[0] == 0
    code, _, err = run(capsys, "predict", tmp_path / "m", folder / "houses.svm")
    assert code == 0
    assert "R² 0.9" in err
    words = "\n".join(f"{i % 3 + 1} 1:{i % 3} 2:{i % 5}" for i in range(60))
    (tmp_path / "digits.svm").write_text(words + "\n")
    code, out, _ = run(capsys, "fit", tmp_path / "digits.svm", "--model", tmp_path / "m", "--cv", 0)
    assert code == 0
    assert "3 classes" in out
    code, out, _ = run(capsys, "fit", tmp_path / "digits.svm", "--model", tmp_path / "m", "--cv", 0, "--task", "regression")
    assert code == 0
    assert "a regression" in out


def test_options_that_do_not_go_together(folder, tmp_path, capsys):
    for words, message in (
        (["--balanced"], "--balanced weighs classes"),
        (["--above", "1e5", "--task", "regression"], "--above 1e5 makes two classes"),
        (["--epsilon", "1"], "--epsilon 1 belongs to --loss epsilon_insensitive or squared_epsilon_insensitive"),
        (["--delta", "1", "--loss", "absolute"], "--delta 1 belongs to --loss huber"),
        (["--loss", "hinge"], "a measured quantity"),
    ):
        code, _, err = run(capsys, "fit", folder / "houses.csv", "--target", "price", "--model", tmp_path / "m", *words)
        assert code == 1
        assert message in err
    code, _, err = run(capsys, "certify", folder / "m.skops", folder / "houses.csv", "--target", "town")
    assert code == 1
    assert "holds words such as 'Rome'" in err


def test_the_target_decides():
    rng = np.random.default_rng(0)
    n = 4000
    for values, task in (
        (rng.normal(size=n), "regression"),
        (rng.integers(3, size=n), "classification"),
        (rng.integers(3, size=n) / 2, "classification"),
        (rng.integers(50, size=n) * 7, "classification"),
        (np.arange(n) % 100, "classification"),  # classes are numbered from 0 or from 1
        (1 + np.arange(n) % 100, "classification"),
        (rng.permutation(n), "regression"),
        (np.array(["a", "b"] * 50), "classification"),
        (np.array(["1,200.50", "13.25"] * 50 + [f"{i}.75" for i in range(100)]), "regression"),
    ):
        found = learn_target(pl.Series(values), "y")
        assert found.task == task
        assert task == "classification" or found.apply(pl.Series(values))[0].dtype == np.float64
    for either in (3 * (np.arange(n) % 100), np.arange(40)):
        with pytest.raises(DataError, match=r"these can be classes or a measured quantity\. Give --task classification or --task"):
            learn_target(pl.Series(either), "y")
        assert learn_target(pl.Series(either), "y", task="classification").task == "classification"
        assert learn_target(pl.Series(either), "y", task="regression").apply(pl.Series(either))[0].dtype == np.float64


def test_the_model_file_is_the_model(folder):
    made = load_model(folder / "m.skops")
    assert isinstance(made.estimator, LinearSVR)
    assert made.target == "price"
    X = made.features(str(folder / "houses.csv"))
    low, high = made.estimator.prediction_bounds(X)
    assert (low <= made.estimator.predict(X)).all()
    assert (made.estimator.predict(X) <= high).all()


def test_a_constant_target_and_few_rows(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{i},5.5\n" for i in range(20)))
    words = ["fit", tmp_path / "t.csv", "--target", "y", "--task", "regression", "--model", tmp_path / "m", "--json"]
    code, out, err = run(capsys, *words)
    assert code == 0, err
    assert json.loads(out)["training"]["r2"] is None
    (tmp_path / "one.csv").write_text("a,y\n1,5.5\n2,7.5\n")
    code, _, err = run(capsys, "fit", tmp_path / "one.csv", "--target", "y", "--loss", "absolute", "--model", tmp_path / "m")
    assert code == 0, err


def test_a_proof_that_verify_checks(folder, tmp_path, capsys):
    words = ["--target", "price", "--loss", "huber", "--model", tmp_path / "m", "--proof", tmp_path / "p", "--cv", 0]
    assert run(capsys, "fit", folder / "houses.csv", *words)[0] == 0
    code, out, _ = run(capsys, "verify", tmp_path / "p", folder / "houses.csv", "--model", tmp_path / "m")
    assert code == 0, out
    assert "294 rows, " in out
    assert "columns, targets" in out
    code, out, _ = run(capsys, "verify", tmp_path / "p", folder / "houses.csv", "--model", folder / "m.skops")
    assert code == 1
    assert "the model file holds another model than the proof" in out
    changed = (folder / "houses.csv").read_text().splitlines()
    changed[5] = changed[5].replace("1", "2")
    (tmp_path / "changed.csv").write_text("\n".join([*changed, ""]))
    code, out, _ = run(capsys, "verify", tmp_path / "p", tmp_path / "changed.csv", "--model", tmp_path / "m")
    assert code == 1
    assert "the data are not those of the proof" in out
