"""Losses: everything that a loss knows, in one place. Scalar arithmetic on a margin m = y(x·w + b) and its dual variable β.

For regression y = 1, and a target t is a fixed part of the score: m = x·w + b − t is the residual. β then has both signs.

    value(m)              φ(m)
    slope(m)              β = −φ'(m)
    psi(β)                ψ(β) = −φ*(−β), the loss's part of the dual objective
    dual_step(β, m, q)    the β⁺ that maximises ψ(β⁺) − m(β⁺−β) − q(β⁺−β)²/2: the exact coordinate step, q = cᵢ‖xᵢ‖²/l2
    ascent_step(β, m, q)  that step, or one near to it which costs less: off by at most 1e-4 of its length
    gradient(β, m)        ψ'(β) − m: the gradient of the dual objective in β, up to the weight c
    curvature_at(β⁺, q)   −dβ⁺/dm of that step: the curvature of φ, smoothed by q, where the step ends at β⁺
    upper_bound()         upper bound of β
    lower_bound()         lower bound of β: 0 for classification
    is_free(β)            whether ψ is smooth around β: neither a bound nor a kink
    slack(β, m)           for a β that is not free, by how much it satisfies its KKT conditions; negative: violates
    kink_distance(m)      distance of m from the nearest kink of φ, or of the margin at which φ becomes 0
    jump_middle(m)        the middle of the values that β = −φ' takes at that kink
    curvature()           Lipschitz constant of φ' (infinite for the hinge)
    is_smooth()           whether it is finite
    has_kink()            whether φ' jumps. By default it does where the loss is not smooth; max(0, 1 − m)³ has no kink and is not smooth

Three are for Python alone:

    quadratic_pieces()    ψ'(0) from above and from below, and −ψ'', of a ψ that is quadratic on both sides of 0; None of any other ψ
    smoothed(width)       a loss without a kink in φ, quadratic over that width; None where there is none
    keeps_shortfall()     whether gap_terms, below, computes from z without going back to m

And for certificates, in terms of the shortfall z = reference() − m, which keeps its digits where m is close to the reference, 1 for
classification and 0 for regression:

    gap_terms(z, β)       three numbers: φ(m);  φ(m) − ψ(β) + βm ≥ 0, the row's part of the gap (Fenchel and Young), without
                          cancellation where that is possible;  a bound s on the terms of that sum. The first is computed with an error
                          of at most 32·u times itself, the second of at most 32·u·s, where u = 2⁻⁵³

A loss must have the methods of REQUIRED; DEFAULTS has the others. By default gap_terms is computed from `value` and `psi`, each of which
must then be right to 16 units of the last digit.
A loss knows neither the data nor n. With q = 0 (an empty row) the step is β⁺ = −φ'(m), without a division by q.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dualgap.core.checks import number
from dualgap.core.jit import compiled, kernel, negative_exp

__all__ = [
    "LOSSES",
    "Hinge",
    "Logistic",
    "NoOffset",
    "Offset",
    "ResidualLoss",
    "SmoothHinge",
    "SquaredHinge",
    "classification_loss",
    "make_loss",
    "slopes",
    "total_psi",
    "total_value",
]


@compiled
class NoOffset(NamedTuple):
    """In place of Offset where scores have no fixed part. It costs nothing in a compiled loop."""

    scale: float = 1.0  # of a typical margin

    def at(self, i):
        return 0.0

    def some(self, which: Any) -> NoOffset:
        """Return the offset of some rows."""
        return self

    def added(self, scores: np.ndarray) -> np.ndarray:
        """Return scores with their fixed part."""
        return scores

    def add_to(self, scores: np.ndarray) -> None:
        """Add the fixed part to scores in place."""

    def largest(self) -> float:
        """Return the largest magnitude of a fixed part."""
        return 0.0


@compiled
class Offset(NamedTuple):
    """A fixed part of each row's score: minus the targets of a regression."""

    values: np.ndarray
    scale: float = 1.0  # of a typical margin: the mean distance of the targets from their median

    def at(self, i):
        return self.values[i]

    def some(self, which: Any) -> Offset:
        """Return the offset of some rows."""
        return Offset(self.values[which], self.scale)

    def added(self, scores: np.ndarray) -> np.ndarray:
        """Return scores with their fixed part."""
        return scores + self.values

    def add_to(self, scores: np.ndarray) -> None:
        """Add the fixed part to scores in place."""
        scores += self.values

    def largest(self) -> float:
        """Return the largest magnitude of a fixed part."""
        return float(np.abs(self.values).max())


