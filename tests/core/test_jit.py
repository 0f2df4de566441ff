"""Compilation: dispatch on classes, and a disk cache that can neither serve a stale kernel nor get in anybody's way."""

import dis
import enum
import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from llvmlite import binding as llvm
from numba import types
from numba.core import config
from numba.extending import is_jitted

import dualgap
from dualgap.core import jit
from dualgap.core.jit import compiled, kernel, prefetch

PACKAGE = Path(dualgap.__file__).parent

# One epoch on four rows, through every layer; the numbers depend on the loss, the rows and the penalty.
TINY = """
import numpy as np, dualgap
X = np.array([[1.0, 0.5], [-0.5, 1.0], [0.25, -1.0], [-1.0, -0.25]])
result = dualgap.solve(dualgap.Problem(X, [1, 1, 0, 0], l2=0.05), dualgap.SDCA(order="cyclic"), tol=0, max_epochs=1)
print(dualgap.__file__, repr(result.dual.tolist()), result.certificate.primal)
"""

# A single kernel that dispatches on a loss: enough where the solver does not matter.
SMALL = """
import numpy as np
from dualgap.core.losses import Hinge, total_value
print(total_value(Hinge(), np.array([-1.0, 0.5, 3.0]), np.array([0.5, 0.25, 0.25])))
"""


def python(code, cache, package=None, check=True, **variables):
    """Run code in a fresh interpreter with a kernel cache of its own; returns what it printed."""
    path = [str(package)] if package else []
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join([*path, str(PACKAGE.parent)]), **variables}
    env.pop("DUALGAP_CACHE_DIR", None)
    if cache is not None:
        env["DUALGAP_CACHE_DIR"] = str(cache)
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    if check:
        assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def files(folder):
    """Every file below a folder, with the time it was written."""
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*")) if path.is_file()}


def compiled_kernels(folder):
    """How many machine-code files a cache holds."""
    return len([path for path in files(folder) if path.suffix == ".nbc"])


def is_compiled(value):
    """Whether a value is a kernel or a part of kernels."""
    return isinstance(value, jit.Kernel) or is_jitted(value)


def modules():
    """Every module of the package."""
    found = pkgutil.walk_packages(dualgap.__path__, "dualgap.")
    return [importlib.import_module(module.name) for module in found if not module.name.endswith("__main__")]


