"""Compilation: the `kernel` decorator, classes whose methods kernels may call, and prefetch.

The only module that knows numba's extension API; `pipeline` gives numba's compiler less to do, where it fits the numba that is installed.
A kernel takes NamedTuples (rows, a loss, a penalty) and calls their methods; numba picks the method by the tuple's class while it compiles,
so one kernel text serves every storage and every loss at the speed of hand-written code. Compiled kernels are kept on disk, keyed on what
went into them.
"""

from __future__ import annotations

import atexit
import contextlib
import dis
import errno
import functools
import hashlib
import importlib
import inspect
import logging
import math
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import binding as llvm
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic, is_jitted, overload, overload_method, typeof_impl

from dualgap.core.cache_files import cache_folder, read_own, warn_once, write_own

try:
    pipeline: Any = importlib.import_module("dualgap.core.pipeline")
except (ImportError, AttributeError) as error:  # a numba that this module does not know
    pipeline = None
    warn_once(
        f"numba {numba.__version__} compiles kernels without dualgap's part of the compiler, and none are kept on disk: {error}"
    )

__all__ = [
    "compiled",
    "fma",
    "kernel",
    "kernel_part",
    "negative_exp",
    "prefetch",
    "sequential",
    "strict",
    "strict_part",
    "wide_vectors",
]

# Sums may be reordered for SIMD; unlike full fast-math, NaN and infinity keep their meaning, so divergence stays visible.
FASTMATH = {"reassoc", "contract", "arcp", "nsz"}
# Only Python calls a kernel and only kernels call a method, so numba need not compile the other ways in.
OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": FASTMATH, "error_model": "numpy", "no_cfunc_wrapper": True}
METHOD_OPTIONS: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True}
if pipeline is not None:
    METHOD_OPTIONS["pipeline_class"] = pipeline.PartCompiler
STRICT_OPTIONS: dict[str, Any] = {**METHOD_OPTIONS, "fastmath": False}
STRICT_METHODS = {"gap_terms"}  # compiled without fast-math: their rounding errors are bounded operation by operation

LOGGER = logging.getLogger("dualgap")
Class = TypeVar("Class", bound=type)

# method name -> class -> the function; read by numba while it types a call. field name -> the class that has it.
_methods: dict[str, dict[type, Any]] = {}
_fields: dict[str, type] = {}
_named: dict[str, list[type]] = {}  # classes by the name that they were given
# function -> what kernels run in its place, with numba's options
_implementations: dict[Any, tuple[Any, dict[str, Any]]] = {}


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
    public = {name: item for name, item in vars(cls).items() if not name.startswith("_") and name not in vars(tuple)}
    own = {name: item for name, item in public.items() if inspect.isfunction(item)}
    fields = dict.fromkeys(cls._fields, cls)  # type: ignore[attr-defined]
    for name in fields.keys() & _methods.keys():
        other = next(iter(_methods[name])).__name__
        raise TypeError(f"{cls.__name__}.{name} is a field, but {other}.{name} is a compiled method: rename the field")
    for name in own.keys() & _fields.keys():
        other = _fields[name].__name__
        raise TypeError(f"{cls.__name__}.{name} is a method, but {other}.{name} is a field: rename one of them")
    _name_apart(cls)
    _fields.update(fields)
    for name, function in own.items():
        if name not in _methods:
            _methods[name] = {}
            _make_dispatch(name, function, _methods[name])
        _methods[name][cls] = function
    return cls


def _name_apart(cls: type) -> None:
    """Rename a class if there was another one of its name, such as an earlier version in a notebook.

    numba's dispatcher tells named tuples apart by the names of their classes, and would run the kernel of the other class.
    """
    name = cls.__qualname__.rpartition(".")[2]  # as it was given
    same = _named.setdefault(name, [])
    if not any(other is cls for other in same):  # a class may be compiled again, with more methods
        same.append(cls)
        if len(same) > 1:
            cls.__name__ = f"{name}_{len(same)}"


def _make_dispatch(name: str, first: Any, table: dict[type, Any]) -> None:
    def choose(self: Any, *args: Any) -> Any:
        return table.get(self.instance_class)

    # numba folds a call's arguments by the chooser's signature, so it must look like the methods it stands for.
    choose.__signature__ = inspect.signature(first)  # type: ignore[attr-defined]
    options = STRICT_OPTIONS if name in STRICT_METHODS else METHOD_OPTIONS
    # LLVM leaves some as calls in the inner loop over sparse rows, which then takes 1.7 times as long. A search calls `evaluate`, a loop
    # over all rows, from several places: LLVM may decide.
    options = {**options, "forceinline": name != "evaluate"}
    overload_method(types.BaseNamedTuple, name, strict=False, jit_options=options)(choose)


