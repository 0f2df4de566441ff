"""Blocks from pieces: the kernels against NumPy, and the same bytes with one thread and with several."""

import numpy as np
import pytest
from scipy import sparse

from dualgap.store import conversion, convert, write_store
from dualgap.store.assembly import gather_rows
from dualgap.store.file_pieces import ColumnPiece, Piece


def column_piece(rng, rows, width):
    values = rng.standard_normal((width, rows)) * 10.0 ** rng.integers(-3, 4, size=(width, 1))
    return ColumnPiece(np.zeros(rows), values, rng.standard_normal(width), np.exp(rng.standard_normal(width)))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_columns_and_rows_are_put_in_order(dtype, shuffled):
    """The scaling is that of NumPy, bit for bit: a model scales what it predicts in NumPy."""
    rng = np.random.default_rng(0)
    pieces = [column_piece(rng, rows, 5) for rows in (1, 63, 64, 130)]
    pieces.insert(2, Piece(np.zeros(7), (rng.standard_normal((7, 5)),)))
    order = rng.permutation(265) if shuffled else None
    plain = np.concatenate([p.arrays[0] if isinstance(p, Piece) else (p.values.T - p.centre) / p.scale for p in pieces]).astype(
        dtype
    )
    found = gather_rows(pieces, order, dtype)["x"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, plain if order is None else plain[order])


def test_sparse_rows_are_put_in_order():
    rng = np.random.default_rng(0)
    matrices = [sparse.random(rows, 9, 0.4, "csr", random_state=rows) for rows in (3, 20, 1)]
    pieces = [Piece(np.zeros(m.shape[0]), (m.indptr, m.indices, m.data)) for m in matrices]
    order = rng.permutation(24)
    found = gather_rows(pieces, order, "float64")
    X = sparse.csr_matrix((found["data"], found["indices"], found["indptr"]), shape=(24, 9))
    assert (sparse.vstack(matrices, format="csr")[order] != X).nnz == 0


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_threads_change_no_byte(tmp_path, monkeypatch, storage):
    def pairs():
        rng = np.random.default_rng(1)
        for k in range(30):
            X = rng.standard_normal((40, 6)) if storage == "dense" else sparse.random(40, 6, 0.5, "csr", random_state=k)
            yield X, rng.integers(3, size=40)

    two = write_store(pairs(), tmp_path / "two", block_bytes=5000)
    monkeypatch.setattr(conversion, "MIXERS", 1)
    one = write_store(pairs(), tmp_path / "one", block_bytes=5000)
    assert len(one.parts) > 4
    assert one.manifest == two.manifest  # sizes and checksums of all files
    two.verify()


@pytest.mark.parametrize("word", ["1.5", " 2", "+3", "1e-320", "123456789012345678901234567890", ".5", '"7"'])
def test_later_pieces_of_csv_are_parsed_as_the_first(tmp_path, monkeypatch, word):
    """The types that the first piece shows are those of the file, and a number means the same in every piece."""
    from dualgap.data import csv_files

    monkeypatch.setattr(csv_files, "PIECE_BYTES", 64)
    lines = [f"{k},{k % 3},{'ab'[k % 2]}" for k in range(40)]
    lines[30] = f"{word},1,a"
    (tmp_path / "t.csv").write_text("u,v,label\n" + "\n".join(lines) + "\n")
    store = convert(tmp_path / "t.csv", tmp_path / "store", shuffle=False)
    X = np.concatenate([store.matrix(k) for k in range(len(store.parts))])
    expected = np.arange(40.0)
    expected[30] = float(word.strip('"'))
    np.testing.assert_array_equal(X[:, 0], expected)
    assert store.classes.tolist() == ["a", "b"]


@pytest.mark.parametrize("separator", [",", ";"])
def test_prepared_csv_is_what_the_table_gives(tmp_path, monkeypatch, separator):
    """Numbers, gaps in several spellings, quotes with line ends, a category: piece by piece as all at once."""
    polars = pytest.importorskip("polars")
    from dualgap.data import TableOptions, csv_files, read_table

    monkeypatch.setattr(csv_files, "PIECE_BYTES", 700)
    rng = np.random.default_rng(0)
    numbers = [f"{v:.5g}" for v in rng.standard_normal(300)]
    for k, word in ((50, "NA"), (90, ""), (91, "?"), (200, " 7 "), (201, "nan"), (299, "missing")):
        numbers[k] = word
    towns = [['"Rome\nItaly"', "Oslo", '"Kyiv, Ukraine"', "-"][k] for k in rng.integers(4, size=300)]
    whole = rng.integers(100, size=300)
    lines = [separator.join(['"a name"', "town", "v", "label"])]
    lines += [separator.join([n, t, str(w), "yx"[int(w > 50)]]) for n, t, w in zip(numbers, towns, whole, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    store = convert(tmp_path / "t.csv", tmp_path / "store", target="label", tables=TableOptions(), shuffle=False, block_bytes=900)
    X = np.concatenate([store.matrix(k) for k in range(len(store.parts))])
    frame = read_table(tmp_path / "t.csv").frame
    assert frame.height == 300
    np.testing.assert_array_equal(X, store.preparation.apply(frame))
    assert len(store.preparation.feature_names) == X.shape[1] >= 6
    assert isinstance(frame, polars.DataFrame)


def test_columns_are_the_features_of_apply():
    polars = pytest.importorskip("polars")
    from dualgap.data import Preparation

    rng = np.random.default_rng(0)
    frame = polars.DataFrame(
        {
            "u": 1e6 * rng.standard_normal(200),
            "gaps": [None if k % 7 == 0 else float(k) for k in range(200)],
            "town": [["a", "b", "c"][k % 3] for k in range(200)],
            "day": [f"2024-0{1 + k % 9}-1{k % 7}" for k in range(200)],
            "y": rng.integers(2, size=200),
        }
    )
    preparation = Preparation.learn(frame, "y")
    values, centre, scale = preparation.columns(frame)
    np.testing.assert_array_equal((values.T - centre) / scale, preparation.apply(frame))
