"""numba's compiler with less to do; a kernel computes the same numbers either way.

What is left out, as far as a function allows it:

1. Machine code of functions that only kernels call. numba optimises and assembles each of them; kernels link their intermediate form.
2. Reference counts, in a function that makes no array and returns none: its caller keeps all that it reads alive.

This holds for functions with the compilers below only, not for other users of numba. `jit` decides which function has which.
It rests on insides of numba that a release may change, so a process that compiles tries it on a small kernel first. If that fails, or if
DUALGAP_COMPILER=numba asks for it, numba's own compiler does all the work. Both ways are kept on disk alike.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.compiler import Compiler, CompileResult

from dualgap.core.cache_files import warn_once

try:
    from numba.core import ir
    from numba.core.codegen import JITCodeLibrary
except ImportError:  # the trial below tells
    ir, JITCodeLibrary = None, object

__all__ = ["ASKED", "KernelCompiler", "PartCompiler"]

ASKED = os.environ.get("DUALGAP_COMPILER", "")
if ASKED not in ("", "numba"):
    raise ValueError(
        f"the environment variable DUALGAP_COMPILER is {ASKED!r}: set it to 'numba' for numba's own compiler, or not at all"
    )


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector, which would walk the compiler's data over and over."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


# -------------------------------------------------------------------------------------------------------------- reference counts


def counts_nothing(state: Any) -> bool:
    """Return whether a function, its types inferred, neither makes an array nor returns one.

    All arrays that it touches are then those of its arguments, and the references that it would add and drop are as many.
    """
    typemap, code = state.typemap, state.func_ir

    def refers(kind: Any) -> bool:
        return bool(state.targetctx.data_model_manager[kind].contains_nrt_meminfo())

    def is_plain(kind: Any) -> bool:
        if isinstance(kind, types.BaseTuple):
            return all(is_plain(each) for each in kind)
        return isinstance(kind, types.Array) or not refers(kind)

    if code.is_generator or refers(state.return_type) or not all(is_plain(kind) for kind in state.args):
        return False
    for block in code.blocks.values():
        for step in block.body:
            if isinstance(step, ir.Assign):
                value = step.value
                if isinstance(value, ir.Expr) and refers(typemap[step.target.name]) and not _passes_on(value, typemap):
                    return False
                if isinstance(value, ir.Expr) and value.op == "call" and _may_allocate(value, typemap, refers):
                    return False
            elif isinstance(step, (ir.SetItem, ir.StaticSetItem)):
                if not isinstance(typemap[step.value.name], (types.Number, types.Boolean)):
                    return False
            elif not isinstance(step, (ir.Del, ir.Jump, ir.Branch, ir.Return, ir.StaticRaise)):
                return False
    return True


def _passes_on(value: Any, typemap: dict[str, Any]) -> bool:
    """Return whether an expression with references only passes on those of its operands: a field, a view, an iterator, a tuple of them."""
    if value.op in ("build_tuple", "exhaust_iter", "cast", "phi", "null"):
        return True
    if value.op == "getattr":
        return isinstance(typemap[value.value.name], types.BaseNamedTuple)
    if value.op == "call":
        return isinstance(typemap[value.func.name], types.NamedTupleClass)
    if value.op == "getiter":
        return isinstance(typemap[value.value.name], types.Array)
    if value.op not in ("getitem", "static_getitem"):
        return False
    owner = typemap[value.value.name]
    if value.op == "static_getitem":
        return isinstance(owner, types.BaseTuple) or (isinstance(owner, types.Array) and isinstance(value.index, (int, slice)))
    index = typemap[value.index.name]
    parts = index.types if isinstance(index, types.BaseTuple) else (index,)
    return isinstance(owner, types.Array) and all(isinstance(part, (types.Integer, types.SliceType)) for part in parts)


def _may_allocate(call: Any, typemap: dict[str, Any], refers: Any) -> bool:
    """Return whether a call is of a function of numba's own that takes an array: what it does with it is not known here."""
    function = typemap[call.func.name]
    if not isinstance(function, types.Function) or function.typing_key is len:
        return False
    implemented_here = getattr(function.typing_key, "__module__", None) == "dualgap.core.jit"  # these keep no references
    return not implemented_here and any(refers(typemap[each.name]) for each in call.args)