class Kernel:
    """A compiled function that Python calls. Kernels call it as a part of theirs, which is compiled without the way in from Python."""

    def __init__(self, function: Any, **options: Any) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.options = function, {**OPTIONS, **options}
        self.part = numba.njit(**{**METHOD_OPTIONS, **options})(function)
        self.files = KernelFiles(self)
        compiler = None if pipeline is None else type("KernelCompiler", (pipeline.KernelCompiler,), {"files": self.files})
        self.entry = numba.njit(**self.options, pipeline_class=compiler)(function)

    def __call__(self, *args: Any) -> Any:
        return self.entry(*args)

    def __reduce__(self) -> str:
        return str(self.py_func.__qualname__)


@typeof_impl.register(Kernel)
def _type_of_kernel(kernel: Kernel, context: Any) -> Any:
    return numba.typeof(kernel.part)


def kernel(function: Any) -> Any:
    """Compile a function for speed: no GIL, disk cache, division as in NumPy."""
    return function if config.DISABLE_JIT else Kernel(function)


def strict(function: Any) -> Any:
    """Compile a function whose operations are rounded one by one, in the order they are written: for sums with a proven error.

    Methods that it calls are compiled as for any kernel: their own sums may be reordered.
    """
    return function if config.DISABLE_JIT else Kernel(function, fastmath=False)


def kernel_part(function: Any) -> Any:
    """Compile a function that kernels call and Python does not, for speed as `kernel` does.

    The way in from Python, which takes apart every tuple in the signature, takes as long to compile as a short function.
    """
    return numba.njit(**METHOD_OPTIONS)(function)


def strict_part(function: Any) -> Any:
    """Compile such a function as `strict` does: operations are rounded one by one, in the order they are written."""
    return numba.njit(**STRICT_OPTIONS)(function)


def sequential(function: Any) -> Any:
    """Compile a helper that kernels call, its loops left in the order they are written.

    A sum over a short sparse row is faster so: gathering its terms for SIMD would have to wait for the stores that the row before has
    just made to the same vector.
    """
    return function if config.DISABLE_JIT else Kernel(function, fastmath={"contract"}, forceinline=True)


# ---------------------------------------------------------------------------------------------------------------- disk cache
#
# numba's own cache looks at the file that defines a kernel and at no other: edit a loss, and the old kernel still runs. Here the name
# of a file has a digest of all that numba reads: the bytecode of the kernel, of the functions that it calls and of the methods of the
# classes in its signature, and the constants and globals that these load. So a comment or a docstring changes nothing, and no index
# has to agree with the files. A global is frozen when a kernel is compiled, so it counts with its value.
#
# A file is a pickle of numba's result, machine code included. `cache_files` refuses one that another user can have written. No failure
# of the disk stops a fit: the kernel is compiled already, and the next process compiles it again.
#
# A wheel may bring kernels along, in a folder of the package, compiled for one of PORTABLE (tools/release.py). They are found by the same
# names, which have all that must agree in them: conventions, signature, content. One is used where the processor has its
# instructions and the user's folder has none. Who can write to that folder can write to the package's modules, so no more is asked of it
# than of them.

