"""Compilation: the `kernel` decorator, classes whose methods kernels may call, and prefetch.

The only module that knows numba's extension API. A kernel takes NamedTuples (rows, a loss, a penalty) and calls their methods;
numba picks the method by the tuple's class while it compiles, so one kernel text serves every storage and every loss at the speed of
hand-written code. Compiled kernels are kept on disk, keyed on the sources that went into them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import numba
import numba.np.arraymath  # a third of what numba loads on a first call: here it splits that wait between import and first solve
from llvmlite import ir
from numba import types
from numba.core import caching, cgutils, config
from numba.extending import intrinsic, overload, overload_method

__all__ = ["cache_folder", "compiled", "kernel", "prefetch", "sequential", "wide_vectors"]

# Sums may be reordered for SIMD; unlike full fast-math, NaN and infinity keep their meaning, so divergence stays visible.
FASTMATH = {"reassoc", "contract", "arcp", "nsz"}
OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": FASTMATH, "error_model": "numpy"}

Class = TypeVar("Class", bound=type)

# method name -> class -> the function; read by numba while it types a call. field name -> the class that has it.
_methods: dict[str, dict[type, Any]] = {}
_fields: dict[str, type] = {}


def compiled(cls: Class) -> Class:
    """Let kernels call the public methods of a NamedTuple class.

    The same methods still run as ordinary Python, which is what the tests compare the compiled ones with. A class needs at least one
    field: numba cannot pass an empty tuple as `self`. Methods of one name take the same parameters in every class, and no class may
    have a field of the name of another's method: numba offers a method to every NamedTuple, and which of the two it finds would
    depend on the order in which kernels are compiled.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from dualgap.core.jit import compiled
    >>> @compiled
    ... class Twice(NamedTuple):
    ...     factor: float = 2.0
    ...
    ...     def apply(self, x):
    ...         return self.factor * x
    >>> Twice().apply(3.0)
    6.0
    """
    if not getattr(cls, "_fields", ()):
        raise TypeError(f"{cls.__name__} has no field; a compiled class needs at least one")
    own = {
        name: function
        for name, function in vars(cls).items()
        if inspect.isfunction(function) and not name.startswith("_") and name not in _NAMEDTUPLE_METHODS
    }
    for name in getattr(cls, "_fields", ()):
        if name in _methods:
            other = next(iter(_methods[name])).__name__
            raise TypeError(f"{cls.__name__}.{name} is a field, but {other}.{name} is a compiled method: rename the field")
    for name in own:
        if name in _fields:
            raise TypeError(
                f"{cls.__name__}.{name} is a method, but {_fields[name].__name__}.{name} is a field: rename one of them"
            )
    _fields.update(dict.fromkeys(getattr(cls, "_fields", ()), cls))
    for name, function in own.items():
        if name not in _methods:
            _methods[name] = {}
            _make_dispatch(name, function)
        _methods[name][cls] = function
    return cls


_NAMEDTUPLE_METHODS = {"count", "index"}


def _make_dispatch(name: str, first: Any) -> None:
    table = _methods[name]

    def choose(self: Any, *args: Any) -> Any:
        return table.get(self.instance_class)

    # numba folds a call's arguments by the chooser's signature, so it must look like the methods it stands for.
    choose.__signature__ = inspect.signature(first)  # type: ignore[attr-defined]
    options = {"fastmath": FASTMATH, "error_model": "numpy"}
    overload_method(types.BaseNamedTuple, name, strict=False, jit_options=options)(choose)


def kernel(function: Any) -> Any:
    """Compile a function for speed: no GIL, disk cache, division as in NumPy.

    Examples
    --------
    >>> from dualgap.core.jit import kernel
    >>> @kernel
    ... def total(a):
    ...     s = 0.0
    ...     for x in a:
    ...         s += x
    ...     return s
    >>> import numpy as np
    >>> total(np.arange(4.0))
    6.0
    """
    dispatcher = numba.njit(**OPTIONS)(function)
    if not config.DISABLE_JIT:
        cache = SourceKeyedCache.for_function(function)
        if cache is not None:
            dispatcher._cache = cache
    return dispatcher


def sequential(function: Any) -> Any:
    """Compile a helper that kernels call, its loops left in the order they are written.

    A sum over a short sparse row is faster so: gathering its terms for SIMD would have to wait for the stores that the row before has
    just made to the same vector.

    Examples
    --------
    >>> from dualgap.core.jit import sequential
    >>> @sequential
    ... def difference(a, b):
    ...     return a - b
    >>> difference(3.0, 1.0)
    2.0
    """
    return numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})(function)


# ---------------------------------------------------------------------------------------------------------------- disk cache
#
# numba's own cache looks at the file that defines a kernel and at no other: edit a loss, and the old kernel still runs. Here a kernel
# is keyed on the contents of its module and of every dualgap module that one imports, directly or not, and of the modules that
# define the classes in its signature. Keys are digests rather than pickled types, so an entry made for a class that this process
# does not have is simply another key.


def cache_folder() -> Path | None:
    """The folder where compiled kernels are kept: DUALGAP_CACHE_DIR, else the user's cache, else a temporary folder.

    Examples
    --------
    >>> from dualgap.core.jit import cache_folder
    >>> cache_folder().is_dir()
    True
    """
    return _cache_folder(os.environ.get("DUALGAP_CACHE_DIR"))


@functools.lru_cache
def _cache_folder(asked: str | None) -> Path | None:
    for base in _cache_candidates(asked):
        folder = base / "kernels"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    return None


def _cache_candidates(asked: str | None) -> list[Path]:
    if asked:
        return [Path(asked)]
    candidates = []
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        candidates.append(Path(os.environ["LOCALAPPDATA"]) / "dualgap")
    try:
        home = Path.home()
        user = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
        candidates.append(Path(os.environ.get("XDG_CACHE_HOME") or user) / "dualgap")
    except RuntimeError:
        pass  # no home folder: a service account, say
    owner = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    candidates.append(Path(tempfile.gettempdir()) / f"dualgap-{owner}")
    return candidates


class _Locator(caching._CacheLocator):  # type: ignore[misc]
    def __init__(self, function: Any, source: str, folder: Path) -> None:
        self._py_file = source
        self._lineno = function.__code__.co_firstlineno
        self._folder = folder / self.get_suitable_cache_subpath(source)
        self._stamp = source_stamp(source)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._lineno)

    @classmethod
    def from_function(cls, function: Any, source: str) -> _Locator | None:
        folder = cache_folder()
        if folder is None or not os.path.exists(source):
            return None
        locator = cls(function, source, folder)
        try:
            locator.ensure_cache_path()
        except OSError:
            return None
        return locator


class _CacheImpl(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class SourceKeyedCache(caching.FunctionCache):  # type: ignore[misc]
    """numba's function cache with keys that also cover the sources of what a kernel calls."""

    _impl_class = _CacheImpl

    @classmethod
    def for_function(cls, function: Any) -> SourceKeyedCache | None:
        try:
            return cls(function)
        except RuntimeError:
            return None  # typed at a prompt, or nowhere to write: compile in memory only

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if not _importable(sig):
            return None
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # unpickling a damaged file (a full disk, a crash) may raise anything: forget it and compile again
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if _importable(sig):
            super().save_overload(sig, data)

    def _index_key(self, sig: Any, codegen: Any) -> str:
        _, magic, code = super()._index_key(sig, codegen)
        classes = sorted(_classes(sig), key=_class_name)
        parts = [str(sig), *map(_class_name, classes), str(magic), str(code), str(sorted(OPTIONS["fastmath"]))]
        parts += [source_stamp(path) for path in sorted({_source_of(cls) for cls in classes})]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _classes(sig: Any) -> set[type]:
    """The NamedTuple classes in a signature, those inside others too."""
    found: set[type] = set()
    pending = list(sig)
    while pending:
        item = pending.pop()
        if isinstance(item, types.BaseNamedTuple):
            found.add(item.instance_class)
            pending.extend(item.types)
    return found


