"""Bounds on what a compressed file may unpack to."""

import bz2
import gzip
import io
import lzma
import zipfile

import numpy as np
import pytest
import scipy.io

from dualgap.app.model_file import load_model
from dualgap.data import DataError, iter_libsvm, packed, read
from dualgap.store import convert

ROW = b"1 1:0.5 2:0.25\n-1 1:1 3:2\n"
TABLE = b"a,b,y\n" + b"1,2,yes\n3,4,no\n" * 4000


def zipped(name, content):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return out.getvalue()


def npz():
    out = io.BytesIO()
    np.savez_compressed(out, X=np.ones((4000, 3)), y=np.arange(4000) % 2)
    return out.getvalue()


def mat():
    out = io.BytesIO()
    scipy.io.savemat(out, {"X": np.ones((4000, 3)), "y": np.arange(4000.0) % 2}, do_compression=True)
    return out.getvalue()


FILES = {
    "t.svm.gz": gzip.compress(ROW * 3000),
    "t.svm.bz2": bz2.compress(ROW * 3000),
    "t.svm.xz": lzma.compress(ROW * 3000),
    "t.csv.gz": gzip.compress(TABLE),
    "t.csv.zip": zipped("t.csv", TABLE),
    "t.npz": npz(),
    "t.mat": mat(),
}


@pytest.fixture
def small(monkeypatch):
    """Bounds that a small file can exceed."""
    monkeypatch.delenv("DUALGAP_MAX_UNPACKED", raising=False)
    monkeypatch.setattr(packed, "FREE", 10_000)
    monkeypatch.setattr(packed, "RATIO", 3)


@pytest.fixture(params=FILES)
def path(request, tmp_path):
    path = tmp_path / request.param
    path.write_bytes(FILES[request.param])
    return path


@pytest.mark.usefixtures("small")
def test_a_file_that_unpacks_to_too_much(path, monkeypatch):
    with pytest.raises(
        DataError, match=r"unpacks to more than [\d,]+ bytes from .* let the environment variable DUALGAP_MAX_UNPACKED"
    ):
        read(path)
    monkeypatch.setenv("DUALGAP_MAX_UNPACKED", "1 MB")
    assert len(read(path).y) in (4000, 6000, 8000)
    monkeypatch.setenv("DUALGAP_MAX_UNPACKED", "10 kB")
    with pytest.raises(DataError, match="more than 10,000 bytes"):
        read(path)
    monkeypatch.setenv("DUALGAP_MAX_UNPACKED", "much")
    with pytest.raises(ValueError, match="DUALGAP_MAX_UNPACKED='much' must be a positive number of bytes"):
        read(path)


def test_ordinary_files_are_within_the_bounds(path):
    assert len(read(path).y) in (4000, 6000, 8000)


@pytest.mark.usefixtures("small")
def test_blocks_and_stores_stop_too(tmp_path):
    for name in ("t.svm.gz", "t.csv.gz", "t.csv.zip"):
        (tmp_path / name).write_bytes(FILES[name])
        with pytest.raises(DataError, match="unpacks to more"):
            convert(tmp_path / name, tmp_path / f"store-{name}", target="y" if "csv" in name else None)
    with pytest.raises(DataError, match="unpacks to more"):
        list(iter_libsvm(tmp_path / "t.svm.gz", 100))


@pytest.mark.usefixtures("small")
def test_plain_files_have_no_bound(tmp_path):
    (tmp_path / "t.svm").write_bytes(ROW * 3000)
    (tmp_path / "t.csv").write_bytes(TABLE)
    assert len(read(tmp_path / "t.svm").y) == 6000
    assert len(read(tmp_path / "t.csv").y) == 8000


def test_a_bomb_is_found_before_it_is_in_memory(tmp_path, monkeypatch):
    """The reader never asks for more than a megabyte at a time, whatever the file holds."""
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(bytes(20_000_000)))
    asked = []
    inner = packed._Bounded.readinto

    def readinto(self, buffer):
        asked.append(len(buffer))
        return inner(self, buffer)

    monkeypatch.setattr(packed._Bounded, "readinto", readinto)
    monkeypatch.setenv("DUALGAP_MAX_UNPACKED", "3 MB")
    with pytest.raises(DataError, match="unpacks to more than 3,000,000 bytes"):
        read(path)
    assert max(asked) <= packed.CHUNK
    assert sum(asked) <= 3_000_000 + 2 * packed.CHUNK


def test_model_files(tmp_path, monkeypatch):
    path = tmp_path / "m.skops"
    path.write_bytes(zipped("schema.json", b"{" + b" " * 2_000_000))
    monkeypatch.setenv("DUALGAP_MAX_UNPACKED", "1 MB")
    with pytest.raises(DataError, match="unpacks to more than 1,000,000 bytes"):
        load_model(path)


def test_a_huge_shape_in_a_header(tmp_path):
    """A NumPy archive whose header promises an array that no memory holds."""
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**9)})
    path = tmp_path / "t.npz"
    path.write_bytes(zipped("X.npy", array.getvalue()))
    with pytest.raises(DataError, match=r"is not a whole NPZ file|holds objects rather than numbers"):
        read(path)
