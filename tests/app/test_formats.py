"""Every command takes every format: fit, predict, certify, convert and compare on the same rows in each of them."""

import bz2
import csv
import gzip
import io
import json
import lzma
import sys
import zipfile

import numpy as np
import polars as pl
import pytest
from scipy import io as scipy_io
from scipy import sparse

from dualgap import LinearSVC
from dualgap.app.cli import main
from dualgap.store import Store

ROWS = 90
PACK = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = (rng.normal(size=(ROWS, 3)) * [1.0, 50.0, 0.02] + [0.0, 300.0, 1.0]).round(4)
    return X, (scaled(X) @ [1.0, -1.0, 0.5] + 0.3 * rng.normal(size=ROWS) > 0).astype(np.int64)


def scaled(X):
    return (X - X.mean(0)) / X.std(0)


def libsvm(X, y):
    return "".join(f"{t} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(x)) + "\n" for x, t in zip(X, y, strict=True)).encode()


def npz(X, y):
    stream = io.BytesIO()
    np.savez(stream, X=X, y=y)
    return stream.getvalue()


def sparse_npz(X, y):
    stream, matrix = io.BytesIO(), sparse.csr_matrix(X)
    parts = {f"X_{key}": getattr(matrix, key) for key in ("data", "indices", "indptr", "shape")}
    np.savez(stream, y=y, **parts)
    return stream.getvalue()


def mat(X, y):
    stream = io.BytesIO()
    scipy_io.savemat(stream, {"X": X, "y": y})
    return stream.getvalue()


def frame(X, y):
    return pl.DataFrame({**dict(zip(NAMES, X.T, strict=True)), "label": y})


def table(kind):
    def content(X, y):
        stream = io.BytesIO()
        whole = frame(X, y)
        if kind == "tsv":
            whole.write_csv(stream, separator="\t")
        else:
            {"csv": whole.write_csv, "parquet": whole.write_parquet, "arrow": whole.write_ipc, "arrows": whole.write_ipc_stream}[
                kind
            ](stream)
        return stream.getvalue()

    return content


def zipped(X, y):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("inside.csv", table("csv")(X, y))
    return stream.getvalue()


PLAIN = {
    **{kind: table(kind) for kind in ("csv", "tsv", "parquet", "arrow", "arrows")},
    "libsvm": libsvm,
    "npz": npz,
    "mat": mat,
}
ONE_FILE = {
    **PLAIN,
    "zip": zipped,
    **{f"{kind}.{packed}": (kind, packed) for kind, packed in zip(("csv", "tsv", "libsvm"), PACK, strict=True)},
    **{f"{kind}.gz": (kind, "gz") for kind in ("parquet", "arrow", "npz", "mat")},
}
SPARSE = {"libsvm", "libsvm.xz", "sparse.npz", "several libsvm", "stdin libsvm"}
FORMATS = [
    *ONE_FILE,
    "sparse.npz",
    *(f"several {kind}" for kind in ("csv", "parquet", "arrow", "libsvm", "npz")),
    "folder",
    *(f"stdin {kind}" for kind in PLAIN),
    "stdin csv.gz",
    "stdin parquet.gz",
]


def content_of(kind, X, y):
    made = {**ONE_FILE, "sparse.npz": sparse_npz}[kind]
    return PACK[made[1]](PLAIN[made[0]](X, y)) if isinstance(made, tuple) else made(X, y)


@pytest.fixture
def given(request, rows, tmp_path, monkeypatch):
    """The words that name the data in a format; standard input starts anew at each call. Sparse rows are not scaled: these are before."""
    X, y = rows
    how, _, kind = request.param.rpartition(" ")
    X = scaled(X) if request.param in SPARSE else X
    if how == "stdin":
        content = content_of(kind, X, y)

        def words():
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
            return ["-"]

        return words
    if kind == "folder":
        (tmp_path / "folder").mkdir()
        for k in range(3):
            (tmp_path / "folder" / f"part-{k}.parquet").write_bytes(
                content_of("parquet", X[30 * k : 30 * k + 30], y[30 * k : 30 * k + 30])
            )
        return lambda: [str(tmp_path / "folder")]
    parts = [(X, y)] if not how else [(X[:40], y[:40]), (X[40:], y[40:])]
    for k, part in enumerate(parts):
        (tmp_path / f"rows-{k}.{kind}").write_bytes(content_of(kind, *part))
    return lambda: [str(tmp_path / f"rows-{k}.{kind}") for k in range(len(parts))]


def run(capsys, *words):
    capsys.readouterr()
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def labels(out):
    return [row[0] for row in csv.reader(out.splitlines())][1:]


@pytest.fixture(scope="module")
def expected(rows):
    """The labels of a model on scaled rows."""
    X, y = rows
    return LinearSVC(tol=1e-6).fit(scaled(X), y).predict(scaled(X)).astype(str).tolist()


@pytest.mark.parametrize("given", FORMATS, indirect=True)
def test_fit_predict_certify(given, expected, tmp_path, capsys):
    told = json.loads(run(capsys, "fit", *given(), "--model", tmp_path / "m", "--tol", "1e-6", "--cv", 0, "--json"))
    assert (told["rows"], told["columns"], told["status"]) == (ROWS, 3, "converged")
    assert labels(run(capsys, "predict", tmp_path / "m", *given())) == expected
    assert json.loads(run(capsys, "certify", tmp_path / "m", *given(), "--tol", "1e-4", "--json"))["relative_gap"] <= 1e-4


@pytest.mark.parametrize("given", FORMATS, indirect=True)
def test_convert(given, expected, tmp_path, capsys):
    told = json.loads(run(capsys, "convert", *given(), tmp_path / "store", "--json"))
    assert (told["rows"], told["features"], told["classes"]) == (ROWS, 3, [0, 1])
    assert Store(tmp_path / "store").shape == (ROWS, 3)
    run(capsys, "fit", tmp_path / "store", "--model", tmp_path / "m", "--tol", "1e-6", "--json")
    assert labels(run(capsys, "predict", tmp_path / "m", *given())) == expected
    assert labels(run(capsys, "predict", tmp_path / "m", tmp_path / "store")) == expected
    run(capsys, "certify", tmp_path / "m", *given(), "--tol", "1e-4")


@pytest.mark.parametrize("given", FORMATS, indirect=True)
def test_compare(given, request, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("dualgap.lab.write_report", lambda results, folder, missing=None: folder / "report.html")
    several = request.node.callspec.params["given"].startswith("several")
    options = ["--solvers", "newton", "--loss", "hinge", "--runs", 1, "--jobs", 1, "--out", tmp_path / "out", "--json"]
    told = json.loads(run(capsys, "compare", *given(), *options))
    assert len(told["problems"]) == (2 if several else 1)  # a race for each file
    assert told["problems"][0]["solvers"][0]["status"] == "converged"
    assert told["missing"] == {}


@pytest.mark.parametrize("kind", ["csv", "npz", "libsvm"])
def test_a_model_of_one_format_reads_another(rows, kind, tmp_path, capsys):
    """Columns of an array have no names: they are matched by place, or refused where a model knows names."""
    X, y = rows
    X = scaled(X)  # as sparse data must be
    for name in ("csv", "npz", "libsvm"):
        (tmp_path / f"t.{name}").write_bytes(content_of(name, X, y))
    bare = [f"{x[0]},{x[1]},{x[2]},{t}" for x, t in zip(X, y, strict=True)]
    (tmp_path / "bare.csv").write_text("\n".join(bare))
    target = ["--target", "3"] if kind == "csv" else []
    source = "bare.csv" if kind == "csv" else f"t.{kind}"
    run(capsys, "fit", tmp_path / source, *target, "--model", tmp_path / "m", "--cv", 0)
    said = labels(run(capsys, "predict", tmp_path / "m", tmp_path / source))
    for other in ("npz", "libsvm"):
        assert labels(run(capsys, "predict", tmp_path / "m", tmp_path / f"t.{other}")) == said
        run(capsys, "certify", tmp_path / "m", tmp_path / f"t.{other}")
    (tmp_path / "unlabelled.csv").write_text("\n".join(line.rsplit(",", 1)[0] for line in bare))
    assert labels(run(capsys, "predict", tmp_path / "m", tmp_path / "unlabelled.csv")) == said


def test_a_model_with_names_refuses_an_array(rows, tmp_path, capsys):
    X, y = rows
    for name in ("csv", "npz"):
        (tmp_path / f"t.{name}").write_bytes(content_of(name, X, y))
    run(capsys, "fit", tmp_path / "t.csv", "--model", tmp_path / "m", "--cv", 0)
    assert main(["predict", str(tmp_path / "m"), str(tmp_path / "t.npz")]) == 1
    assert "its columns have no names, and the model knows them by name" in capsys.readouterr().err
    assert main(["fit", str(tmp_path / "t.csv"), str(tmp_path / "t.npz"), "--target", "label"]) == 1
    assert "cannot be joined" in capsys.readouterr().err
    assert main(["convert", str(tmp_path / "t.csv"), str(tmp_path / "t.npz"), str(tmp_path / "s")]) == 1
    assert "cannot share a store" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["t.xlsx", "t.json", "t.pkl", "t.csv.zst", "t.npy"])
@pytest.mark.parametrize("command", ["fit", "compare", "convert"])
def test_formats_that_are_not_read(name, command, tmp_path, capsys):
    (tmp_path / name).write_bytes(b"PK\x03\x04 something")
    assert main([command, str(tmp_path / name), *([str(tmp_path / "store")] if command == "convert" else [])]) == 1
    assert f"{name}: cannot read" in capsys.readouterr().err