# ------------------------------------------------------------------------------------------------------- the code of a function


class Library(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function that Python calls."""

    state: Any = None  # of the compiler, until the function's code is begun

    def create_ir_module(self, name: str) -> Any:
        """Return an empty module. The first is the function's: all types are known by now, and so is what it counts."""
        state, self.state = self.state, None
        if state is not None and counts_nothing(state):
            state.targetctx.enable_nrt = False  # the target is this function's alone
        return super().create_ir_module(name)

    def _optimize_functions(self, module: Any) -> None:
        pass  # one by one: all are optimised together, where Python's way in ends


class PartLibrary(Library):
    """The intermediate form of a function that only kernels call; the kernel that links it optimises it."""

    codegen = SimpleNamespace(set_env=lambda name, environment: None)  # there is no machine code to tell of the environment

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


# --------------------------------------------------------------------------------------------------------------------- compilers

_found: list[bool] = []  # whether the libraries above serve; empty until this process compiles


def _is_own() -> bool:
    """Return whether the libraries above are used."""
    if not _found:
        _found.append(not ASKED)  # for the trial itself
        _found[0] = not ASKED and _serves()
    return _found[0]


def _serves() -> bool:
    """Return whether a small kernel and its part come out right; warn if not."""
    part = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=PartCompiler)(lambda x, i: 2.0 * x[i])
    try:
        right = numba.njit(no_cfunc_wrapper=True, pipeline_class=KernelCompiler)(lambda x: part(x, 1))(np.arange(3.0)) == 2.0
        reason = "" if right else "a trial has a wrong result"
    except Exception as error:  # whatever a release of numba that this module does not know may raise
        reason = f"{type(error).__name__}: {error}"
    if reason:
        warn_once(
            f"numba {numba.__version__} compiles kernels without dualgap's part of the compiler, which does not fit it ({reason}): "
            "the first fit takes longer, and computes the same"
        )
    return not reason


class PartCompiler(Compiler):  # type: ignore[misc]
    """Compile a function that only kernels call."""

    library: type = PartLibrary

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes, with a library of ours to fill."""
        if _is_own():
            self.state.library = self.library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
            self.state.library.state = self.state
        return list(super().define_pipelines())


class KernelCompiler(PartCompiler):
    """Compile a function that Python calls, or load it from disk."""

    library = Library
    files: Any = None  # the kernel's own `KernelFiles`

    def __init__(self, *args: Any) -> None:
        self._args = args  # typing context, target context, library, argument types, …

    def _begin(self) -> None:
        """Let numba load all that it implements, and its runtime: a tenth of a second in a new process."""
        super().__init__(*self._args)

    def compile_extra(self, function: Any) -> Any:
        """Return a compiled function."""
        target, kinds = self._args[1], self._args[3]

        def rebuild(content: bytes) -> Any:
            alone, reduced = pickle.loads(content)
            if not alone:
                self._begin()
            return CompileResult._rebuild(target, *reduced)

        with collector_paused():
            found = self.files and self.files.load(kinds, rebuild)
            if not found:
                self._begin()
                found = super().compile_extra(function)
                lasts = not found.lifted and not found.library.has_dynamic_globals  # addresses of this process
                if self.files:
                    self.files.save(kinds, (lambda: pickle.dumps((_is_alone(found), found._reduce()))) if lasts else None)
            return found


# What code may call in a process in which numba has loaded nothing yet: LLVM's, Python's and C's own functions, and helpers of numba's
# that are there from the start. Its runtime, which makes arrays, is not.
_THERE = re.compile(r"llvm\.[\w.]+|Py\w+|[a-z][a-z0-9]*|numba_(adapt_ndarray|do_raise|runtime_build_excinfo_struct|unpickle)")


def _is_alone(result: Any) -> bool:
    """Return whether compiled code calls nothing but what is there from the start."""
    called = re.findall(r'^declare [^@]*@(?:"([^"]+)"|([\w.$]+))\(', result.library.get_llvm_str(), re.MULTILINE)
    return all(_THERE.fullmatch(quoted or plain) for quoted, plain in called)
