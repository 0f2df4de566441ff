"""Blocks from pieces: in whatever order, and the same bytes with one thread and with several."""

import numpy as np
import pytest
from scipy import sparse

from dualgap.store import conversion, convert, write_store


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_are_put_in_order(dtype):
    rng = np.random.default_rng(0)
    pieces = [rng.standard_normal((rows, 5)) for rows in (1, 63, 64, 7, 130)]
    order = rng.permutation(265)
    found = conversion._put_together(pieces, order, dtype)["x"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.concatenate(pieces).astype(dtype)[order])


def test_sparse_rows_are_put_in_order():
    """The pieces of LIBSVM text are as wide as their own last column."""
    rng = np.random.default_rng(0)
    matrices = [sparse.random(rows, columns, 0.4, "csr", random_state=rows) for rows, columns in ((3, 9), (20, 4), (1, 7))]
    order = rng.permutation(24)
    found = conversion._put_together(matrices, order, "float64")
    assert {name: array.dtype for name, array in found.items()} == {"indptr": np.int32, "indices": np.int32, "data": np.float64}
    whole = np.concatenate([np.pad(m.toarray(), ((0, 0), (0, 9 - m.shape[1]))) for m in matrices])
    X = sparse.csr_matrix((found["data"], found["indices"], found["indptr"]), shape=(24, 9))
    np.testing.assert_array_equal(X.toarray(), whole[order])


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
    np.testing.assert_array_equal(X, store.preparation.transform(frame))
    assert len(store.preparation.feature_names) == X.shape[1] >= 6
    assert isinstance(frame, polars.DataFrame)
