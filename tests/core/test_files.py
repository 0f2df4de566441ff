"""Files are complete or absent, and an error names the path."""

import subprocess
import sys

import pytest

from dualgap.core import write_atomically

FULL = """
import resource, signal
from dualgap.core import write_atomically
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # no file can grow beyond 1000 bytes
try:
    write_atomically("folder/model.proof", b"x" * 10000)
except OSError as error:
    print(error)
"""


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, "old")

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]  # no temporary file is left


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
def test_a_full_disk_is_told_with_the_path(tmp_path):
    run = subprocess.run([sys.executable, "-c", FULL], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout == (
        "folder/model.proof cannot be written: File too large; free some space there, or give a path on another disk\n"
    )
    assert not list((tmp_path / "folder").iterdir())


def test_a_folder_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match=r"new cannot be written"):
        write_atomically(tmp_path / "file" / "new", "y")
