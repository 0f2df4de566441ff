"""Files to stores: what is in them afterwards, that a stop is gone on from, and that bad input is named by file, line and column."""

import bz2
import itertools
import json
import os
import resource
import zipfile

import numpy as np
import pytest
from scipy import sparse

from dualgap.data import DataError, csv_files, read, read_libsvm, table_files
from dualgap.store import Store, StoreError, convert, sources, write_store


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces and blocks of a few rows, so that a small file has many of them."""
    monkeypatch.setattr(sources, "PIECE_ROWS", 16)
    monkeypatch.setattr(table_files, "PIECE_ROWS", 16)
    monkeypatch.setattr(csv_files, "PIECE_BYTES", 512)


def libsvm_text(rows=300, columns=20, seed=0):
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(rows):
        chosen = np.sort(rng.choice(columns, size=rng.integers(0, 6), replace=False)) + 1
        label = "+1" if i < rows // 3 else "-1"  # sorted by class, as files often are
        lines.append(" ".join([label, *(f"{j}:{rng.standard_normal():.6g}" for j in chosen)]))
    return "\n".join(lines) + "\n"


def as_read(store):
    """The rows and labels of a store in the order of the input."""
    order = np.argsort(store.origin())
    matrices = [store.matrix(k) for k in range(len(store.parts))]
    X = sparse.vstack(matrices, format="csr") if store.is_sparse else np.concatenate(matrices)
    return X[order], store.labels()[order]


def test_libsvm(tmp_path, small_pieces):
    path = tmp_path / "data.libsvm.bz2"
    path.write_bytes(bz2.compress(libsvm_text().encode()))
    store = convert(path, tmp_path / "store", block_bytes=1000)
    X, y = read_libsvm(path)
    X_store, y_store = as_read(store)
    assert (X_store != X).nnz == 0
    assert np.array_equal(y, y_store)
    assert len(store.parts) > 5
    assert store.manifest.counts == [int((y == label).sum()) for label in store.manifest.classes]
    np.testing.assert_allclose(store.sqnorms()[np.argsort(store.origin())], np.asarray(X.multiply(X).sum(axis=1)).ravel())
    store.verify()


def test_every_block_looks_like_the_whole(tmp_path, small_pieces):
    """Input sorted by class: a third of the rows of every part is positive, more or less."""
    path = tmp_path / "data.svm"
    path.write_text(libsvm_text(3000))
    store = convert(path, tmp_path / "store", block_bytes=8000)
    codes, starts = store.codes(), store.starts
    shares = [codes[a:b].mean() for a, b in itertools.pairwise(starts)]
    assert len(shares) > 5
    assert all(0.1 < share < 0.6 for share in shares)
    unshuffled = convert(path, tmp_path / "plain", block_bytes=8000, shuffle=False)
    assert np.array_equal(unshuffled.origin(), np.arange(3000))
    assert unshuffled.codes()[: unshuffled.starts[1]].min() == 1


def test_several_files_are_one(tmp_path, small_pieces):
    text = libsvm_text(200)
    lines = text.splitlines(keepends=True)
    (tmp_path / "whole.svm").write_text(text)
    (tmp_path / "a.svm").write_text("".join(lines[:90]))
    (tmp_path / "b.svm").write_text("".join(lines[90:]))
    whole = as_read(convert(tmp_path / "whole.svm", tmp_path / "one", block_bytes=700))
    both = as_read(convert([tmp_path / "a.svm", tmp_path / "b.svm"], tmp_path / "two", block_bytes=700))
    assert (whole[0] != both[0]).nnz == 0
    assert np.array_equal(whole[1], both[1])


@pytest.mark.parametrize("kind", ["csv", "csv.zip", "parquet"])
def test_tables(tmp_path, small_pieces, kind):
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((150, 3)).round(4), np.where(rng.random(150) < 0.5, "cat", "dog")
    text = "u,v,animal,w\n" + "".join(f"{a},{b},{label},{c}\n" for (a, b, c), label in zip(X, labels, strict=True))
    plain = tmp_path / "pets.csv"
    plain.write_text(text)
    path = plain
    if kind == "csv.zip":
        path = tmp_path / "pets.csv.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("pets.csv", text)
    if kind == "parquet":
        polars = pytest.importorskip("polars")
        path = tmp_path / "pets.parquet"
        polars.read_csv(plain).write_parquet(path)
    store = convert(path, tmp_path / "store", target="animal", block_bytes=600)
    X_store, y_store = as_read(store)
    expected = read(plain, "animal", prepare=False)
    assert len(store.parts) > 2
    np.testing.assert_array_equal(X_store, expected.X)
    np.testing.assert_array_equal(y_store, expected.y)


def test_float32_and_pairs(tmp_path):
    rng = np.random.default_rng(0)
    pairs = [(sparse.random(50, 8, 0.3, "csr", random_state=k), rng.integers(3, size=50)) for k in range(4)]
    store = write_store(pairs, tmp_path / "store", dtype="float32", block_bytes=600, n_features=9)
    X, y = as_read(store)
    assert X.dtype == np.float32
    assert store.shape == (200, 9)
    np.testing.assert_array_equal(X[:, :8].toarray(), sparse.vstack([X for X, _ in pairs]).toarray().astype(np.float32))
    np.testing.assert_array_equal(y, np.concatenate([y for _, y in pairs]))
    with pytest.raises(StoreError, match="holds a store already"):
        write_store(pairs, tmp_path / "store")


class Stop(Exception):
    """Stands for a machine that went down."""


@pytest.mark.parametrize("after", [1, 4, 9, 14])
def test_a_stop_is_gone_on_from(tmp_path, small_pieces, monkeypatch, after):
    """Stopped while reading or while mixing, the same call ends with the very same files."""
    path = tmp_path / "data.svm"
    path.write_text(libsvm_text())
    whole = convert(path, tmp_path / "whole", block_bytes=800)
    assert 9 < len(whole.parts) < 14  # the stops are on both sides of the change from reading to mixing
    done = 0

    def stop(stage, rows):
        nonlocal done
        done += 1
        if done == after:
            raise Stop

    folder = tmp_path / "store"
    with pytest.raises(Stop):
        convert(path, folder, block_bytes=800, progress=stop)
    with pytest.raises(StoreError, match=r"half-converted.*goes on from there"):
        Store(folder)
    stages = []
    store = convert(path, folder, block_bytes=800, progress=lambda stage, rows: stages.append(stage))
    assert len(stages) == 2 * len(whole.parts) - after
    assert store.manifest.parts == whole.manifest.parts
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in whole.folder.iterdir())
    assert convert(path, folder, block_bytes=800).manifest == store.manifest  # done already: nothing to do


def test_a_stop_between_two_files_of_a_part_is_gone_on_from(tmp_path, small_pieces, monkeypatch):
    """Without shuffling, what is read is final: the part whose files were not all written is written again."""
    path = tmp_path / "data.svm"
    path.write_text(libsvm_text(40))
    real, count = os.replace, 0

    def replace(source, target):
        nonlocal count
        if "part-00001" in str(target):
            count += 1
            if count == 3:
                raise Stop
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(Stop):
        convert(path, tmp_path / "store", shuffle=False, block_bytes=100)
    monkeypatch.setattr(os, "replace", real)
    store = convert(path, tmp_path / "store", shuffle=False, block_bytes=100)
    store.verify()
    assert len(store.parts) > 2
    np.testing.assert_array_equal(store.origin(), np.arange(40))


def test_other_options_are_refused(tmp_path, small_pieces):
    path = tmp_path / "data.svm"
    path.write_text(libsvm_text())

    def stop(stage, rows):
        raise Stop

    with pytest.raises(Stop):
        convert(path, tmp_path / "half", block_bytes=1000, progress=stop)
    with pytest.raises(StoreError, match="other options \\(dtype\\)"):
        convert(path, tmp_path / "half", block_bytes=1000, dtype="float32")
    convert(path, tmp_path / "store")
    with pytest.raises(StoreError, match="other data, or with other options"):
        convert(path, tmp_path / "store", dtype="float32")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("Dear")
    with pytest.raises(StoreError, match="not empty"):
        convert(path, tmp_path / "full")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:1\n" * 40 + "1 2:x\n", "data.svm, line 41, column 5: a value must be a number, found 'x'"),
        ("1 1:1\n" * 40 + "1 0:1\n", "column 0 occurs"),
        ("1 1:1\n-1 3:1 2:1\n", "line 2, column 8: columns must ascend"),
    ],
)
def test_bad_libsvm(tmp_path, small_pieces, text, message):
    path = tmp_path / "data.svm"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        convert(path, tmp_path / "store", block_bytes=100)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1.5,oops,cat", "pets.csv: column 'v', row 61: 'oops' is not a finite number"),
        ("1.5,inf,cat", "column 'v', row 61: inf is not a finite number"),
        ("1.5,,cat", "column 'v' has a missing value in row 61, and without preparation nothing fills it"),
        ("1.5,2,", "column 'animal', row 61: the label is missing"),
        ("1.5,2,cat,4", "line 62 has 4 fields, the first line has 3"),
        ("1.5,2", "column 'animal', row 61: the label is missing"),
    ],
)
def test_bad_csv(tmp_path, small_pieces, line, message):
    path = tmp_path / "pets.csv"
    path.write_text("u,v,animal\n" + "1,2,cat\n3,4,dog\n" * 30 + line + "\n" + "1,2,cat\n" * 5)
    with pytest.raises(DataError, match=message):
        convert(path, tmp_path / "store", target="animal", block_bytes=300)


def test_bad_parquet(tmp_path, small_pieces):
    polars = pytest.importorskip("polars")
    path = tmp_path / "a.parquet"
    polars.DataFrame({"u": [1.0] * 40 + [np.inf], "label": [0, 1] * 20 + [0]}).write_parquet(path)
    with pytest.raises(DataError, match=r"a.parquet: column 'u', row 41: inf is not a finite number"):
        convert(path, tmp_path / "store")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match="not a whole Parquet file"):
        convert(path, tmp_path / "store2")


def test_refusals(tmp_path):
    csv, svm = tmp_path / "a.csv", tmp_path / "a.svm"
    csv.write_text("u,label\n1,0\n2,1\n")
    svm.write_text("1 1:1\n-1 1:2\n")
    with pytest.raises(DataError, match="cannot share a store"):
        convert([csv, svm], tmp_path / "store")
    with pytest.raises(DataError, match="there is no such file"):
        convert(tmp_path / "nothing.svm", tmp_path / "store")
    with pytest.raises(ValueError, match="dtype='float16'"):
        convert(svm, tmp_path / "store", dtype="float16")
    with pytest.raises(ValueError, match="block_bytes=0"):
        convert(svm, tmp_path / "store", block_bytes=0)
    huge = tmp_path / "huge.svm"
    huge.write_text("1 1:1e300\n-1 1:1\n")
    with pytest.raises(DataError, match="row 1: a value is too large for float32"):
        convert(huge, tmp_path / "huge", dtype="float32")


def test_manifest_says_what_is_there(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text(libsvm_text())
    convert(path, tmp_path / "store")
    content = json.loads((tmp_path / "store" / "manifest.json").read_text())
    assert (content["rows"], content["features"], content["dtype"], content["storage"]) == (300, 20, "float64", "csr")
    assert content["classes"] == [-1, 1]
    assert content["sources"][0]["path"] == str(path)
    mapped = np.load(tmp_path / "store" / "part-00000.data.npy", mmap_mode="r")
    assert mapped.size == content["parts"][0]["stored"]


def test_what_a_save_writes_does_not_grow_with_the_parts(tmp_path, small_pieces):
    path = tmp_path / "data.libsvm"
    path.write_text(libsvm_text(rows=2000))
    sizes = []

    def note(stage, rows):
        sizes.append((tmp_path / "store" / "progress.jsonl").stat().st_size)

    convert(path, tmp_path / "store", block_bytes=500, progress=note)
    written = np.diff(sizes)
    assert len(written) > 100
    assert max(written[-20:]) < 1.5 * max(written[:20])


def test_a_line_of_progress_that_was_cut_short_is_made_again(tmp_path, small_pieces):
    path = tmp_path / "data.libsvm"
    path.write_text(libsvm_text())
    whole = convert(path, tmp_path / "whole", block_bytes=500)
    folder = tmp_path / "store"

    def stop(stage, rows):
        if rows > 150:
            with open(folder / "progress.jsonl", "r+") as stream:
                stream.truncate(stream.seek(0, os.SEEK_END) - 7)
            raise Stop

    with pytest.raises(Stop):
        convert(path, folder, block_bytes=500, progress=stop)
    again = convert(path, folder, block_bytes=500)
    np.testing.assert_array_equal(again.origin(), whole.origin())
    assert (as_read(again)[0] != as_read(whole)[0]).nnz == 0


def test_a_full_disk_is_named_with_what_to_do(tmp_path):
    """A limit on the size of a file stands for a disk without room."""
    X, y = np.random.default_rng(0).standard_normal((3000, 4)), np.arange(3000) % 2
    path, before = tmp_path / "t.csv", resource.getrlimit(resource.RLIMIT_FSIZE)
    path.write_text("a,b,c,d,y\n" + "".join(f"{','.join(map(str, x))},{t}\n" for x, t in zip(X, y, strict=True)))

    def without_room(make, folder, **options):
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
        try:
            with pytest.raises(
                StoreError, match=rf"{folder} cannot be written: File too large\. Free some space there, then"
            ) as caught:
                make(folder, **options)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        return str(caught.value)

    said = without_room(lambda folder: convert(path, folder, target="y"), tmp_path / "store")
    assert said.endswith("give the same command again: it goes on from there")
    assert convert(path, tmp_path / "store", target="y").parts == convert(path, tmp_path / "whole", target="y").parts
    said = without_room(lambda folder: write_store([(X, y)], folder), tmp_path / "pairs")
    assert said.endswith("delete the folder and call write_store again")
    with pytest.raises(StoreError, match=r"half-written .*cannot go on from there\. Delete the folder and call it again"):
        Store(tmp_path / "pairs")