# -------------------------------------------------------------------------------------------------------------- the disk cache


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package with a cache of its own that one tiny run has filled: (folder, cache, what the run printed)."""
    folder, cache = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("cache")
    shutil.copytree(PACKAGE, folder / "dualgap", ignore=shutil.ignore_patterns("__pycache__"))
    first = python(TINY, cache, folder)
    assert first.startswith(str(folder))  # the copy ran, and not the package under test
    return folder, cache, first


def test_a_second_process_loads_what_the_first_compiled(copy):
    folder, cache, first = copy
    before = files(cache)
    assert compiled_kernels(cache) > 3
    assert python(TINY, cache, folder) == first
    assert files(cache) == before


def test_kernels_in_the_package_are_used_where_the_processor_can_run_them(copy, tmp_path):
    level = "x86-64-v3"
    if os.environ.get("NUMBA_CPU_NAME"):
        pytest.skip("numba is told to compile for another processor, which is given kernels of its own")
    if not all(llvm.get_host_cpu_features().get(each, False) for each in jit.PORTABLE[level]):
        pytest.skip(f"this processor is not one of {level}")
    folder, _, first = copy
    made, empty, other = tmp_path / "made", tmp_path / "empty", tmp_path / "other"
    portable = {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": ""}
    python(TINY, made, folder, **portable)
    shipped = tmp_path / "install" / "dualgap"
    shutil.copytree(folder / "dualgap", shipped)
    shutil.copytree(made / "kernels", shipped / "compiled")
    found = python(TINY, empty, shipped.parent)
    assert found.partition(" ")[2].partition("]")[0] == first.partition(" ")[2].partition("]")[0]
    assert compiled_kernels(empty) == 0
    # Another processor, asked for by name, gets kernels of its own; a damaged file is compiled anew.
    python(SMALL, other, shipped.parent, NUMBA_CPU_NAME="x86-64", NUMBA_CPU_FEATURES="")
    assert compiled_kernels(other) == 1
    for path in (shipped / "compiled").glob("*.nbc"):
        path.write_bytes(b"damaged")
    assert python(TINY, empty, shipped.parent).startswith(str(shipped))
    assert compiled_kernels(empty) > 3


def test_nothing_is_written_into_the_package(copy):
    """So that a read-only install caches like any other."""
    folder, cache, _ = copy
    suffixes = {path.suffix for path in files(folder)}
    assert not suffixes & {".nbi", ".nbc"}
    assert all(folder not in path.parents for path in files(cache))


def test_a_read_only_install_loads_from_the_cache(copy):
    folder, cache, first = copy
    before = files(cache)
    paths = [folder / "dualgap", *(path for path in (folder / "dualgap").rglob("*") if path.is_dir())]
    modes = {path: path.stat().st_mode for path in paths}
    try:
        for path in paths:
            path.chmod(0o555)
        assert python(TINY, cache, folder) == first
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    assert files(cache) == before


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("core/losses.py", "beta + (1.0 - margin) / q", "beta + (0.5 - margin) / q"),
        ("core/rows.py", "s += np.float64(x[k]) * x[k]", "s += 3.0 * x[k] * x[k]"),
        ("core/penalties.py", "return rows.dot(i, v)\n", "return rows.dot(i, v) + 0.25\n"),
    ],
)
def test_an_edit_is_seen_by_the_next_run(copy, module, old, new):
    """numba's own cache looks at the kernel's file alone, and would run the old formula."""
    folder, cache, first = copy
    source = folder / "dualgap" / module
    text = source.read_text(encoding="utf-8")
    assert text.count(old) >= 1
    stamp = source.stat()
    source.write_text(text.replace(old, new, 1), encoding="utf-8")
    os.utime(source, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # a file's time proves nothing: its contents do
    try:
        edited = python(TINY, cache, folder)
        assert edited != first
    finally:
        source.write_text(text, encoding="utf-8")


def test_an_edit_of_words_keeps_every_kernel(copy):
    """A docstring, a comment, a line further down: none of them is compiled."""
    folder, cache, first = copy
    before = files(cache)
    texts = {path: path.read_text(encoding="utf-8") for path in (folder / "dualgap").rglob("*.py")}
    try:
        for path, text in texts.items():
            edited = re.sub(r'^( *)"""(?=\w)', r'\1"""Edited. ', text, flags=re.MULTILINE)
            edited = re.sub(r"^( *)(return .*)$", r"\1# edited\n\n\1\2  # edited", edited, flags=re.MULTILINE)
            assert "return" not in text or edited != text
            path.write_text("# edited\n\n" + edited, encoding="utf-8")
        assert python(TINY, cache, folder) == first
    finally:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    assert files(cache) == before


def test_taking_the_edit_back_takes_the_result_back(copy):
    folder, cache, first = copy
    assert python(TINY, cache, folder) == first


def test_a_loss_of_the_users_own_is_keyed_on_its_file(tmp_path):
    module = tmp_path / "mine.py"
    text = (
        "from typing import NamedTuple\n"
        "from dualgap.core.jit import compiled\n"
        "@compiled\n"
        "class Mine(NamedTuple):\n"
        "    scale: float = 3.0\n"
        "    def value(self, margin):\n"
        "        return self.scale * margin\n"
    )
    code = "import numpy as np, mine\nfrom dualgap.core.losses import total_value\nprint(total_value(mine.Mine(), np.ones(1), np.ones(1)))"
    cache = tmp_path / "cache"
    module.write_text(text)
    assert python(code, cache, tmp_path) == "3.0"
    count = compiled_kernels(cache)
    assert count == 1
    assert python(code, cache, tmp_path) == "3.0"
    assert compiled_kernels(cache) == count
    module.write_text(text.replace("self.scale * margin", "self.scale + margin"))
    assert python(code, cache, tmp_path) == "4.0"


def test_classes_of_a_script_are_compiled_afresh(tmp_path):
    """Every script's `__main__.Mine` has the same name: none may find another's kernel."""
    code = (
        "from typing import NamedTuple\nimport numpy as np\nfrom dualgap.core import compiled\nfrom dualgap.core import total_value\n"
        "@compiled\nclass Mine(NamedTuple):\n    scale: float = 3.0\n    def value(self, margin):\n        return {} * margin\n"
        "print(total_value(Mine(), np.ones(1), np.ones(1)))"
    )
    assert python(code.format("self.scale"), tmp_path) == "3.0"
    assert python(code.format("7.0"), tmp_path) == "7.0"
    assert compiled_kernels(tmp_path) == 0


@pytest.mark.skipif(os.environ.get("DUALGAP_COMPILER") == "numba", reason="code of numba's own compiler always needs its runtime")
@pytest.mark.parametrize(("makes", "loaded"), [("x", False), ("np.append(x, 1.0)[:2]", True)])
def test_a_kernel_on_disk_runs_before_numba_has_loaded_its_own(tmp_path, makes, loaded):
    """numba's runtime is started for code that makes arrays, and for no other: it takes a tenth of a second."""
    text = f"import numpy as np\nfrom dualgap.core.jit import kernel\n@kernel\ndef mine(x):\n    return {makes}[1]\n"
    (tmp_path / "mine.py").write_text(text)
    code = "import sys\nimport numpy as np\nfrom mine import mine\nprint(mine(np.arange(3.0)), 'numba.np.linalg' in sys.modules)"
    cache = tmp_path / "cache"
    assert python(code, cache, tmp_path) == "1.0 True"
    assert python(code, cache, tmp_path) == f"1.0 {loaded}"
    assert compiled_kernels(cache) == 1


