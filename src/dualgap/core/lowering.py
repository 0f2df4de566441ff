"""LLVM's intermediate form of the commonest steps of a kernel, written at once: arithmetic, min and max, elements of arrays.

numba looks for the implementation of each `+` and each `a[i]` anew, for constant operands too. It writes an element in thirty instructions,
of which LLVM removes all but a few. The form here is what LLVM leaves of numba's. All other steps, and all other types, are numba's.
"""

from __future__ import annotations

import operator
from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.lowering import Lower

__all__ = ["KernelLower", "is_extreme"]

_IN_PLACE = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
}
# operator -> the method of llvmlite's IRBuilder, for two float64 and for two int64 numbers
_ON_FLOATS = {operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul", operator.truediv: "fdiv"}
_ON_INTEGERS = {operator.add: "add", operator.sub: "sub", operator.mul: "mul"}
_COMPARED = {
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}
_MEMINFO, _PARENT, _NITEMS, _ITEMSIZE, _DATA, _SHAPE, _STRIDES = range(7)  # places in numba's struct of an array


def _is_plain(array: Any, dimensions: int) -> bool:
    """Return whether an array is C-ordered and of numbers, so that its elements need no strides."""
    return (
        type(array) is types.Array
        and array.ndim == dimensions
        and array.layout == "C"
        and isinstance(array.dtype, (types.Number, types.Boolean))
    )


def is_extreme(function: Any, args: Any, kws: Any) -> bool:
    """Return whether a call is of min or max with two float64 numbers."""
    return function in (min, max) and tuple(args) == (types.float64, types.float64) and not kws


class KernelLower(Lower):  # type: ignore[misc]
    """Lower a function's steps to LLVM's intermediate form."""

    # ------------------------------------------------------------------------------------------------------------------ arithmetic

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        """Write an operation on two float64 or two int64 numbers."""
        plain, signature = _IN_PLACE.get(op, op), self.fndesc.calltypes[expr]
        kind = signature.args[0]
        own = {types.float64: _ON_FLOATS, types.int64: _ON_INTEGERS}.get(kind, {})
        raises = plain is operator.truediv and self.context.error_model.raise_on_fp_zero_division
        if not own or kind != signature.args[1] or raises or (plain not in own and plain not in _COMPARED):
            return super().lower_binop(resty, expr, op)
        left, right = (self._cast_var(side, kind) for side in (expr.lhs, expr.rhs))
        result = getattr(self.builder, own[plain])(left, right) if plain in own else self._compare(kind, plain, left, right)
        return self.context.cast(self.builder, result, signature.return_type, resty)

    def _compare(self, kind: Any, op: Any, left: Any, right: Any) -> Any:
        if kind == types.int64:
            return self.builder.icmp_signed(_COMPARED[op], left, right)
        compare = self.builder.fcmp_unordered if op is operator.ne else self.builder.fcmp_ordered  # NaN ≠ NaN
        return compare(_COMPARED[op], left, right)

    def _lower_call_normal(self, fnty: Any, expr: Any, signature: Any) -> Any:
        """Write min and max of two float64 numbers, as Python has them: the first one unless the second is smaller, or larger.

        Each `if` calls `bool`, which leaves a truth value as it is.
        """
        key = getattr(fnty, "typing_key", None)
        if key is bool and signature.args == (types.boolean,):
            return self._cast_var(expr.args[0], types.boolean)
        if not is_extreme(key, signature.args, expr.kws):
            return super()._lower_call_normal(fnty, expr, signature)
        first, second = [self._cast_var(each, types.float64) for each in expr.args] + self._unpacked(expr.vararg)
        replaces = self.builder.fcmp_ordered("<" if key is min else ">", second, first)
        return self.builder.select(replaces, second, first)

    def _unpacked(self, numbers: Any) -> list[Any]:
        """Return the numbers of a tuple that a call unpacks; none if there is no such tuple."""
        if numbers is None:
            return []
        return list(cgutils.unpack_tuple(self.builder, self.loadvar(numbers.name), len(self.typeof(numbers.name))))

    # ------------------------------------------------------------------------------------------------------------ elements of arrays

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """Write the shape of an array; numba's choice for other expressions."""
        if expr.op == "getattr" and expr.attr == "shape" and type(self.typeof(expr.value.name)) is types.Array:
            return self.builder.extract_value(self.loadvar(expr.value.name), _SHAPE)
        return super().lower_expr(resty, expr)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """Write an element of an array, or a row of a matrix in a function that counts no references."""
        array, place = signature.args
        if self._is_element(array, place):
            pointer = self._pointer(self.loadvar(value.name), index, place)
            element = self.context.unpack_value(self.builder, array.dtype, pointer, align=None if array.aligned else 1)
            return self.context.cast(self.builder, element, array.dtype, resty)
        is_row = _is_plain(array, 2) and isinstance(place, types.Integer) and _is_plain(resty, 1)
        if is_row and not self.context.enable_nrt and not self.context.enable_boundscheck:
            return self._row(self.loadvar(value.name), index, place, resty)
        return super().lower_getitem(resty, expr, value, index, signature)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """Write an assignment to an element of an array."""
        array, place, kind = signature.args
        if not self._is_element(array, place) or self.typeof(target_var.name) != array:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        pointer = self._pointer(self.loadvar(target_var.name), index_var, place)
        value = self.context.cast(self.builder, self._cast_var(value_var, kind), kind, array.dtype)
        return self.context.pack_value(self.builder, array.dtype, value, pointer, align=None if array.aligned else 1)

    def _is_element(self, array: Any, place: Any) -> bool:
        if self.context.enable_boundscheck:
            return False
        if isinstance(place, types.Integer):
            return _is_plain(array, 1)
        return (
            isinstance(place, types.BaseTuple) and all(isinstance(k, types.Integer) for k in place) and _is_plain(array, len(place))
        )

    def _pointer(self, array: Any, index: Any, place: Any) -> Any:
        """Return the address of an element."""
        builder, value = self.builder, self._cast_var(index, place)
        if isinstance(place, types.Integer):
            at = self._from_front(array, 0, value, place)
        else:
            at = builder.extract_value(array, _SHAPE).type.element(0)
            for axis, (number, kind) in enumerate(zip(cgutils.unpack_tuple(builder, value, len(place)), place, strict=True)):
                at = builder.add(builder.mul(at, self._length(array, axis)), self._from_front(array, axis, number, kind))
        return builder.gep(builder.extract_value(array, _DATA), [at])

    def _row(self, matrix: Any, index: Any, place: Any, row: Any) -> Any:
        """Return the view of a row of a matrix."""
        builder, width = self.builder, self._length(matrix, 1)
        start = builder.mul(self._from_front(matrix, 0, self._cast_var(index, place), place), width)
        itemsize = builder.extract_value(matrix, _ITEMSIZE)
        parts = {
            _MEMINFO: builder.extract_value(matrix, _MEMINFO),
            _PARENT: builder.extract_value(matrix, _PARENT),
            _NITEMS: width,
            _ITEMSIZE: itemsize,
            _DATA: builder.gep(builder.extract_value(matrix, _DATA), [start]),
            (_SHAPE, 0): width,
            (_STRIDES, 0): itemsize,
        }
        view = cgutils.get_null_value(self.context.get_value_type(row))
        for place_of, part in parts.items():
            view = builder.insert_value(view, part, place_of)
        return view

    def _length(self, array: Any, axis: int) -> Any:
        return self.builder.extract_value(array, (_SHAPE, axis))

    def _from_front(self, array: Any, axis: int, number: Any, kind: Any) -> Any:
        """Return an index counted from the front: a negative one counts from the end."""
        if not kind.signed:
            return self.context.cast(self.builder, number, kind, types.uintp)
        number = self.context.cast(self.builder, number, kind, types.intp)
        negative = self.builder.icmp_signed("<", number, number.type(0))
        return self.builder.select(negative, self.builder.add(number, self._length(array, axis)), number)