def _class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _source_of(cls: type) -> str:
    module = sys.modules.get(cls.__module__)
    return getattr(module, "__file__", None) or ""


def _importable(sig: Any) -> bool:
    """Whether another process would find the same classes: those of a script or a function's inside are new every time."""
    return all(cls.__module__ != "__main__" and "<locals>" not in cls.__qualname__ for cls in _classes(sig))


@functools.cache
def source_stamp(path: str) -> str:
    """A digest of a source file and of every dualgap module that it imports, directly or through others."""
    digest = hashlib.sha256()
    for source in sorted(_import_closure(path)):
        digest.update(_read(source))
    return digest.hexdigest()


@functools.cache
def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


_PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(rb"^\s*(?:from\s+(dualgap[\w.]*)\s+import\s+(\([^)]*\)|[^\n#]*)|import\s+(dualgap[\w.]*))", re.MULTILINE)


def _import_closure(path: str) -> set[str]:
    found: set[str] = set()
    pending = [path]
    while pending:
        source = pending.pop()
        if source not in found:
            found.add(source)
            pending += _imported_sources(source)
    return found


@functools.cache
def _imported_sources(path: str) -> tuple[str, ...]:
    names: set[str] = set()
    for module, imported, plain in _IMPORT.findall(_read(path)):
        base = (module or plain).decode()
        names.add(base)
        names.update(f"{base}.{name}" for name in re.findall(r"\w+", imported.decode()))
    return tuple(source for name in sorted(names) for source in _module_sources(name))


def _module_sources(name: str) -> list[str]:
    target = _PACKAGE.joinpath(*name.split(".")[1:])
    return [str(p) for p in (target.with_suffix(".py"), target / "__init__.py") if p.is_file() and p.parent != _PACKAGE.parent]


# ------------------------------------------------------------------------------------------------------------------ prefetch


@intrinsic
def _prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        pointer, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [pointer, i32, i32, i32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        address = builder.bitcast(builder.gep(data, [args[1]]), pointer)
        builder.call(function, [address, i32(0), i32(3), i32(1)])  # for reading, keep in all levels, data
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


def prefetch(array: Any, index: int) -> None:
    """Ask the processor to fetch `array[index]` (of the flat array) ahead of its use; plain Python does nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.core.jit import prefetch
    >>> prefetch(np.zeros(3), 1)
    """


@overload(prefetch, strict=False)
def _prefetch_overload(array: Any, index: Any) -> Any:
    return lambda array, index: _prefetch(array, index)


# ------------------------------------------------------------------------------------------------------------- wide vectors


@intrinsic
def _widen(typingctx: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # llvmlite knows no attributes of this kind by name; a string among them is written out as it stands.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), codegen


def wide_vectors() -> None:
    """In a kernel: let the compiler take the widest SIMD registers there are; left to itself it keeps to 256 bits. For arithmetic on
    many numbers, exponentials above all, that is up to twice as fast; where memory is waited for it changes nothing.

    Examples
    --------
    >>> from dualgap.core.jit import kernel, wide_vectors
    >>> @kernel
    ... def double(a):
    ...     wide_vectors()
    ...     for i in range(a.shape[0]):
    ...         a[i] *= 2.0
    """


@overload(wide_vectors, inline="always")
def _wide_vectors() -> Any:
    return lambda: _widen()