def test_a_cache_folder_that_cannot_be_written_is_done_without(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert python(SMALL, blocked) == "1.125"
    assert blocked.read_text() == "not a folder"


def test_of_two_processes_at_once_one_compiles(tmp_path):
    code = (
        "from dualgap.core import jit\njit.WAIT = 300.0  # whatever the machine\n"
        "save, saved = jit.KernelFiles.save, []\n"
        "jit.KernelFiles.save = lambda *of: saved.append(save(*of))\n" + SMALL.strip() + "\nprint(len(saved))"
    )
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "DUALGAP_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    times = []
    for run in runs:
        out, err = run.communicate(timeout=300)
        assert run.returncode == 0, err
        result, count = out.split()
        assert result == "1.125"
        times.append(int(count))
    assert sorted(times) == [0, 1]
    before = files(tmp_path)
    assert [path.suffix for path in before] == [".nbc"]
    assert python(SMALL, tmp_path) == "1.125"
    assert files(tmp_path) == before


def test_the_mark_of_a_killed_process_is_not_waited_for_long(tmp_path, monkeypatch):
    monkeypatch.setenv("DUALGAP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit, "WAIT", 0.2)
    signature = (types.int8, types.int8)
    path = divide.files.path(signature)
    mark = path.with_suffix(".busy")
    mark.touch()
    start = time.monotonic()
    divide.entry.compile(signature)
    assert time.monotonic() - start > 0.1
    assert path.exists()
    assert not mark.exists()


def test_a_cache_that_is_removed_meanwhile_is_done_without(tmp_path, monkeypatch):
    monkeypatch.setenv("DUALGAP_CACHE_DIR", str(tmp_path / "cache"))
    assert jit.cache_folder() == tmp_path / "cache" / "kernels"
    shutil.rmtree(tmp_path / "cache")
    assert divide(np.int16(1), np.int16(2)) == 0.5
    assert not (tmp_path / "cache").exists()


def test_a_damaged_cache_is_replaced(tmp_path):
    assert python(SMALL, tmp_path) == "1.125"
    for suffix in (".nbc", ".nbi"):  # the code itself, then the index
        for path in files(tmp_path):
            if path.suffix == suffix:
                path.write_bytes(b"garbage")
        assert python(SMALL, tmp_path) == "1.125"
    before = files(tmp_path)
    assert python(SMALL, tmp_path) == "1.125"
    assert files(tmp_path) == before  # mended


def test_kernels_run_as_python_with_numba_switched_off(tmp_path):
    assert python(SMALL, tmp_path, NUMBA_DISABLE_JIT="1") == "1.125"
    assert compiled_kernels(tmp_path) == 0


# ------------------------------------------------------------------------------------------------------- kernels and classes


@compiled
class Twice(NamedTuple):
    factor: float = 2.0

    def apply_to(self, x):
        return self.factor * x


@compiled
class Shift(NamedTuple):
    inner: Twice
    by: float

    def apply_to(self, x):
        return self.inner.apply_to(x) + self.by


@kernel
def apply_all(thing, x, out):
    for i in range(x.shape[0]):
        out[i] = thing.apply_to(x[i])


@kernel
def divide(a, b):
    return a / b


@kernel
def is_finite_sum(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    return np.isfinite(s)


@kernel
def prefetch_all(x):
    for i in range(x.shape[0]):
        prefetch(x, i)
    return x[0]


def test_dispatch_by_class_and_through_other_classes():
    x, out = np.arange(3.0), np.empty(3)
    apply_all(Twice(3.0), x, out)
    np.testing.assert_array_equal(out, 3.0 * x)
    apply_all(Shift(Twice(), 1.0), x, out)
    np.testing.assert_array_equal(out, 2.0 * x + 1.0)
    assert Shift(Twice(), 1.0).apply_to(2.0) == 5.0


def test_division_is_numpys():
    assert divide(1.0, 0.0) == np.inf
    assert np.isnan(divide(0.0, 0.0))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_visible(value):
    x = np.ones(100)
    assert is_finite_sum(x)
    x[57] = value
    assert not is_finite_sum(x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint32])
def test_prefetch_does_nothing_that_shows(dtype):
    x = np.ones(5, dtype=dtype)
    assert prefetch_all(x) == 1
    assert prefetch(x, 2) is None


def test_a_class_without_fields_is_refused():
    with pytest.raises(TypeError, match="Empty has no field"):

        @compiled
        class Empty(NamedTuple):
            pass


def test_a_field_of_a_methods_name_is_refused():
    with pytest.raises(TypeError, match=r"Knot.strength is a field, but L2.strength is a compiled method"):

        @compiled
        class Knot(NamedTuple):
            strength: float

    with pytest.raises(TypeError, match=r"Turn.stiffness is a method, but Bias.stiffness is a field"):

        @compiled
        class Turn(NamedTuple):
            angle: float

            def stiffness(self):
                return self.angle


def test_no_tuple_that_kernels_take_has_a_field_of_a_methods_name():
    """Tuples of plain data are not declared with `compiled`, but numba offers them the methods all the same."""
    # between processes of a cluster, or sums in Python: never in a kernel
    on_the_wire = {"Answer", "Best", "Bounded", "Curve", "MeanRow", "Proof", "Step", "Sums", "_Bounded", "_Unfinished"}
    found = {}
    for module in modules():
        for name, item in vars(module).items():
            if isinstance(item, type) and issubclass(item, tuple) and name not in on_the_wire:
                found[name] = set(getattr(item, "_fields", ())) & set(jit._methods)
    assert len(found) > 30
    assert {name: fields for name, fields in found.items() if fields} == {}


# -------------------------------------------------------------------------------------------------------- the key of a kernel

# The kernel `top` reaches a function two modules away through a folder's __init__, and a constant in a module without compiled code.
ROOM = {
    "room/__init__.py": "from room.middle import Ramp\nfrom room.other import unrelated\n",
    "room/sizes.py": "WIDTH = 3.0\nUNUSED = 1.0\n",
    "room/other.py": "from dualgap.core.jit import kernel\n@kernel\ndef unrelated(x):\n    return x\n",
    "room/deep.py": "from dualgap.core.jit import sequential\n@sequential\ndef deep(x, power=2):\n    return x**power\n",
    "room/middle.py": """
import numpy as np
from typing import NamedTuple
from dualgap.core.jit import compiled, kernel, prefetch
from room.deep import deep
TABLE = np.arange(3.0)

@kernel
def helper(x):
    prefetch(TABLE, 1)
    return deep(x) + TABLE[1]

@compiled
class Ramp(NamedTuple):
    rise: float = 2.0

    def raised(self, x):
        'Docstring.'
        return self.rise * helper(x)
""",
    "top.py": """
from dualgap.core.jit import kernel
from room import Ramp
from room.sizes import WIDTH

def make_scaled(factor):
    @kernel
    def scaled(x: float):
        # comment
        return factor * x
    return scaled
scaled = make_scaled(5.0)

@kernel
def top(x):
    pick = lambda y: y + 1.0
    return max(scaled(x), Ramp().raised(pick(WIDTH)))
""",
}


def key_of_top(folder, file=None, old="", new=""):
    """The digest of the kernel `top`, all modules imported afresh after an edit of one of them."""
    for name, text in ROOM.items():
        assert name != file or old in text
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace(old, new) if name == file else text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setattr(sys, "dont_write_bytecode", True)
        try:
            return jit._digest(importlib.import_module("top").top)
        finally:
            for name in [name for name in sys.modules if name.split(".")[0] in ("top", "room")]:
                del sys.modules[name]


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("room/middle.py", "Docstring.", "Another docstring."),
        ("room/middle.py", "        'Docstring.'\n", ""),
        ("room/deep.py", "    return", "    'New.'\n    # comment\n\n    return"),
        ("top.py", "# comment", "# another comment"),
        ("top.py", "x: float", "x: int"),
        ("top.py", "def make_scaled", "\n\n\ndef make_scaled"),
        ("room/other.py", "return x", "return -x"),
        ("room/sizes.py", "UNUSED = 1.0", "UNUSED = 2.0"),
        ("room/__init__.py", "from room.other import unrelated\n", ""),
    ],
)
def test_what_is_not_compiled_is_not_in_the_key(tmp_path, file, old, new):
    assert key_of_top(tmp_path, file, old, new) == key_of_top(tmp_path)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("room/deep.py", "x**power", "x**power + x"),  # a function two modules away
        ("room/deep.py", "power=2", "power=3"),  # its default
        ("room/deep.py", "sequential", "kernel"),  # its options
        ("room/sizes.py", "WIDTH = 3.0", "WIDTH = 3"),  # a constant's type
        ("room/sizes.py", "WIDTH = 3.0", "WIDTH = -0.0"),
        ("room/middle.py", "arange(3.0)", "arange(0.5, 3.5)"),  # an array
        ("room/middle.py", "self.rise *", "self.rise +"),  # a method
        ("room/middle.py", "rise: float = 2.0", "rise: float = 2.5"),  # a field's default
        ("room/middle.py", "    prefetch(TABLE, 1)\n", ""),
        ("top.py", "make_scaled(5.0)", "make_scaled(6.0)"),  # a variable around the function
        ("top.py", "y + 1.0", "y + 2.0"),  # a lambda inside
    ],
)
def test_what_is_compiled_is_in_the_key(tmp_path, file, old, new):
    assert key_of_top(tmp_path, file, old, new) != key_of_top(tmp_path)


