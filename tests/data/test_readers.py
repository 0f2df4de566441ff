"""read: CSV, Parquet, NPZ and MAT files, good and bad."""

import bz2
import gzip
import zipfile

import numpy as np
import polars
import pytest
import scipy.io
from scipy import sparse

from dualgap.data import DataError, DataSet, read, write_npz

TABLE = "a,b,label,c\n1,0.5,yes,3\n2,1.5,no,4\n-1,2e3,yes,5\n"
X = np.array([[1, 0.5, 3], [2, 1.5, 4], [-1, 2000, 5]])


@pytest.fixture
def file(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


# ------------------------------------------------------------------------------------------------------------------------- CSV


@pytest.mark.parametrize("target", ["label", 2, -2, "2", None])
def test_csv(file, target):
    data = read(file("t.csv", TABLE), target, prepare=False)
    assert np.array_equal(data.X, X)
    assert data.y.tolist() == ["yes", "no", "yes"]
    assert data.feature_names == ("a", "b", "c")
    assert data.name == "t"


@pytest.mark.parametrize("separator", [";", "\t"])
def test_csv_separators_and_line_ends(file, separator):
    text = "\ufeff" + TABLE.replace(",", separator).replace("\n", "\r\n")
    data = read(file("t.csv", text), "label", prepare=False)
    assert np.array_equal(data.X, X)
    assert data.feature_names == ("a", "b", "c")


def test_csv_without_header(file):
    path = file("t.csv", "1,2,0\n3,4,1\n5,6.5,1\n")
    data = read(path, target=-1, prepare=False)
    assert np.array_equal(data.X, [[1, 2], [3, 4], [5, 6.5]])
    assert data.y.tolist() == [0, 1, 1]
    assert data.y.dtype == np.int64
    assert data.feature_names is None
    with pytest.raises(DataError, match="has no header; give target=NUMBER"):
        read(path, prepare=False)
    with pytest.raises(DataError, match="no header; give a column number, 0…2"):
        read(path, target="label", prepare=False)


def test_csv_packed(file, tmp_path):
    for name, content in {"t.csv.gz": gzip.compress(TABLE.encode()), "t.csv.bz2": bz2.compress(TABLE.encode())}.items():
        assert np.array_equal(read(file(name, content), target="label").X, X)
    with zipfile.ZipFile(tmp_path / "t.csv.zip", "w") as archive:
        archive.writestr("folder/inner.csv", TABLE)
        archive.writestr("README", "hello")
    data = read(tmp_path / "t.csv.zip", target="label")
    assert np.array_equal(data.X, X)
    assert data.name == "inner"
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", TABLE)
        archive.writestr("b.csv", TABLE)
    with pytest.raises(DataError, match="holds 2 CSV files; exactly one"):
        read(tmp_path / "two.zip")
    whole = (tmp_path / "t.csv.zip").read_bytes()
    with pytest.raises(DataError, match="cut short"):
        read(file("cut.csv.zip", whole[: len(whole) // 2]))


@pytest.mark.parametrize(
    ("text", "target", "match"),
    [
        (TABLE, "lable", "no column 'lable'; did you mean 'label'\\? its columns are a, b, label, c"),
        (TABLE, 4, "target is 4, but .* has 4 columns"),
        ("a,b\n1,2\n", None, r"which column of .* holds the labels\? Give target=NAME"),
        ("label,class,x\n1,2,3\n", None, "which column"),
        ("x,colour,y\n1,red,0\n2,blue,1\n", "y", "t.csv: column 'colour', row 1: 'red' is not a finite number"),
        ("x,y\n1,0\n,1\n3,1\n", "y", "column 'x' has a missing value in row 2"),
        ("x,y\n1,a\n2,\n3,b\n", "y", "column 'y' has a missing value in row 2"),
        ("x,y\n", "y", "a header but no rows"),
        ("y\n1\n2\n", "y", "no column besides the labels"),
        ("\n\n", "y", "is empty"),
        (b"a,b\n\x00\x01", "a", "zero bytes"),
        (b"\xe4,b\n1,2\n", "b", "not UTF-8"),
    ],
)
def test_csv_errors(file, text, target, match):
    with pytest.raises(DataError, match=match):
        read(file("t.csv", text), target, prepare=False)


def test_csv_ragged_rows(file):
    with pytest.raises(DataError, match="not a well-formed CSV table"):
        read(file("t.csv", "a,y\n1,0\n2,1,7,8\n"), "y", prepare=False)


def test_csv_fraction_late_in_a_whole_column(file):
    rows = "\n".join(f"{i},{i % 2}" for i in range(12_000))
    data = read(file("t.csv", f"x,y\n{rows}\n0.25,1\n"), "y", prepare=False)
    assert data.X[-1, 0] == 0.25


# --------------------------------------------------------------------------------------------------------------------- Parquet


def test_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    frame = polars.DataFrame({"a": [1, 2], "b": [True, False], "kind": polars.Series(["u", "v"], dtype=polars.Categorical)})
    frame.write_parquet(path)
    data = read(path, target="kind")
    assert data.X.tolist() == [[1, 1], [2, 0]]
    assert data.y.tolist() == ["u", "v"]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="not a whole Parquet file"):
        read(path, target="kind")
    polars.DataFrame({"a": [1.0, None], "y": [0, 1]}).write_parquet(path)
    with pytest.raises(DataError, match="column 'a' has a missing value in row 2"):
        read(path, prepare=False)
    assert read(path).X[:, 1].tolist() == [0.0, 1.0]  # filled and flagged


# ------------------------------------------------------------------------------------------------------------------- NPZ and MAT


def test_npz_round_trip(tmp_path):
    rng = np.random.default_rng(0)
    dense = DataSet("dense", rng.random((5, 3)).astype(np.float32), np.arange(5) % 2, rng.random((2, 3)).astype(np.float32), [0, 1])
    thin = DataSet(
        "thin", sparse.csr_matrix(dense.X > 0.5).astype(float), ["a", "b", "a", "b", "b"], sparse.csr_matrix((2, 3)), ["a", "b"]
    )
    for data in (dense, thin):
        path = tmp_path / f"{data.name}.npz"
        write_npz(data, path)
        back = read(path)
        assert back.name == data.name
        for part in ("X", "X_test"):
            one, other = getattr(data, part), getattr(back, part)
            assert sparse.issparse(one) == sparse.issparse(other)
            assert one.dtype == other.dtype
            assert abs(one - other).sum() == 0
        assert np.array_equal(back.y, data.y)
        assert np.array_equal(back.y_test, data.y_test)
    assert not list(tmp_path.glob("*.partial"))


def test_npz_of_scipy(tmp_path):
    path = tmp_path / "s.npz"
    sparse.save_npz(path, sparse.csc_matrix(np.eye(3)))
    with pytest.raises(DataError, match="no variable for the labels"):
        read(path)
    with np.load(path) as saved:
        np.savez(path, **{name: saved[name] for name in saved.files}, labels=[0.0, 1.0, 1.0])
    data = read(path)
    assert np.array_equal(data.X.toarray(), np.eye(3))
    assert data.y.dtype == np.int64


def test_npz_errors(tmp_path, file):
    np.savez(tmp_path / "a.npz", X=np.eye(2), y=[0, 1], z=[1, 0])
    assert read(tmp_path / "a.npz", target="z").y.tolist() == [1, 0]
    with pytest.raises(DataError, match=r"no variable for the labels .looked for w.; it holds X, y, z"):
        read(tmp_path / "a.npz", target="w")
    with pytest.raises(DataError, match="cut short"):
        read(file("b.npz", (tmp_path / "a.npz").read_bytes()[:300]))
    np.savez(tmp_path / "c.npz", X=np.eye(2), y=[0, 1, 1])
    with pytest.raises(DataError, match=r"c\.npz: .*y has shape \(3,\), but X has 2 rows"):
        read(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", X=np.array([["a"]]), y=[0])
    with pytest.raises(DataError, match="must hold real numbers"):
        read(tmp_path / "d.npz")
    np.savez(tmp_path / "e.npz", X=np.array([[object()]]), y=[0])
    with pytest.raises(DataError, match="holds objects"):
        read(tmp_path / "e.npz")


def test_mat(tmp_path, file):
    path = tmp_path / "m.mat"
    scipy.io.savemat(path, {"Xtrain": np.eye(3), "ytrain": [[1], [-1], [1]], "Xtest": np.ones((2, 3)), "ytest": [[1, -1]]})
    data = read(path)
    assert data.shape == (3, 3)
    assert data.y.tolist() == [1, -1, 1]
    assert data.y_test.tolist() == [1, -1]
    scipy.io.savemat(path, {"X": sparse.csc_matrix(np.eye(3)), "y": [[0, 1, 1]]})
    assert read(path).is_sparse
    scipy.io.savemat(path, {"A": np.eye(3)})
    with pytest.raises(DataError, match=r"no variable for the samples .*it holds A"):
        read(path)
    with pytest.raises(DataError, match="not a whole MAT file"):
        read(file("cut.mat", path.read_bytes()[:150]))
    for text in ("hello", "hello" * 20):  # shorter than a header of MATLAB 4, and of MATLAB 5
        with pytest.raises(DataError, match="not a whole MAT file"):
            read(file("text.mat", text))


# ---------------------------------------------------------------------------------------------------------------------- any file


BAD_PLACES = {
    "a row beyond the last": ([0, 1, 10**9, 3], [0, 2, 4]),
    "a negative row": ([0, -1, 2, 3], [0, 2, 4]),
    "an offset beyond the end": ([0, 1, 2, 3], [0, 10**9, 4]),
    "offsets that do not begin at 0": ([0, 1, 2, 3], [2, 2, 4]),
}


@pytest.mark.parametrize("name", BAD_PLACES)
@pytest.mark.parametrize("kind", ["csc", "csr"])
def test_forged_sparse_archives(tmp_path, name, kind):
    """SciPy converts without bounds checks: a row beyond the last ended in a segmentation fault."""
    indices, indptr = (np.array(values, dtype=np.int32) for values in BAD_PLACES[name])
    shape = (4, 2) if kind == "csc" else (2, 4)
    arrays = {"data": np.ones(4), "indices": indices, "indptr": indptr, "shape": np.array(shape), "format": np.array(kind)}
    np.savez(tmp_path / "t.npz", y=np.arange(shape[0]) % 2, **arrays)
    with pytest.raises(DataError, match="the sparse matrix is damaged"):
        read(tmp_path / "t.npz")


def test_forged_sparse_mat(tmp_path):
    path = tmp_path / "t.mat"
    places = [np.array(rows, dtype="<i4").tobytes() for rows in ([0, 1, 2, 3], [0, 1, 10**9, 3])]
    X = sparse.csc_matrix((np.ones(4), np.arange(4), np.array([0, 2, 4])), shape=(4, 2))
    scipy.io.savemat(path, {"X": X, "y": np.array([0.0, 1, 0, 1])})
    assert path.read_bytes().count(places[0]) == 1
    path.write_bytes(path.read_bytes().replace(*places))
    with pytest.raises(DataError, match=r"the sparse matrix is damaged|not a whole MAT file"):
        read(path)


def test_files_that_cannot_be_read(tmp_path, file):
    with pytest.raises(DataError, match="does not exist"):
        read(tmp_path / "none.csv")
    with pytest.raises(DataError, match="is a folder"):
        read(tmp_path)
    for name in ("t.csv", "t.npz", "t.mat", "t.parquet", "t.svm"):
        with pytest.raises(DataError, match="is empty"):
            read(file(name, b""))
    with pytest.raises(DataError, match="save the sheet as CSV"):
        read(file("t.xlsx", b"PK"))
    with pytest.raises(DataError, match="could run code"):
        read(file("t.pkl", b"\x80"))


def test_data_set_checks_its_parts():
    with pytest.raises(DataError, match="y has shape"):
        DataSet("d", np.eye(2), [1])
    with pytest.raises(DataError, match="X_test has 3 columns"):
        DataSet("d", np.eye(2), [0, 1], np.eye(3), [0, 1, 1])
    with pytest.raises(DataError, match="both X_test and y_test"):
        DataSet("d", np.eye(2), [0, 1], np.eye(2))
    with pytest.raises(DataError, match="1 feature names for 2 columns"):
        DataSet("d", np.eye(2), [0, 1], feature_names=["a"])
    with pytest.raises(AttributeError):
        DataSet("d", np.eye(2), [0, 1]).name = "e"