def _ascent_step(self, beta, margin, q):
    return self.dual_step(beta, margin, q)


def _lower_bound(self):
    return 0.0


def _is_free(self, beta):
    return 0.0 < beta < self.upper_bound()


def _slack(self, beta, margin):
    gradient = self.gradient(beta, margin)
    return -gradient if beta <= 0.0 else gradient


def _kink_distance(self, margin):
    return abs(1.0 - margin)


def _jump_middle(self, margin):
    return 0.5


def _reference(self):
    return 1.0


def _is_smooth(self):
    return math.isfinite(self.curvature())


def _has_kink(self):
    return not self.is_smooth()


def _gap_terms(self, short, beta):
    margin = 1.0 - short
    value, psi, product = self.value(margin), self.psi(beta), beta * margin
    return value, value - psi + product, abs(value) + abs(psi) + abs(product)


def _keeps_shortfall(self: Any) -> bool:
    return False


def _quadratic_pieces(self: Any) -> tuple[float, float, float] | None:
    return None


def _smoothed(self: Any, width: float) -> Any:
    return None


# the methods that a loss of classification need not have: those of any loss with β ≥ 0
DEFAULTS = {
    "ascent_step": _ascent_step,
    "lower_bound": _lower_bound,
    "is_free": _is_free,
    "slack": _slack,
    "kink_distance": _kink_distance,
    "jump_middle": _jump_middle,
    "reference": _reference,
    "is_smooth": _is_smooth,
    "has_kink": _has_kink,
    "gap_terms": _gap_terms,
    "keeps_shortfall": _keeps_shortfall,
    "quadratic_pieces": _quadratic_pieces,
    "smoothed": _smoothed,
}
# the methods that it must have
REQUIRED = ("value", "slope", "psi", "dual_step", "gradient", "curvature_at", "upper_bound", "curvature")


def with_defaults(cls: Any) -> Any:
    """Compile a loss class with what it lacks of DEFAULTS."""
    lacking = {name: method for name, method in DEFAULTS.items() if not hasattr(cls, name)}
    for name, method in lacking.items():
        setattr(cls, name, method)
    return compiled(cls) if lacking else cls


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
@with_defaults
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

    def quadratic_pieces(self) -> tuple[float, float, float]:
        return 1.0, 1.0, 0.0

    def smoothed(self, width: float) -> SmoothHinge:
        return SmoothHinge(width)

    def keeps_shortfall(self) -> bool:
        return True


# --8<-- [start:smooth_hinge]
@with_defaults
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
            total = slope + beta
            return 0.5 * short * slope, 0.5 * delta * distance * distance, delta * (total * total)
        return short - 0.5 * delta, left * ((short - delta) + 0.5 * delta * left), left * (short + delta)

    def upper_bound(self):
        return 1.0

    def curvature(self):
        return 1.0 / self.delta

    def quadratic_pieces(self) -> tuple[float, float, float]:
        return 1.0, 1.0, self.delta

    def keeps_shortfall(self) -> bool:
        return True


# --8<-- [end:smooth_hinge]


@_without_parameters
@with_defaults
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
        total = short + 0.5 * beta
        return short * short, distance * distance, total * total

    def upper_bound(self):
        return np.inf

    def curvature(self):
        return 2.0

    def quadratic_pieces(self) -> tuple[float, float, float]:
        return 1.0, 1.0, 0.5

    def keeps_shortfall(self) -> bool:
        return True


