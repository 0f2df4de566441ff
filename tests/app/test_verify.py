"""`dualgap verify` and `fit --proof`: a proof goes from one user to another."""

import json

import numpy as np
import pytest

from conftest import make_data
from dualgap.app.cli import main

FIT = ["--tol", "1e-3", "--loss", "hinge"]


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def text(tmp_path):
    """LIBSVM text with labels ±1, columns counted from 1, the last one empty in most rows."""
    X, y = make_data(n=40, d=4)
    X[5:, 3] = 0.0
    lines = [
        " ".join([f"{label:+g}", *(f"{j + 1}:{x:.4g}" for j, x in enumerate(row) if x)]) for row, label in zip(X, y, strict=True)
    ]
    path = tmp_path / "train.libsvm"
    path.write_text("\n".join([*lines, ""]))
    return path


def make_table(path, names):
    """A CSV table of 60 rows with labels in words."""
    X, _ = make_data(n=60, d=3)
    kinds = np.array(names)[np.arange(60) % len(names)]
    rows = [f"{a:.4f},{kind},{b:.4f},{c:.4f}" for (a, b, c), kind in zip(X, kinds, strict=True)]
    path.write_text("\n".join(["size,animal,weight,age", *rows, ""]))
    return path


def test_libsvm_text(capsys, text, tmp_path):
    proof = tmp_path / "a.proof"
    code, out, err = run(capsys, "fit", text, "--model", tmp_path / "a.skops", "--proof", proof, *FIT)
    assert code == 0, err
    assert out.splitlines()[-1] == str(proof)
    code, out, err = run(capsys, "verify", proof, text)
    assert code == 0, out + err
    assert (
        'verified: "hinge": hinge; l2 0.025, l1 0; intercept free; 40 rows, each of weight 0.025; class 1 against class 0\n' in out
    )
    told = json.loads(run(capsys, "verify", proof, text, "--json")[1])
    assert told["proven"] is True
    (claim,) = told["claims"]
    assert 0 <= claim["primal"] - claim["dual"] <= claim["gap"] * (1 + 1e-12) + 1e-15
    # A row without its last label, and the proof of another model.
    other = tmp_path / "other.libsvm"
    other.write_text(text.read_text().replace("+1 ", "-1 ", 1))
    code, out, _ = run(capsys, "verify", proof, other)
    assert (code, out.startswith("refused: the data are not those of the proof")) == (1, True)
    code, out, _ = run(capsys, "verify", proof, other, "--json")
    assert (code, json.loads(out)["proven"]) == (1, False)
    proof.write_bytes(proof.read_bytes()[:-1])
    code, out, _ = run(capsys, "verify", proof, text)
    assert (code, out.startswith("refused: the SHA-256")) == (1, True)


def test_a_prepared_table(capsys, tmp_path):
    """Dense columns are standardised: the proof says so, and the model file does it again."""
    table = make_table(tmp_path / "train.csv", ["ant", "bee"])
    proof, model = tmp_path / "a.proof", tmp_path / "a.skops"
    code, _, err = run(capsys, "fit", table, "--target", "animal", "--model", model, "--proof", proof, *FIT)
    assert code == 0, err
    code, out, _ = run(capsys, "verify", proof, table, "--target", "animal")
    assert code == 1
    assert "give --model" in out
    exported = tmp_path / "a.data"
    code, out, err = run(capsys, "verify", proof, table, "--target", "animal", "--model", model, "--export", exported)
    assert code == 0, out + err
    assert 'prepared by "Preparation of a table' in out
    assert "after this preparation" in out
    assert out.count("verified: ") == 1
    code, out, err = run(capsys, "verify", proof, exported)
    assert code == 0, out + err
    other = tmp_path / "other.skops"
    run(capsys, "fit", table, "--target", "animal", "--model", other, "--C", "0.1", *FIT)
    code, out, _ = run(capsys, "verify", proof, table, "--target", "animal", "--model", other)
    assert (code, "another model" in out) == (1, True)


def test_several_classes(capsys, tmp_path):
    """A proof for each class against the rest, in one file."""
    table, proof = make_table(tmp_path / "train.csv", ["ant", "bee", "fly"]), tmp_path / "a.proof"
    options = ["--target", "animal", "--no-standardise", "--model", tmp_path / "a.skops", "--proof", proof]
    code, _, err = run(capsys, "fit", table, *options, *FIT)
    assert code == 0, err
    code, out, err = run(capsys, "verify", proof, table, "--target", "animal")
    assert code == 0, out + err
    assert out.count('verified: "class ') == 3


def test_labels_that_the_proof_does_not_know(capsys, text, tmp_path):
    proof = tmp_path / "a.proof"
    run(capsys, "fit", text, "--model", tmp_path / "a.skops", "--proof", proof, *FIT)
    text.write_text(text.read_text().replace("+1 ", "3 ", 1))
    code, out, _ = run(capsys, "verify", proof, text)
    assert code == 1
    assert "the label 3" in out


def test_files_that_are_not_there(capsys, text, tmp_path):
    code, _, err = run(capsys, "verify", tmp_path / "no.proof", text)
    assert code == 1
    assert "no.proof" in err


def test_a_store_has_no_proof(capsys, text, tmp_path):
    assert run(capsys, "convert", text, tmp_path / "store")[0] == 0
    code, _, err = run(capsys, "fit", tmp_path / "store", "--model", tmp_path / "a.skops", "--proof", tmp_path / "a.proof", *FIT)
    assert code == 1
    assert "a.proof needs the rows in memory, and" in err
    assert not (tmp_path / "a.skops").exists()