def test_the_key_has_the_compilers_settings(monkeypatch):
    def key():
        return divide.files.path((types.float64, types.float64))

    before = key()
    monkeypatch.setattr(config, "BOUNDSCHECK", 1)
    assert key() != before
    monkeypatch.undo()
    monkeypatch.setitem(jit.METHOD_OPTIONS, "fastmath", set())
    assert key() != before
    monkeypatch.undo()
    monkeypatch.setitem(divide.options, "nogil", False)
    assert key() != before
    monkeypatch.undo()
    assert key() == before


def test_a_tuple_or_list_of_classes_has_them_in_the_key(monkeypatch):
    signatures = [((Twice(), 1.0),), ([Twice()],), (Shift(Twice(), 1.0),)]
    before = [jit._digest(*map(numba.typeof, values)) for values in signatures]
    monkeypatch.setitem(jit._methods["apply_to"], Twice, lambda self, x: x)
    after = [jit._digest(*map(numba.typeof, values)) for values in signatures]
    assert all(old != new for old, new in zip(before, after, strict=True))


class Colour(enum.IntEnum):
    RED = 1


@kernel
def of_colour(x):
    return x + Colour.RED


def test_a_kernel_without_a_key_is_compiled_in_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("DUALGAP_CACHE_DIR", str(tmp_path))
    assert of_colour(2) == 3
    assert compiled_kernels(tmp_path) == 0