@_without_parameters
@with_defaults
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
        return self.step_within(beta, margin, q, 1e-11)

    def ascent_step(self, beta, margin, q):
        return self.step_within(beta, margin, q, 1e-4)

    def step_within(self, beta, margin, q, error):
        # With β⁺ = 1/(1+e^(−t)) the condition log(β⁺/(1−β⁺)) + m + q(β⁺−β) = 0 reads f(t) = t + m + q(β⁺(t)−β) = 0. Its slope in t
        # lies in [1, 1+q/4], and no logarithm of β is taken, so β = 0 and β = 1 are ordinary starting points. t = −m is the
        # root when β is already right. For a large q Newton's step may leave the bracket, or jump between its two ends for ever;
        # a step that does not land strictly inside is replaced by bisection.
        low = -margin - q * (1.0 - beta)
        high = -margin + q * beta
        t = -margin
        new = beta
        for _ in range(100):
            e = math.exp(-abs(t))
            part = 1.0 / (1.0 + e)
            new = part if t > 0.0 else e * part
            spread = e * part * part
            f = t + margin + q * (new - beta)
            inverse = 1.0 / (1.0 + q * spread)
            step, curved = f * inverse, q * spread * inverse
            if abs(step) <= 0.25 and curved * abs(step * step * step) <= error:
                # The rest by Taylor's series, of the root and then of β⁺, to the third order: no more exponentials.
                second, third = 0.5 - new, (1.0 - 6.0 * spread) / 6.0
                bend = curved * second
                step *= 1.0 + step * (bend + step * (2.0 * bend * bend - curved * third))
                if q * spread > 1.0:  # the condition itself then tells β⁺ more precisely than its series in t
                    return min(max(beta - (t - step + margin) / q, 0.0), 1.0)
                return new - spread * step * (1.0 - step * (second - step * third))
            if f > 0.0:
                high = t
            else:
                low = t
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


# --8<-- [start:residual_loss]
@with_defaults
class ResidualLoss(NamedTuple):
    """All losses of regression here: insensitive up to ε, then quadratic over a width δ·bound, then linear with the slope of that side.

    ψ(β) = −ε|β| − (δ/2)β² on [−low, high]. A residual m = x·w + b − t below −ε has β > 0 and the slope `high`; above ε, β < 0 and `low`.

    Examples
    --------
    >>> from dualgap import ResidualLoss
    >>> loss = ResidualLoss(epsilon=0.1)  # ε-insensitive
    >>> loss.value(0.05), loss.value(-1.1), loss.slope(-1.1)
    (0.0, 1.0, 1.0)
    >>> ResidualLoss(low=0.1, high=0.9).value(-1.0)  # a row below its target costs 0.9: the quantile 0.9
    0.9
    """

    epsilon: float = 0.0
    delta: float = 0.0
    low: float = 1.0
    high: float = 1.0

    def value(self, margin):
        bound, excess = self.high if margin < 0.0 else self.low, abs(margin) - self.epsilon
        if excess <= 0.0:
            return 0.0
        if excess < self.delta * bound:
            return 0.5 * excess * excess / self.delta
        return bound * (excess - 0.5 * self.delta * bound)

    def slope(self, margin):
        bound, excess = self.high if margin < 0.0 else self.low, abs(margin) - self.epsilon
        if excess <= 0.0:
            return 0.0
        size = excess / self.delta if excess < self.delta * bound else bound
        return size if margin < 0.0 else -size

    def psi(self, beta):
        return -self.epsilon * abs(beta) - 0.5 * self.delta * beta * beta

    def dual_step(self, beta, margin, q):
        curvature = q + self.delta
        if curvature <= 0.0:
            return self.slope(margin)
        middle = -margin - self.delta * beta
        rise, fall = beta + (middle - self.epsilon) / curvature, beta + (middle + self.epsilon) / curvature
        return min(rise, self.high) if rise > 0.0 else max(fall, -self.low) if fall < 0.0 else 0.0

    def gradient(self, beta, margin):
        middle = -margin - self.delta * beta
        if beta > 0.0:
            return middle - self.epsilon
        if beta < 0.0:
            return middle + self.epsilon
        return max(middle - self.epsilon, 0.0) + min(middle + self.epsilon, 0.0)

    def curvature_at(self, beta, q):
        return 1.0 / (q + self.delta) if self.is_free(beta) else 0.0

    def gap_terms(self, short, beta):
        # `size` and `along` are |β| and β in the direction of the residual: no case subtracts nearly equal numbers but |z| − ε, exactly.
        size, along = abs(beta), beta if short > 0.0 else -beta
        bound, excess = self.high if short > 0.0 else self.low, abs(short) - self.epsilon
        bend = 0.5 * self.delta * size * size
        if excess <= 0.0:
            gap = (size * -excess if along >= 0.0 else size * (self.epsilon + abs(short))) + bend
            return 0.0, gap, gap + size * self.epsilon
        if excess < self.delta * bound:
            value = 0.5 * excess * excess / self.delta
            if along >= 0.0:
                distance = excess - self.delta * along
                total = excess + self.delta * along
                return value, 0.5 * distance * distance / self.delta, total * total / self.delta
        else:
            value = bound * (excess - 0.5 * self.delta * bound)
            if along >= 0.0:
                left = bound - along
                beyond = excess - self.delta * bound
                return value, left * (beyond + 0.5 * self.delta * left), left * (excess + self.delta * bound)
        gap = value + size * (self.epsilon + abs(short)) + bend
        return value, gap, gap

    def upper_bound(self):
        return self.high

    def lower_bound(self):
        return -self.low

    def is_free(self, beta):
        return -self.low < beta < self.high and (beta != 0.0 or self.epsilon == 0.0)

    def slack(self, beta, margin):
        middle = -margin - self.delta * beta
        if beta >= self.high:
            return middle - self.epsilon
        if beta <= -self.low:
            return -middle - self.epsilon
        return self.epsilon - abs(margin)

    def kink_distance(self, margin):
        return abs(abs(margin) - self.epsilon)

    def jump_middle(self, margin):
        if self.epsilon == 0.0:
            return 0.5 * (self.high - self.low)
        return 0.5 * self.high if margin < 0.0 else -0.5 * self.low

    def reference(self):
        return 0.0

    def curvature(self):
        return 1.0 / self.delta if self.delta > 0.0 else np.inf

    def quadratic_pieces(self) -> tuple[float, float, float]:
        return -self.epsilon, self.epsilon, self.delta

    def keeps_shortfall(self) -> bool:
        return True

    def smoothed(self, width: float) -> ResidualLoss:
        return self._replace(delta=float(width))


