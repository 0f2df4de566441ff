"""Model files: every model that `fit` can write opens again, elsewhere and in later versions; nothing else does."""

import json
import os
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import polars
import pytest
import skops.io

import dualgap
from dualgap.app.cli import main
from dualgap.app.model_file import ModelError, load_model


def animals(path, rows=60, classes=("cat", "dog", "emu"), seed=0):
    """A table of numbers, categories, dates, text and gaps."""
    rng = np.random.default_rng(seed)
    kind = np.array(classes)[np.arange(rows) % len(classes)]
    place = np.arange(rows) % len(classes)
    frame = polars.DataFrame(
        {
            "weight": [None if rng.random() < 0.1 else round(float(4 * p + rng.normal()), 3) for p in place],
            "coat": np.where(rng.random(rows) < 0.8, np.array(["fur", "hair", "plumes"])[place % 3], "none of these"),
            "born": [f"20{10 + int(rng.integers(9))}-0{1 + int(p)}-11" for p in place],
            "said": [f"it {w} very much {i}" for i, w in enumerate(np.array(["purrs", "barks", "booms"])[place % 3])],
            "animal": kind,
        }
    )
    frame.write_csv(path)
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables with two and with three classes, as LIBSVM text and as a store too."""
    made = tmp_path_factory.mktemp("models")
    animals(made / "two.csv", classes=("cat", "dog"))
    animals(made / "three.csv")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    for name, y in (("two", (X[:, 0] > 0) * 1), ("three", np.arange(60) % 3)):
        np.savez(made / f"{name}.npz", X=X + y[:, None], y=y)
        lines = [
            f"{k} " + " ".join(f"{j + 1}:{v:.4f}" for j, v in enumerate(row)) for k, row in zip(y, X + y[:, None], strict=True)
        ]
        (made / f"{name}.svm").write_text("\n".join(lines) + "\n")
        assert main(["convert", str(made / f"{name}.svm"), str(made / f"{name}-store")]) == 0
    return made


def fit(data, model, *options):
    assert main(["fit", str(data), "--model", str(model), "--tol", "1e-2", "--cv", "0", *options]) == 0
    return model


DATA = ["two.csv", "three.csv", "two.npz", "three.npz", "two.svm", "three.svm", "two-store", "three-store"]


@pytest.mark.parametrize("loss", ["hinge", "smooth_hinge", "squared_hinge", "logistic"])
def test_every_loss_opens(folder, tmp_path, loss, capsys):
    for data in ("two.csv", "three.csv"):
        fit(folder / data, tmp_path / "m.skops", "--target", "animal", "--loss", loss)
        assert load_model(tmp_path / "m.skops").estimator.loss == {"logistic": "log_loss"}.get(loss, loss)


@pytest.mark.parametrize(
    "options", [["--intercept", "none"], ["--intercept", "penalised", "--balanced"], ["--l2", "0.1", "--solver", "sdca"]]
)
def test_every_option_opens(folder, tmp_path, options, capsys):
    for data in DATA[:4]:
        target = ["--target", "animal"] if data.endswith("csv") else []
        fit(folder / data, tmp_path / "m.skops", *target, *options)
        assert main(["certify", str(tmp_path / "m.skops"), str(folder / data)]) == 0
        assert "relative gap" in capsys.readouterr().out


def test_all_kinds_of_data_open_in_another_process(folder, tmp_path, capsys):
    """A process of its own, with the package in another place, reads each model by its file alone and predicts what this one predicts."""
    for data in DATA:
        target = ["--target", "animal"] if data.endswith("csv") else []
        fit(folder / data, tmp_path / f"{data}.skops", *target)
    expected = {}
    for data in DATA:
        capsys.readouterr()
        assert main(["predict", str(tmp_path / f"{data}.skops"), str(folder / data)]) == 0
        expected[data] = capsys.readouterr().out
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    code = (
        "import sys, io, json, contextlib, dualgap\n"
        f"assert dualgap.__file__.startswith({str(tmp_path)!r}), dualgap.__file__\n"
        "from dualgap.app.cli import main\n"
        "said = {}\n"
        f"for data in {DATA!r}:\n"
        "    out = io.StringIO()\n"
        "    with contextlib.redirect_stdout(out):\n"
        f"        assert main(['predict', {str(tmp_path)!r} + '/' + data + '.skops', {str(folder)!r} + '/' + data]) == 0\n"
        "    said[data] = out.getvalue()\n"
        "print(json.dumps(said))\n"
    )
    package = tmp_path / "installed" / "dualgap"  # the package in another place, as an installed one is
    shutil.copytree(os.path.dirname(dualgap.__file__), package, ignore=shutil.ignore_patterns("__pycache__"))
    env = {**os.environ, "PYTHONPATH": str(package.parent)}
    ran = subprocess.run([sys.executable, "-c", code], cwd=elsewhere, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == expected


def test_a_file_holds_plain_data_alone(folder, tmp_path, capsys):
    """No type of ours is in the file: the next version may move its modules."""
    for data in DATA:
        target = ["--target", "animal"] if data.endswith("csv") else []
        model = fit(folder / data, tmp_path / "m.skops", *target)
        assert skops.io.get_untrusted_types(file=model) == []
        assert b"dualgap.estimators" not in zipfile.ZipFile(model).read("schema.json")


def test_a_file_of_a_newer_version_says_so(tmp_path):
    path = tmp_path / "new.skops"
    skops.io.dump({"format": "dualgap-model-99", "dualgap": "7.0"}, path)
    with pytest.raises(ModelError, match=r"has the format dualgap-model-99, written by dualgap 7\.0; .* reads dualgap-model-1"):
        load_model(path)
    skops.io.dump({"format": "dualgap-model-1", "estimator": {}}, path)
    with pytest.raises(ModelError, match="is a damaged model file"):
        load_model(path)