def test_old_versions_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("DUALGAP_CACHE_DIR", str(tmp_path))
    path = divide.files.path((types.complex64, types.complex64))
    for age in range(1, 10):
        old = path.with_name(f"{path.stem[:-1]}{age}{age}.nbc")
        old.write_bytes(b"")
        os.utime(old, ns=(0, 10**18 - age))
    assert divide(np.complex64(1), np.complex64(2)) == 0.5
    assert path.exists()
    assert len(list(path.parent.iterdir())) == compiled_kernels(tmp_path) == jit.VERSIONS
    assert path.with_name(f"{path.stem[:-1]}11.nbc").exists()  # the youngest of them


def test_every_kernel_of_the_package_has_a_key():
    kernels = {value for module in modules() for value in vars(module).values() if is_compiled(value)}
    assert len(kernels) > 80
    for value in [*kernels, *{cls for table in jit._methods.values() for cls in table if "<locals>" not in cls.__qualname__}]:
        assert jit._digest(value) == jit._digest(value)


def test_globals_are_read_from_the_bytecode():
    functions = [value.py_func for module in modules() for value in vars(module).values() if is_compiled(value)]
    for function in [*functions, *(method for table in jit._methods.values() for method in table.values())]:
        loaded = {step.argval for step in dis.get_instructions(function) if step.opname == "LOAD_GLOBAL"}
        assert loaded <= jit._bytecode(function.__code__)[1]


