"""The cache folder: where it is, what is never read from it, and disks that take nothing more."""

import contextlib
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import types

import dualgap
from dualgap.core import cache_files
from dualgap.core.cache_files import Unsafe, read_own, write_own
from dualgap.core.jit import kernel

find = cache_files._cache_folder.__wrapped__  # not what this process has found already

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")
as_root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can make files of another user")
STRANGER = 12345


@kernel
def halved(x):
    return x / 2


@pytest.fixture(autouse=True)
def forget_warnings():
    cache_files.warn_once.cache_clear()


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A temporary folder as on a shared machine, and no home that can be written to."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    folder.chmod(0o1777)
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_where_the_cache_goes(tmp_path, monkeypatch, temporary):
    assert find(str(tmp_path / "asked")) == tmp_path / "asked" / "kernels"
    assert find(None) == temporary / f"dualgap-{os.geteuid()}" / "kernels"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert find(None) == tmp_path / "cache" / "dualgap" / "kernels"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    user = tmp_path / "Library" / "Caches" if sys.platform == "darwin" else tmp_path / ".cache"
    assert find(None) == user / "dualgap" / "kernels"
    assert find(str(tmp_path / "file")) is None


def test_folders_and_files_are_the_users_alone(tmp_path):
    before = os.umask(0)
    try:
        folder = find(str(tmp_path / "deep" / "cache"))
        write_own(folder / "one", b"content")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder, folder / "one")] == [0o700, 0o700, 0o600]
    assert read_own(folder / "one") == b"content"
    assert [path.name for path in folder.iterdir()] == ["one"]


@pytest.mark.parametrize("inside", [".", "kernels"])
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_can_write_in_is_done_without(tmp_path, inside, mode):
    (tmp_path / "cache" / "kernels").mkdir(parents=True)
    (tmp_path / "cache").chmod(0o755)
    (tmp_path / "cache" / inside).chmod(mode)
    with pytest.warns(RuntimeWarning, match="not kept on disk: .*cache.* can be written by other users .*DUALGAP_CACHE_DIR"):
        assert find(str(tmp_path / "cache")) is None


def test_a_folder_that_everybody_can_replace_is_done_without(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="is inside .*open, where everybody can replace it"):
        assert find(str(tmp_path / "open" / "cache")) is None
    (tmp_path / "open").chmod(0o1777)
    assert find(str(tmp_path / "open" / "cache")) is not None


@as_root
def test_a_temporary_folder_that_another_user_has_made_is_done_without(tmp_path, temporary):
    (temporary / "dualgap-0").mkdir(mode=0o755)
    os.chown(temporary / "dualgap-0", STRANGER, STRANGER)
    with pytest.warns(RuntimeWarning, match=f"dualgap-0 belongs to another user .number {STRANGER}."):
        assert find(None) is None
    assert not any((temporary / "dualgap-0").iterdir())


@as_root
def test_a_link_that_another_user_has_made_is_done_without(tmp_path, temporary):
    (tmp_path / "mine").mkdir(mode=0o700)
    (temporary / "dualgap-0").symlink_to(tmp_path / "mine")
    os.chown(temporary / "dualgap-0", STRANGER, STRANGER, follow_symlinks=False)
    with pytest.warns(RuntimeWarning, match="dualgap-0 is a link that another user has made"):
        assert find(None) is None
    assert not any((tmp_path / "mine").iterdir())


def test_a_link_of_the_users_own_is_followed(tmp_path):
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "cache").symlink_to(tmp_path / "disk")
    assert find(str(tmp_path / "cache")) == tmp_path / "cache" / "kernels"


class Planted:
    """A pickle that makes a folder when it is read."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def plant(path, ran, how):
    """Put a pickle with a call where a kernel is looked for, in the way of somebody else."""
    target = path.with_suffix(".elsewhere") if how == "link" else path
    target.write_bytes(pickle.dumps(Planted(ran)))
    target.chmod({"group": 0o660, "others": 0o606}.get(how, 0o600))
    if how == "link":
        path.symlink_to(target)
    if how == "stranger":
        os.chown(path, STRANGER, STRANGER)


@pytest.mark.parametrize("how", ["group", "others", "link", pytest.param("stranger", marks=as_root)])
def test_a_planted_kernel_is_not_read(tmp_path, monkeypatch, how):
    monkeypatch.setenv("DUALGAP_CACHE_DIR", str(tmp_path / "cache"))
    sizes = {"group": types.int8, "others": types.int16, "link": types.int32, "stranger": types.uint8}
    path = halved.files.path((sizes[how],))
    plant(path, tmp_path / "ran", how)
    with pytest.raises((Unsafe, OSError)):
        read_own(path)
    assert halved(np.dtype(str(sizes[how])).type(3)) == 1.5
    assert not (tmp_path / "ran").exists()
    assert path.stat().st_mode & 0o077 == 0  # replaced by what was compiled
    with contextlib.suppress(Exception):
        pickle.loads(read_own(path))
    assert not (tmp_path / "ran").exists()


@as_root
def test_the_effective_user_counts(tmp_path, monkeypatch):
    """A program that runs as root for somebody else reads nothing that this somebody has written."""
    write_own(tmp_path / "kernel", b"content")
    os.chown(tmp_path / "kernel", STRANGER, STRANGER)
    monkeypatch.setattr(os, "getuid", lambda: STRANGER)
    with pytest.raises(Unsafe, match=f"belongs to another user .number {STRANGER}."):
        read_own(tmp_path / "kernel")


def test_the_planted_pickle_would_have_run(tmp_path):
    """The test above is worth something only if the pickle runs where it is believed."""
    plant(tmp_path / "kernel", tmp_path / "ran", "nobody")
    pickle.loads(read_own(tmp_path / "kernel"))
    assert (tmp_path / "ran").is_dir()


# -------------------------------------------------------------------------------------------------------------- disks that are full

FULL = """
import resource, sys, warnings
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # no file can grow beyond 1000 bytes
import numpy as np
from dualgap.core.losses import Hinge, SquaredHinge, total_value
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter(sys.argv[1])
    values = [total_value(loss, np.array([-1.0, 0.5, 3.0]), np.array([0.5, 0.25, 0.25])) for loss in (Hinge(), SquaredHinge())]
print(values, [str(warning.message) for warning in seen])
"""


@pytest.mark.parametrize("filter", ["always", "error"])
def test_a_full_disk_does_not_stop_a_fit(tmp_path, filter):
    environment = {**os.environ, "DUALGAP_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(Path(dualgap.__file__).parents[1])}
    command = [sys.executable, "-B", "-c", FULL, filter]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("[1.125, 2.0625] ")
    assert run.stdout.count("compiled kernels cannot be kept in") == (1 if filter == "always" else 0)
    assert not any((tmp_path / "cache" / "kernels").iterdir())


def test_a_folder_that_takes_nothing_more_is_still_read(tmp_path, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    assert find(str(tmp_path / "cache")) == tmp_path / "cache" / "kernels"


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_own(tmp_path / "folder", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
