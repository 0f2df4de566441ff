"""numba's compiler without the work that kernels do not need; a kernel computes the same numbers either way.

What is left out, as far as a function allows it:

1. Machine code of functions that only kernels call. numba optimises and assembles each of them; kernels link their intermediate form.
2. Reference counts, in a function that makes no array and returns none: its caller keeps all that it reads alive.
3. Passes that have nothing to do in a function.
4. The search for the implementation of an operator or a NumPy function that was found before for the same types and options.
5. Python's cyclic garbage collector, which would walk the compiler's data over and over.

All of this holds for functions with the compilers below only, not for other users of numba. `jit` decides which function has which.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from types import CodeType
from typing import Any

from llvmlite import binding as llvm
from numba import types
from numba._dynfunc import make_function
from numba.core import ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, PassManager, register_pass
from numba.core.typed_passes import InlineOverloads, IRLegalization, NativeLowering, NopythonRewrites
from numba.core.types.functions import BaseFunction
from numba.core.typing import signature as signature_of
from numba.core.untyped_passes import InlineClosureLikes

from dualgap.core.lowering import KernelLower, is_extreme

__all__ = ["READERS", "KernelCompiler", "PartCompiler", "SeparateCompiler", "collector_paused"]

READERS: set[Any] = {len}  # functions whose implementation, numba's or ours, reads an array and keeps no reference to it


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector: a tenth of the time of a compilation."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


# ------------------------------------------------------------------------------------------------------- functions inside kernels


class OwnModule:
    """The module of a part without the functions that it calls; the kernel links those separately."""

    def __init__(self, part: PartLibrary) -> None:
        self._module, self.counts = part._final_module, part.counts
        self._reload_init: set[Any] = getattr(part, "_reload_init", set())  # since numba 0.62
        for function in self._module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"  # may be there twice, and is dropped where all calls are inlined

    def _get_module_for_linking(self) -> Any:
        return self._module


class PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Keep the intermediate form of a function that only kernels call; the kernel that links it optimises it."""

    counts: bool  # references
    _linking_libraries: list[Any]
    _shared_module: Any

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Keep the function as it is."""
        self.alone = OwnModule(self)
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """Return the function with all that it calls, for a library other than a `KernelLibrary`, which would not link them itself."""
        if self._shared_module is None:
            self._shared_module = self._final_module.clone()
            for library in all_parts(self._linking_libraries):
                self._shared_module.link_in(library._get_module_for_linking(), preserve=True)
                getattr(self, "_reload_init", set()).update(getattr(library, "_reload_init", ()))
        return self._shared_module


def all_parts(libraries: list[Any]) -> list[Any]:
    """Return libraries with all that they call, each once: parts without what they call, and numba's libraries as they are."""
    found: dict[Any, Any] = {}
    waiting = [*reversed(libraries)]
    while waiting:
        library = waiting.pop()
        if library not in found:
            is_part = isinstance(library, PartLibrary)
            found[library] = library.alone if is_part else library
            waiting += reversed(library._linking_libraries) if is_part else []
    return [*found.values()]


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Link a kernel with all that it calls, each function once, and optimise the whole once."""

    counts: bool  # references, itself or by a part
    _linking_libraries: list[Any]

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Link, optimise and load."""
        self._linking_libraries = all_parts(self._linking_libraries)
        self.counts = self.counts or any(each.counts for each in self._linking_libraries if isinstance(each, OwnModule))
        super().finalize()

    def _optimize_final_module(self) -> None:
        if self.counts:  # numba first inlines what it can, so that references that cancel each other meet
            super()._optimize_final_module()
            return
        made = self._codegen._module_pass_manager()
        manager, *builder = made if isinstance(made, tuple) else (made,)  # with a pass builder since numba 0.62
        manager.run(self._final_module, *builder)


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
            elif not isinstance(step, (ir.Jump, ir.Branch, ir.Return, ir.StaticRaise)):
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
    own = isinstance(function, types.Function) and function.typing_key not in READERS
    return own and any(refers(typemap[each.name]) for each in call.args)


# ------------------------------------------------------------------------------------------------------------------------ passes


@register_pass(mutates_CFG=False, analysis_only=True)
class FindCounts(AnalysisPass):  # type: ignore[misc]
    """Set `state.counts_nothing` for the passes below."""

    _name = "dualgap_find_counts"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        state.counts_nothing = counts_nothing(state)
        return False


@register_pass(mutates_CFG=True, analysis_only=False)
class Closures(InlineClosureLikes):  # type: ignore[misc]
    """Inline functions inside a function, if there are any."""

    _name = "dualgap_closures"

    def run_pass(self, state: Any) -> bool:
        inside = any(isinstance(constant, CodeType) for constant in state.func_id.code.co_consts)
        return inside and bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class Overloads(InlineOverloads):  # type: ignore[misc]
    """Inline the functions that ask for it, if there are any; numba would look at each attribute too."""

    _name = "dualgap_overloads"

    def run_pass(self, state: Any) -> bool:
        wanted = not state.counts_nothing or any(_may_inline(step, state) for step in state.calltypes)
        return wanted and bool(super().run_pass(state))