VERSIONS = 4  # of a kernel for one signature stay on disk, for those who go back and forth between branches
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, the user's share of it, the limit on a file
SHIPPED = Path(__file__).resolve().parents[1] / "compiled"
# processors as LLVM names them, best first, and the instructions that tell them
_LEVEL_2 = ("cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2")
_LEVEL_3 = (*_LEVEL_2, "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
PORTABLE = {
    "x86-64-v4": (*_LEVEL_3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "x86-64-v3": _LEVEL_3,
    "x86-64-v2": _LEVEL_2,
}
WAIT = 15.0  # seconds at most for another process that compiles the same kernel
# what is theirs has a name; _conventions has their releases
LIBRARIES = {*sys.stdlib_module_names, "llvmlite", "numba", "numpy"}
LOAD_GLOBAL = dis.opmap["LOAD_GLOBAL"]


class KernelFiles:
    """The compiled versions of one kernel on disk, a file each. `pipeline` asks for one before it compiles, and hands over the result."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._claimed: set[Path] = set()
        self._wanted: dict[Any, Path | None] = {}  # argument types -> their file, from load to save

    def load(self, args: Any, rebuild: Callable[[bytes], Any]) -> Any:
        """Return what `rebuild` makes of the file for argument types; None if there is none that it can read."""
        path = self._wanted[args] = self.path(args)
        shipped = self._shipped(args) if path is None or not path.exists() else None
        if shipped is not None:
            with contextlib.suppress(Exception):  # a damaged file may raise anything: the kernel is compiled then
                return rebuild(shipped.read_bytes())
        if path is None:
            return None
        self._claim(path)
        try:
            return rebuild(read_own(path))
        except Exception:  # no file yet, one that others can have written, or a damaged one (a crash), which may raise anything
            _say_it_compiles(path.parent)
            return None

    def save(self, args: Any, content: Callable[[], bytes] | None) -> None:
        """Keep what `content` returns for argument types that were asked for; None for code that does not outlast the process."""
        path = self._wanted.pop(args)
        if path is None:
            return
        try:
            if content is not None:
                write_own(path, content())
            self._remove_old(path)
        except OSError as error:  # a full disk, a quota, or a file that another process has open: the next process tries again
            if error.errno in FULL:
                warn_once(
                    f"compiled kernels cannot be kept in {path.parent} ({error.strerror}): every process compiles them again."
                )
        finally:
            _unmark(path.with_suffix(".busy"))

    def _remove_old(self, path: Path) -> None:
        versions = path.parent.glob(path.name.rpartition("-")[0] + "-*.nbc")
        for old in sorted(versions, key=lambda version: version.stat().st_mtime_ns)[:-VERSIONS]:
            old.unlink()

    def _claim(self, path: Path) -> None:
        """Wait while another process compiles the same kernel. One that was killed leaves its mark behind, so do not wait for long."""
        mark, end = path.with_suffix(".busy"), time.monotonic() + WAIT
        while path not in self._claimed and not path.exists() and time.monotonic() < end:
            try:
                mark.touch(exist_ok=False)
                self._claimed.add(path)
                atexit.register(_unmark, mark)  # after an interrupt, say
            except FileExistsError:
                time.sleep(0.02)
                with contextlib.suppress(OSError):
                    if time.time() - mark.stat().st_mtime > WAIT:
                        mark.unlink()
            except OSError:
                return  # marks cannot be written: no file can

    def path(self, args: Any) -> Path | None:
        """The file of argument types: the kernel's name, a digest of what it is compiled for, and a digest of what it is compiled from."""
        folder = cache_folder()
        content = None if folder is None else self._content(args)
        return None if folder is None or content is None else folder / self._name(args, _target(), content)

    def _shipped(self, args: Any) -> Path | None:
        """The file of argument types in the package, if a wheel has brought one that this processor can run."""
        levels = _shipped_levels()
        content = self._content(args) if levels else None
        paths = [] if content is None else [SHIPPED / self._name(args, (level, ""), content) for level in levels]
        return next((path for path in paths if path.is_file()), None)

    def _content(self, args: Any) -> str | None:
        """A digest of what argument types are compiled from; None if the kernel is not kept on disk."""
        if not os.path.exists(self._kernel.py_func.__code__.co_filename):
            return None  # typed at a prompt
        try:
            return _digest(_compiler(), self._kernel, _ingredients(_make_dispatch), *args)
        except NotImplementedError:  # it uses an object that has no digest, so it is not kept on disk
            return None

    def _name(self, args: Any, target: tuple[str, str], content: str) -> str:
        """The name of the file of argument types for a processor and its instructions."""
        function = self._kernel.py_func
        purpose = _digest(str(args), *target, *_conventions())
        name = re.sub(r"[^\w.]", "", f"{function.__module__}.{function.__qualname__}")[-100:]
        return f"{name}-{purpose[:16]}-{content[:32]}.nbc"


def _conventions() -> tuple[str, ...]:
    """What machine code and the pickle around it take for granted.

    numba changes its calling convention, its LLVM and the layout of its results in minor releases alone; so does Python with its bytecode
    and the layout of its objects. Compiled code meets NumPy in arrays alone, whose layout is the same in all releases of a major one.
    """
    settings = [str(getattr(config, name)) for name in ("OPT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "USING_SVML")]
    releases = [".".join(numba.__version__.split(".")[:2]), np.__version__.partition(".")[0]]
    machine = [sys.platform, llvm.get_process_triple().partition("-")[0]]
    return str(sys.implementation.cache_tag), *releases, *machine, *settings


@functools.cache
def _target() -> tuple[str, str]:
    """The processor that numba compiles for, and its instructions."""
    features = config.CPU_FEATURES
    if features is None:
        features = ",".join(sorted(_instructions()))
    return config.CPU_NAME or llvm.get_host_cpu_name(), features


def _instructions() -> set[str]:
    """The instructions of this processor that numba uses."""
    there = [name for name, has in llvm.get_host_cpu_features().items() if has]
    return {name for name in there if config.ENABLE_AVX or not name.startswith("avx")}


@functools.cache
def _shipped_levels() -> tuple[str, ...]:
    """The levels of PORTABLE that this processor can run; none where no kernels were brought along, or NUMBA_CPU_NAME asks for another."""
    if not SHIPPED.is_dir() or config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return ()
    return tuple(level for level, needed in PORTABLE.items() if _instructions().issuperset(needed))


_said: list[str] = []


def _say_it_compiles(folder: Path) -> None:
    """Tell the logger "dualgap" that this process compiles a kernel, once; where logging is not set up, tell standard error."""
    if _said or multiprocessing.parent_process() is not None:
        return
    _said.append(f"compiling for this machine, once: a few seconds; kept in {folder}")
    LOGGER.info(_said[0])
    if not LOGGER.hasHandlers():
        print(f"dualgap: {_said[0]}", file=sys.stderr)


def _unmark(mark: Path) -> None:
    with contextlib.suppress(OSError):
        mark.unlink(missing_ok=True)


def _digest(*roots: Any) -> str:
    """Digest values and all that they bring into a kernel: a walk in depth that enters each function and class once."""
    found: list[Any] = []
    seen: dict[int, int] = {}
    pending = [*reversed(roots)]
    while pending:
        value = pending.pop()
        text, parts = (f"number {seen[id(value)]}", []) if id(value) in seen else _describe(value)
        if isinstance(value, (type, FunctionType, Kernel)) or is_jitted(value):
            seen.setdefault(id(value), len(seen))
        found += text, len(parts)
        pending += reversed(parts)
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _describe(value: Any) -> tuple[str, list[Any]]:
    """What a value adds to a kernel: a text, and further values."""
    kind = type(value)
    if value is None or kind in (bool, int, float, complex, str, bytes):
        return repr(value), []
    if kind is np.ndarray or isinstance(value, np.generic):
        return f"{value.dtype!r} {value.shape} {value.strides}", [value.tobytes()]
    if isinstance(value, tuple):
        return "tuple", [kind, *value]
    if kind in (set, frozenset):
        return "set", sorted(value, key=repr)
    if kind is dict:
        return "dict", sorted(value.items())
    if isinstance(value, Kernel):
        return "kernel", [value.options, _ingredients(value.py_func)]
    if is_jitted(value):
        return "part", [value.targetoptions, _ingredients(value.py_func)]
    if isinstance(value, type(_prefetch)):
        return "intrinsic", [_ingredients(value.__wrapped__)]
    if kind is FunctionType and value in _implementations:
        function, options = _implementations[value]
        return "overload", [options, _ingredients(function)]
    if pipeline is not None and value is pipeline.PartCompiler:
        return "compiler", []
    if isinstance(value, types.Type) and not isinstance(value, (types.Callable, types.ClassInstanceType)):
        return str(value), [getattr(value, name) for name in ("instance_class", "types", "dtype") if hasattr(value, name)]
    module = value.__name__ if kind is ModuleType else getattr(value, "__module__", None) or kind.__module__
    name = str(getattr(value, "__qualname__", None) or getattr(value, "__name__", None))
    if module.partition(".")[0] in LIBRARIES and (kind is ModuleType or getattr(sys.modules.get(module), name, None) is value):
        return f"{module}.{name}", []
    found_by_others = module != "__main__" and "<locals>" not in name
    if kind is type and hasattr(value, "_fields") and found_by_others:
        methods = [_ingredients(table[value]) for _, table in sorted(_methods.items()) if value in table]
        return f"{module}.{name} {value._fields}", [value._field_defaults, *methods]
    raise NotImplementedError(f"{module}.{name} has no digest")


@functools.cache
def _compiler() -> str:
    """A digest of the module that tells numba what to leave out; numba's name where it leaves nothing out."""
    if pipeline is None or pipeline.ASKED:
        return "numba"
    classes = [item for item in vars(pipeline).values() if isinstance(item, type)]
    functions = [item for owner in (pipeline, *classes) for item in vars(owner).values() if isinstance(item, FunctionType)]
    return _digest(*[_bytecode(function.__code__)[0] for function in functions if function.__module__ == pipeline.__name__])


def _ingredients(function: Any) -> tuple[Any, ...]:
    """What numba reads of a function: its bytecode, its defaults, the variables around it and the globals that it names."""
    code, names = _bytecode(function.__code__)
    around = tuple(cell.cell_contents for cell in function.__closure__ or ())
    known = {name: function.__globals__[name] for name in names if name in function.__globals__}
    return function.__module__, function.__qualname__, code, function.__defaults__, function.__kwdefaults__, around, known


@functools.cache
def _bytecode(code: CodeType) -> tuple[str, set[str]]:
    """Digest the instructions and the constants that they load; name the globals. Nothing loads a docstring, so it is left out."""
    steps: list[Any] = []
    names: set[str] = set()
    high = 0
    for operation, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument: Any = high | low
        high = argument << 8 if operation == dis.EXTENDED_ARG else 0
        if operation in dis.hasconst:
            argument = code.co_consts[argument]
            if isinstance(argument, CodeType):  # a lambda, a comprehension
                argument, inner = _bytecode(argument)
                names |= inner
            elif isinstance(argument, frozenset):  # the order of strings changes from process to process
                argument = sorted(argument, key=repr)
        elif operation == LOAD_GLOBAL:
            names.add(code.co_names[argument >> 1])
        steps += operation, argument
    variables = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    flags = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR)  # a profiler changes others
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, flags
    return hashlib.sha256(repr((steps, variables, counts, code.co_exceptiontable)).encode()).hexdigest(), names


# ------------------------------------------------------------------------------------- prefetch, wide vectors, fma, exponential


def _implement(function: Any, implementation: Any, **options: Any) -> None:
    """Let kernels run an implementation in place of a function."""
    _implementations[function] = implementation, options
    overload(function, **options)(implementation)


@intrinsic
def _prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        pointer, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [pointer, i32, i32, i32])
        known = builder.module.globals.get("llvm.prefetch.p0")
        function = known or ir.Function(builder.module, function_type, "llvm.prefetch.p0")
        address = builder.bitcast(builder.gep(data, [args[1]]), pointer)
        builder.call(function, [address, i32(0), i32(3), i32(1)])  # for reading, keep in all levels, data
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


def prefetch(array: Any, index: int) -> None:
    """Ask the processor to fetch `array[index]` (of the flat array) ahead of its use; plain Python does nothing."""


_implement(prefetch, lambda array, index: lambda array, index: _prefetch(array, index), strict=False, jit_options=METHOD_OPTIONS)


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
    """


_implement(wide_vectors, lambda: lambda: _widen(), inline="always")


@intrinsic
def _fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), codegen


def fma(a: float, b: float, c: float) -> float:
    """Return a·b + c, rounded once: by the processor where it can, else by the C library. Plain Python computes it exactly, then rounds."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    return float(Fraction(a) * Fraction(b) + Fraction(c))


_implement(fma, lambda a, b, c: lambda a, b, c: _fma(a, b, c), strict=False, jit_options=STRICT_OPTIONS)


def negative_exp(x: float) -> float:
    """Return eˣ for x ≤ 0. Kernels compute it by a polynomial, which LLVM vectorises, unlike a call of a library function.

    The polynomial is off by at most 4e-16 of the result near 0, and 3e-14 at −700; below −708 it is e⁻⁷⁰⁸. Plain Python calls `math.exp`.
    """
    return math.exp(x)


def _negative_exp(x):  # type: ignore[no-untyped-def]
    """eˣ = 2ᵏ·eʳ with |r| ≤ ln 2 / 2."""

    def implementation(x):  # type: ignore[no-untyped-def]
        x = max(x, -708.0)
        k = np.int64(x * 1.4426950408889634 - 0.5)
        r = x - k * 0.693145751953125 - k * 1.42860682030941723212e-6
        p = 2.08767569878681e-09 * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.755731922398589e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 1.984126984126984e-04
        p = p * r + 1.388888888888889e-03
        p = p * r + 8.333333333333333e-03
        p = p * r + 4.166666666666666e-02
        p = p * r + 1.666666666666667e-01
        p = p * r + 0.5
        p = p * r * r + r + 1.0
        return p * np.int64((k + np.int64(1023)) << np.int64(52)).view(np.float64)

    return implementation


_implement(negative_exp, _negative_exp, jit_options=METHOD_OPTIONS)