# --8<-- [end:residual_loss]
ResidualLoss.regression = True  # type: ignore[attr-defined]  # y holds targets, and margins are residuals


LOSSES: dict[str, Any] = {"hinge": Hinge, "smooth_hinge": SmoothHinge, "squared_hinge": SquaredHinge, "logistic": Logistic}
# The names of regression: the fields of ResidualLoss, and the parameter that a user gives.
RESIDUAL_LOSSES: dict[str, tuple[dict[str, float], str | None]] = {
    "epsilon_insensitive": ({}, "epsilon"),
    "squared_epsilon_insensitive": ({"delta": 0.5, "low": np.inf, "high": np.inf}, "epsilon"),
    "huber": ({}, "delta"),
    "absolute": ({}, None),
    "quantile": ({}, "quantile"),
    "squared_error": ({"delta": 0.5, "low": np.inf, "high": np.inf}, None),
}
_ALIASES = {"log_loss": "logistic", "huberised_hinge": "smooth_hinge", "huberized_hinge": "smooth_hinge"}


def make_loss(loss: Any, delta: float | None = None, epsilon: float | None = None, quantile: float | None = None) -> Any:
    """Return the loss object for a name, or the object itself."""
    if isinstance(loss, str) and loss in RESIDUAL_LOSSES:
        return _residual_loss(loss, {"delta": delta, "epsilon": epsilon, "quantile": quantile})
    for name, value in (("epsilon", epsilon), ("quantile", quantile)):
        if value is not None:
            takes = [loss for loss, (_, own) in RESIDUAL_LOSSES.items() if own == name]
            raise ValueError(f"{name}={value!r} belongs to loss={' or '.join(map(repr, takes))}, not to loss={loss!r}")
    if not isinstance(loss, str):
        missing = [m for m in REQUIRED if not hasattr(loss, m)]
        if missing or not isinstance(loss, tuple):
            known = sorted([*LOSSES, *RESIDUAL_LOSSES])
            raise TypeError(f"loss={loss!r} is neither one of {known} nor a loss object, a NamedTuple (it lacks {missing})")
        with_defaults(type(loss))
        _check_fixed(loss)
        if isinstance(loss, ResidualLoss):
            loss = _checked_residual_loss(loss)
        if delta is not None:
            raise ValueError(
                f"delta={delta!r} beside the loss object {loss!r}: give delta with loss='smooth_hinge', or in the object"
            )
        return loss
    name = _ALIASES.get(loss, loss)
    if name not in LOSSES:
        known = sorted([*LOSSES, *RESIDUAL_LOSSES])
        raise ValueError(f"loss={loss!r} is unknown; choose one of {known} or pass a loss object")
    if name != "smooth_hinge":
        if delta is not None:
            raise ValueError(f"delta={delta!r} belongs to loss='smooth_hinge' only, not to loss={loss!r}")
        return LOSSES[name]()
    width = 1.0 if delta is None else delta
    return SmoothHinge(number("delta", width, wanted="a positive number: the width of the smoothed part of the hinge"))


