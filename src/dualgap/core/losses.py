"""Losses: everything that a loss knows, in one place. Scalar arithmetic on a margin m = y(x·w + b) and its dual variable β.

    value(m)              φ(m)
    slope(m)              β = −φ'(m)
    psi(β)                ψ(β) = −φ*(−β), the loss's part of the dual objective
    dual_step(β, m, q)    the β⁺ that maximises ψ(β⁺) − m(β⁺−β) − q(β⁺−β)²/2: the exact coordinate step, q = cᵢ‖xᵢ‖²/l2
    gradient(β, m)        ψ'(β) − m: the gradient of the dual objective in β, up to the weight c
    curvature_at(β⁺, q)   −dβ⁺/dm of that step: the curvature of φ, smoothed by q, where the step ends at β⁺
    upper_bound()         upper bound of β; the lower bound is 0 for every loss
    curvature()           Lipschitz constant of φ' (infinite for the hinge)

and for certificates, in terms of the shortfall z = 1 − m, which keeps its digits where m is close to 1:

    gap_terms(z, β)       three numbers: φ(1 − z);  φ(m) − ψ(β) + βm ≥ 0, the row's part of the gap (Fenchel and Young), without
                          cancellation where that is possible;  a bound s on the terms of that sum. The first is computed with an error
                          of at most 32·u times itself, the second of at most 32·u·s, where u = 2⁻⁵³

A loss without it gets it from its `value` and `psi`, each of which must then be right to 16 units of the last digit.
A loss knows neither the data nor n. With q = 0 (an empty row) the step is β⁺ = −φ'(m), without a division by q.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np

from dualgap.core.checks import number
from dualgap.core.jit import compiled, kernel, negative_exp

__all__ = ["LOSSES", "Hinge", "Logistic", "SmoothHinge", "SquaredHinge", "make_loss", "slopes", "total_psi", "total_value"]


def _without_parameters(cls: Any) -> Any:
    """Make a loss class refuse every value of its field but the default. The field is there because numba needs one."""
    create = cls.__new__

    def new(cls: Any, *args: Any, **options: Any) -> Any:
        if args or options:
            _check_fixed(create(cls, *args, **options))
        return create(cls)

    cls.__new__ = new
    return cls


def _check_fixed(loss: Any) -> None:
    """Refuse a loss whose field differs from the default where no formula reads the field."""
    cls = type(loss)
    if cls in (Hinge, SquaredHinge, Logistic) and loss != (default := tuple(cls._field_defaults.values())):
        name = cls._fields[0]
        raise ValueError(
            f"{cls.__name__}({name}={loss[0]!r}): {cls.__name__} has no parameter. Its field {name} is there because numba cannot pass "
            f"an object without fields, and no formula reads it; leave it at {default[0]}"
        )


@_without_parameters
@compiled
class Hinge(NamedTuple):
    """The hinge, max(0, 1 − m).

    Examples
    --------
    >>> from dualgap import Hinge
    >>> Hinge().value(0.25), Hinge().slope(0.25)
    (0.75, 1.0)
    """

    kink: float = 1.0  # fixed; numba needs a field

    def value(self, margin):
        return max(0.0, 1.0 - margin)

    def slope(self, margin):
        return 1.0 if margin < 1.0 else 0.0

    def psi(self, beta):
        return beta

    def dual_step(self, beta, margin, q):
        if q <= 0.0:
            return 1.0 if margin < 1.0 else 0.0
        return min(1.0, max(0.0, beta + (1.0 - margin) / q))

    def gradient(self, beta, margin):
        return 1.0 - margin

    def curvature_at(self, beta, q):
        return 1.0 / q if 0.0 < beta < 1.0 else 0.0

    def gap_terms(self, short, beta):
        value = max(0.0, short)
        excess = value * (1.0 - beta) + max(0.0, -short) * beta
        return value, excess, excess

    def upper_bound(self):
        return 1.0

    def curvature(self):
        return np.inf


# --8<-- [start:smooth_hinge]
@compiled
class SmoothHinge(NamedTuple):
    """The huberised hinge: quadratic over a width δ below the margin 1, linear beneath.

    Examples
    --------
    >>> from dualgap import SmoothHinge
    >>> SmoothHinge(delta=0.5).value(0.75), SmoothHinge(delta=0.5).slope(0.75)
    (0.0625, 0.5)
    """

    delta: float = 1.0

    def value(self, margin):
        if margin >= 1.0:
            return 0.0
        if margin > 1.0 - self.delta:
            return (1.0 - margin) * (1.0 - margin) / (2.0 * self.delta)
        return 1.0 - margin - 0.5 * self.delta

    def slope(self, margin):
        return min(1.0, max(0.0, (1.0 - margin) / self.delta))

    def psi(self, beta):
        return beta - 0.5 * self.delta * beta * beta

    def dual_step(self, beta, margin, q):
        return min(1.0, max(0.0, beta + (1.0 - margin - self.delta * beta) / (q + self.delta)))

    def gradient(self, beta, margin):
        return 1.0 - margin - self.delta * beta

    def curvature_at(self, beta, q):
        return 1.0 / (q + self.delta) if 0.0 < beta < 1.0 else 0.0

    def gap_terms(self, short, beta):
        delta, left = self.delta, 1.0 - beta
        if short <= 0.0:
            excess = beta * (0.5 * delta * beta - short)
            return 0.0, excess, excess
        if short < delta:
            slope = short / delta
            distance = slope - beta
            return 0.5 * short * slope, 0.5 * delta * distance * distance, delta * (slope + beta) ** 2
        return short - 0.5 * delta, left * ((short - delta) + 0.5 * delta * left), left * (short + delta)

    def upper_bound(self):
        return 1.0

    def curvature(self):
        return 1.0 / self.delta


# --8<-- [end:smooth_hinge]


@_without_parameters
@compiled
class SquaredHinge(NamedTuple):
    """The squared hinge, max(0, 1 − m)².

    Examples
    --------
    >>> from dualgap import SquaredHinge
    >>> SquaredHinge().value(0.5), SquaredHinge().slope(0.5)
    (0.25, 1.0)
    """

    kink: float = 1.0  # fixed; numba needs a field

    def value(self, margin):
        short = max(0.0, 1.0 - margin)
        return short * short

    def slope(self, margin):
        return 2.0 * max(0.0, 1.0 - margin)

    def psi(self, beta):
        return beta - 0.25 * beta * beta

    def dual_step(self, beta, margin, q):
        return max(0.0, beta + (1.0 - margin - 0.5 * beta) / (q + 0.5))

    def gradient(self, beta, margin):
        return 1.0 - margin - 0.5 * beta

    def curvature_at(self, beta, q):
        return 1.0 / (q + 0.5) if beta > 0.0 else 0.0

    def gap_terms(self, short, beta):
        if short <= 0.0:
            excess = beta * (0.25 * beta - short)
            return 0.0, excess, excess
        distance = short - 0.5 * beta
        return short * short, distance * distance, (short + 0.5 * beta) ** 2

    def upper_bound(self):
        return np.inf

    def curvature(self):
        return 2.0


@_without_parameters
@compiled
class Logistic(NamedTuple):
    """The logistic loss, log(1 + e^(−m)).

    Examples
    --------
    >>> from dualgap import Logistic
    >>> Logistic().slope(0.0)
    0.5
    """

    scale: float = 1.0  # fixed; numba needs a field

    def value(self, margin):
        if margin > 0.0:
            return math.log1p(math.exp(-margin))
        return math.log1p(math.exp(margin)) - margin

    def slope(self, margin):
        e = negative_exp(-abs(margin))
        return (e if margin > 0.0 else 1.0) / (1.0 + e)

    def psi(self, beta):
        s = 0.0
        if beta > 0.0:
            s -= beta * math.log(beta)
        if beta < 1.0:
            s -= (1.0 - beta) * math.log1p(-beta)
        return s

    def dual_step(self, beta, margin, q):
        # With β⁺ = 1/(1+e^(−t)) the condition log(β⁺/(1−β⁺)) + m + q(β⁺−β) = 0 reads t + m + q(β⁺(t)−β) = 0. Its slope in t
        # lies in [1, 1+q/4], and no logarithm of β is taken, so β = 0 and β = 1 are ordinary starting points. t = −m is the
        # root when β is already right. For a large q Newton's step may leave the bracket, or jump between its two ends for ever;
        # a step that does not land strictly inside is replaced by bisection.
        low = -margin - q * (1.0 - beta)
        high = -margin + q * beta
        t = -margin
        new = beta
        for _ in range(100):
            if t > 0.0:
                new = 1.0 / (1.0 + math.exp(-t))
            else:
                e = math.exp(t)
                new = e / (1.0 + e)
            f = t + margin + q * (new - beta)
            if f > 0.0:
                high = t
            else:
                low = t
            spread = new * (1.0 - new)
            step = f / (1.0 + q * spread)
            if abs(step) <= 1e-5:
                # The step's second-order part is taken along, which leaves an error of its cube: another exponential would not show.
                return new - spread * step * (1.0 - (0.5 - new) * step / (1.0 + q * spread))
            t -= step
            if not (low < t < high):
                t = 0.5 * (low + high)
        return new

    def gradient(self, beta, margin):
        # The gradient grows without bound towards 0 and 1, so β never stays at a bound.
        return math.log1p(-beta) - math.log(beta) - margin if 0.0 < beta < 1.0 else (math.inf if beta <= 0.0 else -math.inf)

    def curvature_at(self, beta, q):
        spread = beta * (1.0 - beta)
        return spread / (1.0 + q * spread)

    def gap_terms(self, short, beta):
        margin = 1.0 - short
        value, psi, product = self.value(margin), self.psi(beta), beta * margin
        return value, value - psi + product, value + psi + abs(product)

    def upper_bound(self):
        return 1.0

    def curvature(self):
        return 0.25


LOSSES: dict[str, Any] = {"hinge": Hinge, "smooth_hinge": SmoothHinge, "squared_hinge": SquaredHinge, "logistic": Logistic}
# what kernels call on a loss
METHODS = ("value", "slope", "psi", "dual_step", "gradient", "curvature_at", "upper_bound", "curvature")
_RENAMED = {"gradient": "pull", "curvature_at": "bend", "upper_bound": "ceiling"}  # new: name in version 0.1
_ALIASES = {"log_loss": "logistic", "huberised_hinge": "smooth_hinge", "huberized_hinge": "smooth_hinge"}


def make_loss(loss: Any, delta: float | None = None) -> Any:
    """Return the loss object for a name, or the object itself."""
    if not isinstance(loss, str):
        _rename_methods(type(loss))
        _complete(type(loss))
        missing = [m for m in METHODS if not hasattr(loss, m)]
        if missing or isinstance(loss, type):
            raise TypeError(f"loss={loss!r} is neither one of {sorted(LOSSES)} nor a loss object (it lacks {missing})")
        _check_fixed(loss)
        if delta is not None:
            raise ValueError(
                f"delta={delta!r} beside the loss object {loss!r}: give delta with loss='smooth_hinge', or in the object"
            )
        return loss
    name = _ALIASES.get(loss, loss)
    if name not in LOSSES:
        raise ValueError(f"loss={loss!r} is unknown; choose one of {sorted(LOSSES)} or pass a loss object")
    if name != "smooth_hinge":
        if delta is not None:
            raise ValueError(f"delta={delta!r} belongs to loss='smooth_hinge' only, not to loss={loss!r}")
        return LOSSES[name]()
    width = 1.0 if delta is None else delta
    return SmoothHinge(number("delta", width, wanted="a positive number: the width of the smoothed part of the hinge"))


def _rename_methods(cls: Any) -> None:
    """Give a user's loss class the present names of methods that it has under their names of version 0.1."""
    old = {new: name for new, name in _RENAMED.items() if not hasattr(cls, new) and name in vars(cls)}
    for new, name in old.items():
        setattr(cls, new, vars(cls)[name])
    if old:
        compiled(cls)
        names = ", ".join(f"{name} to {new}" for new, name in old.items())
        warnings.warn(f"{cls.__name__} has methods by their names of version 0.1: rename {names}", DeprecationWarning, stacklevel=5)


def _gap_terms(self, short, beta):
    margin = 1.0 - short
    value, psi, product = self.value(margin), self.psi(beta), beta * margin
    return value, value - psi + product, abs(value) + abs(psi) + abs(product)


def _complete(cls: Any) -> None:
    """Give a user's loss class what certificates ask for, by its value and psi."""
    if isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "psi") and not hasattr(cls, "gap_terms"):
        cls.gap_terms = _gap_terms  # type: ignore[attr-defined]
        compiled(cls)


@kernel
def total_value(loss, margins, c):
    """Σ cᵢ φ(mᵢ)"""
    s = 0.0
    for i in range(margins.shape[0]):
        if c[i] != 0.0:
            s += c[i] * loss.value(margins[i])
    return s


@kernel
def total_psi(loss, beta, c):
    """Σ cᵢ ψ(βᵢ)"""
    s = 0.0
    for i in range(beta.shape[0]):
        if c[i] != 0.0:
            s += c[i] * loss.psi(beta[i])
    return s


@kernel
def slopes(loss, margins, out):
    """out[i] = −φ'(mᵢ)"""
    for i in range(margins.shape[0]):
        out[i] = loss.slope(margins[i])