def _may_inline(step: Any, state: Any) -> bool:
    """Return whether a step calls a function that numba may inline; its inlinable `bool` is for containers alone."""
    if not isinstance(step, ir.Expr) or step.op != "call":
        return False
    function, args = state.typemap[step.func.name], state.calltypes[step].args
    if getattr(function, "typing_key", None) is bool and isinstance(args[0], (types.Number, types.Boolean)):
        return False
    inline = (getattr(template, "_inline", None) for template in getattr(function, "templates", ()))
    return any(option is not None and not option.is_never_inline for option in inline)


@register_pass(mutates_CFG=True, analysis_only=False)
class ArrayExpressions(NopythonRewrites):  # type: ignore[misc]
    """Fuse array expressions, if there are any."""

    _name = "dualgap_array_expressions"

    def run_pass(self, state: Any) -> bool:
        return not state.counts_nothing and bool(super().run_pass(state))


@register_pass(mutates_CFG=False, analysis_only=True)
class Deletions(IRLegalization):  # type: ignore[misc]
    """Delete each variable after its last use, where that drops references."""

    _name = "dualgap_deletions"

    def run_pass(self, state: Any) -> bool:
        return not state.counts_nothing and bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(NativeLowering):  # type: ignore[misc]
    """Make LLVM's intermediate form, without reference counts where none are needed."""

    _name = "dualgap_kernel_lowering"
    library: type = KernelLibrary

    @property
    def lowering_class(self) -> type:
        return KernelLower

    def run_pass(self, state: Any) -> bool:
        target = state.targetctx
        state.library = self.library(target.codegen(), state.func_id.func_qualname)
        state.library.counts = not state.counts_nothing
        state.library.enable_object_caching()
        state.targetctx = target.subtarget(enable_nrt=False) if state.counts_nothing else target
        try:
            return bool(super().run_pass(state))
        finally:
            state.targetctx = target


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(KernelLowering):
    """Do so in a `PartLibrary`, and let kernels call the function."""

    _name = "dualgap_part_lowering"
    library = PartLibrary

    def run_pass(self, state: Any) -> bool:
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        # numba knows a compiled function by an object that Python could call; this one has no code.
        entry = make_function(lowered.fndesc.lookup_module(), state.func_id.func_name, "", 0, lowered.env, (state.library,))
        state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=entry)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class SeparateLowering(PartLowering):
    """Do as `PartLowering`, and keep LLVM from inlining the function."""

    _name = "dualgap_separate_lowering"

    def run_pass(self, state: Any) -> bool:
        super().run_pass(state)
        state.library.get_function(state["cr"].fndesc.llvm_func_name).add_function_attribute("noinline")
        return True


# ------------------------------------------------------------------------------------------------------------------------ typing

# options -> (function, argument types) -> (function, signature, implementation)
_resolved: dict[str, dict[Any, tuple[Any, Any, Any]]] = {}
# (type, attribute) -> the attribute's type
_attributes: dict[tuple[Any, str], Any] = {}


class Typing:
    """numba's typing context, with a memory: it tries dozens of implementations of an operator anew for each `+`.

    A function that gains an implementation becomes another object, which is not in the memory. numba's own implementations take over
    some options of the function that calls them, so what is found counts for the same options.
    """

    def __init__(self, context: Any, flags: Any) -> None:
        vars(self).update(context=context, resolved=_resolved.setdefault(repr(flags), {}))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.context, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.context, name, value)

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call."""
        function = self.context._lookup_global(func) or func
        if kws or not isinstance(function, BaseFunction):
            return self.context.resolve_function_type(func, args, kws)
        if is_extreme(function.typing_key, args, kws):  # numba would compile a function for it
            return signature_of(types.float64, types.float64, types.float64)
        key = id(function), tuple(args)
        if key in self.resolved:
            _, signature, implementation = self.resolved[key]
            vars(function)["_impl_keys"][signature.args] = implementation  # as numba leaves it behind, for lowering
            return signature
        signature = self.context.resolve_function_type(func, args, kws)
        known = vars(function)["_impl_keys"]
        if signature is not None and signature.args in known:
            self.resolved[key] = function, signature, known[signature.args]
        return signature

    def resolve_getattr(self, typ: Any, attr: str) -> Any:
        """Return the type of an attribute; None if there is none."""
        if (typ, attr) not in _attributes:
            found = self.context.resolve_getattr(typ, attr)
            if found is None:
                return None
            _attributes[typ, attr] = found
        return _attributes[typ, attr]


# --------------------------------------------------------------------------------------------------------------------- compilers


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """Compile a function that Python calls."""

    lowering: type = KernelLowering

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, locals: Any) -> None:
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)
        self.state.typingctx = Typing(typingctx, flags)

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes with ours in place of some."""
        ours = {
            InlineClosureLikes: Closures,
            InlineOverloads: Overloads,
            NopythonRewrites: ArrayExpressions,
            IRLegalization: Deletions,
            NativeLowering: self.lowering,
        }
        manager = PassManager("dualgap")
        for each, purpose in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
            if each is InlineOverloads:
                manager.add_pass(FindCounts, "find functions without reference counts")
            manager.add_pass(ours.get(each, each), purpose)
        manager.finalize()
        return [manager]


class PartCompiler(KernelCompiler):
    """Compile a function that only kernels call."""

    lowering = PartLowering


class SeparateCompiler(PartCompiler):
    """Compile a function that only kernels call and that is not inlined."""

    lowering = SeparateLowering