def classification_loss(loss: Any, delta: float | None = None) -> Any:
    """Return the loss object as `make_loss` does, for what has class labels; a loss of regression is an error."""
    made = make_loss(loss, delta)
    if getattr(made, "regression", False):
        raise ValueError(
            f"loss={loss!r} is a loss of regression, and this is for class labels: choose one of {sorted(LOSSES)}, or train "
            "targets with dualgap.LinearSVR, dualgap.SVR or dualgap.Problem, with the rows in memory"
        )
    return made


def _residual_loss(name: str, given: dict[str, float | None]) -> ResidualLoss:
    """Return a loss of regression by its name and the one parameter that it has."""
    fields, own = RESIDUAL_LOSSES[name]
    for other, value in given.items():
        if value is not None and other != own:
            takes = f"its parameter is {own}" if own else "it has no parameter"
            raise ValueError(f"{other}={value!r} with loss={name!r}: {takes}")
    if own == "epsilon":
        epsilon = 0.1 if given["epsilon"] is None else given["epsilon"]
        wanted = "a number ≥ 0: the residual up to which there is no loss"
        return ResidualLoss(**{**fields, "epsilon": number("epsilon", epsilon, "[0, inf)", wanted=wanted)})
    if own == "delta":
        delta = 1.35 if given["delta"] is None else given["delta"]
        return ResidualLoss(delta=number("delta", delta, wanted="a positive number: the residual at which the loss becomes linear"))
    if own == "quantile":
        share = number("quantile", 0.5 if given["quantile"] is None else given["quantile"], "(0, 1)")
        return ResidualLoss(low=1.0 - share, high=share)
    return ResidualLoss(**fields)


def _checked_residual_loss(loss: ResidualLoss) -> ResidualLoss:
    """Return the loss with floats for fields, after a check that each is a number a loss can have."""
    epsilon, delta, low, high = (float(x) for x in loss)
    if not (0.0 <= epsilon < math.inf and 0.0 <= delta < math.inf and low >= 0.0 and high >= 0.0 and low + high > 0.0):
        raise ValueError(f"{loss}: epsilon and delta must be finite and ≥ 0, low and high ≥ 0 and not both 0")
    if delta == 0.0 and not math.isfinite(low + high):
        raise ValueError(f"{loss}: an infinite slope needs delta > 0, the width over which the loss is quadratic")
    return ResidualLoss(epsilon, delta, low, high)


@kernel
def total_value(loss, margins, c):
    """Σ cᵢ φ(mᵢ)"""
    s = 0.0
    for i in range(margins.shape[0]):
        if c[i] != 0.0:
            s += c[i] * loss.value(margins[i])
    return s


@kernel
def total_psi(loss, beta, samples):
    """Σ cᵢ(ψ(βᵢ) − βᵢyᵢoᵢ), where oᵢ is the fixed part of the row's score"""
    s = 0.0
    for i in range(beta.shape[0]):
        if samples.c[i] != 0.0:
            s += samples.c[i] * (loss.psi(beta[i]) - beta[i] * samples.y[i] * samples.offset.at(i))
    return s


@kernel
def slopes(loss, margins, out):
    """out[i] = −φ'(mᵢ)"""
    for i in range(margins.shape[0]):
        out[i] = loss.slope(margins[i])