def test_a_key_has_the_compiler(monkeypatch):
    def key():
        return divide.files.path((types.float64, types.float64))

    before = key()
    monkeypatch.setattr(jit, "_compiler", lambda: "another compiler")
    assert key() != before


@pytest.mark.parametrize(
    ("owner", "name", "same", "other"),
    [
        (numba, "__version__", "{major}.{minor}.99", "{major}.99.0"),
        (np, "__version__", "{major}.99.0", "99.0.0"),
        (sys.implementation, "cache_tag", None, "cpython-299"),
        (sys, "platform", None, "plan9"),
    ],
)
def test_a_kernel_outlasts_what_cannot_change_it(monkeypatch, owner, name, same, other):
    """Patches of numba, minor releases of NumPy; not another calling convention, C interface, bytecode or system."""

    def key():
        return divide.files.path((types.float64, types.float64))

    before, now = key(), getattr(owner, name)
    if same is not None:
        major, minor = now.split(".")[:2]
        monkeypatch.setattr(owner, name, same.format(major=major, minor=minor))
        assert key() == before
    major = now.partition(".")[0]
    monkeypatch.setattr(owner, name, other.format(major=major))
    assert key() != before


@pytest.mark.parametrize("setting", ["CPU_NAME", "CPU_FEATURES"])
def test_a_kernel_is_for_one_processor(monkeypatch, setting):
    before = divide.files.path((types.float64, types.float64))
    monkeypatch.setattr(config, setting, "another")
    monkeypatch.setattr(jit, "_target", jit._target.__wrapped__)
    assert divide.files.path((types.float64, types.float64)) != before


def test_a_class_defined_again_has_kernels_of_its_own():
    """As in a notebook, where a cell is run a second time: numba's dispatcher compares the names of the classes."""

    def defined(factor):
        @compiled
        class Scaled(NamedTuple):
            unit: float = 1.0

            def times_factor(self, x):
                return factor * self.unit * x

        return Scaled()

    @kernel
    def scaled_by(how, x):
        return how.times_factor(x)

    first, second = defined(2.0), defined(3.0)
    assert [scaled_by(each, 5.0) for each in (first, second, first)] == [10.0, 15.0, 10.0]
    names = [type(each).__name__ for each in (first, second)]
    assert [compiled(type(each)).__name__ for each in (first, second)] == names
