"""SDCA: stochastic dual coordinate ascent (Shalev-Shwartz & Zhang 2013, docs/references.md#shalev-shwartz-2013)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dualgap.core import draw, fresh_seed, kernel, natural_order, one_of, shuffle
from dualgap.problem import Problem
from dualgap.solvers.base import Solver, State, Support, Warm, no, register
from dualgap.solvers.coordinate.ascent import Ascent, RunningSums, needs_l2
from dualgap.solvers.suffix import SecondHalf

__all__ = ["SDCA"]


@dataclass(kw_only=True)
class SDCAState(State):
    """β and v in `ascent`; every epoch changes them, the order and the suffix."""

    ascent: Ascent
    order: np.ndarray
    suffix: AveragedSuffix | DrawnSuffix | None = None  # the output over the second half; None: the last iterate
    epochs: int = 0


@register
@dataclass(frozen=True)
class SDCA(Solver):
    """Stochastic dual coordinate ascent: one exact step on one dual variable at a time.

    Parameters
    ----------
    order : {"permutation", "random", "cyclic"}
        A fresh permutation each epoch, independent draws, or the rows as they come.
    output : {"last", "average", "random"}
        The last iterate, the average of the iterates of the second half, or one of these at random: of T epochs the half begins
        after T₀ = ⌊T/2⌋, and its iterates are those before each of its steps, as in the paper. A vector of length n is kept for each
        epoch of the second half, up to 256 MB in all; in a longer run T₀ is the last epoch before T/2 that is kept.
    first_epoch : {"sdca", "sgd"}
        "sgd" starts with one pass of modified stochastic gradient descent, whose β then starts SDCA. A warm start takes its place.

    A warm start is one from dual variables: w follows from them, so that a `coef` without them starts nothing.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> problem = dualgap.Problem(*make_classification(200, random_state=0), l2=1e-2)
    >>> dualgap.solve(problem, dualgap.SDCA(order="cyclic"), tol=1e-3).status
    'converged'
    """

    order: str = "permutation"
    output: str = "last"
    first_epoch: str = "sdca"

    name: ClassVar[str] = "sdca"
    takes_bounds: ClassVar[bool] = True
    takes_blocks: ClassVar[bool] = True
    summary: ClassVar[str] = "stochastic dual coordinate ascent"

    def __post_init__(self) -> None:
        one_of("order", self.order, ("permutation", "random", "cyclic"))
        one_of("output", self.output, ("last", "average", "random"))
        one_of("first_epoch", self.first_epoch, ("sdca", "sgd"))

    def supports(self, problem: Problem) -> Support:
        if problem.blocked and self.first_epoch == "sgd":
            return no(
                "first_epoch='sgd' makes one pass in one order, which kernel rows in blocks do not allow; use first_epoch='sdca'"
            )
        return needs_l2(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> SDCAState:
        dual, centre = (None, None) if warm is None else (warm.dual, warm.intercept)
        ascent = Ascent(problem, dual, centre)
        state = SDCAState(ascent=ascent, order=natural_order(problem.n))
        if self.output == "average":
            ascent.sums = RunningSums(np.zeros(problem.n), np.zeros(problem.n, dtype=np.int64))
            state.suffix = AveragedSuffix(ascent, ascent.sums)
        elif self.output == "random":
            state.suffix = DrawnSuffix(ascent)
        return state

    def epoch(self, problem: Problem, state: SDCAState, rng: np.random.Generator) -> None:
        self._make_order(problem, state, rng)
        ascent = state.ascent
        t = state.epochs * problem.n
        if state.epochs == 0 and self.first_epoch == "sgd" and not ascent.beta.any():
            bias = ascent.bias
            args = (bias.rows(problem.rows, centre=0.0), problem.loss, problem.penalty, ascent.coords, ascent.beta, ascent.v)
            modified_sgd(*args, state.order, float(bias.centre), ascent.ahead)
            ascent.v /= problem.n
        elif isinstance(state.suffix, DrawnSuffix):
            # The epoch's candidate is its iterate at a step drawn uniformly.
            cut = int(rng.integers(problem.n))
            ascent.steps(state.order[:cut], t)
            state.suffix.candidate = ascent.beta.copy()
            ascent.epoch(state.order[cut:], t + cut)
        else:
            ascent.epoch(state.order, t)
        state.epochs += 1
        state.passes += 1.0
        if state.suffix is not None:
            state.suffix.close_epoch(problem.n, rng)

    def _make_order(self, problem: Problem, state: SDCAState, rng: np.random.Generator) -> None:
        if self.order == "permutation" or (state.epochs == 0 and self.first_epoch == "sgd" and self.order == "random"):
            shuffle(state.order, fresh_seed(rng))  # the first epoch of modified SGD needs every row once
        elif self.order == "random":
            draw(state.order, problem.n, fresh_seed(rng))

    def dual(self, problem: Problem, state: SDCAState) -> np.ndarray:
        return state.ascent.beta.copy() if state.suffix is None else state.suffix.beta()


class AveragedSuffix:
    """Average of the β before each step of the second half, from running sums."""

    def __init__(self, ascent: Ascent, sums: RunningSums) -> None:
        self.ascent, self.sums, self.step = ascent, sums, 0
        self.half = SecondHalf()

    def close_epoch(self, n: int, rng: np.random.Generator) -> None:
        sums = self.sums
        self.step += n
        sums.total[:] += self.ascent.beta * (self.step - sums.since)
        sums.since[:] = self.step
        self.half.add(sums.total, self.step)

    def beta(self) -> np.ndarray:
        if self.step == 0:
            return self.ascent.beta.copy()
        _, then = self.half.since()
        total, step = (0.0, 0) if then is None else then
        return np.asarray((self.sums.total - total) / (self.step - step))


class DrawnSuffix:
    """One iterate of the second half: each epoch has a candidate, its iterate at a step drawn uniformly, and one of them is drawn."""

    def __init__(self, ascent: Ascent) -> None:
        self.candidate = ascent.beta.copy()
        self.chosen = self.candidate
        self.half = SecondHalf()

    def close_epoch(self, n: int, rng: np.random.Generator) -> None:
        self.half.add(self.candidate)
        first = self.half.first
        late = [seen[0] for epoch, seen in self.half.kept.items() if epoch > first] or [self.candidate]
        self.chosen = late[int(rng.integers(len(late)))]

    def beta(self) -> np.ndarray:
        return np.array(self.chosen)


@kernel
def modified_sgd(rows, loss, penalty, coords, beta, v, order, centre, ahead):
    """Make one pass of modified SGD (Shalev-Shwartz & Zhang 2013) from β = 0 and v = 0; v becomes Σ n·cβyx/l2.

    The rows seen so far are treated as the whole data: β_t maximises the coordinate objective with q = ‖x_t‖²/(l2·t), and
    w ← ((t−1)/t)·w + β_t y_t x_t/(l2·t). So w has its final length from the start. w of t rows is v/t, which needs no scaling. With
    weights, t counts them in units of the mean weight. `centre` is added to every score, and `ahead` as in Ascent.
    """
    n, l2, count = beta.shape[0], penalty.strength(), order.shape[0]
    seen = 0.0
    for s in range(count):
        if ahead > 0 and s + ahead < count:
            coords.prefetch_step(order[s + ahead], rows, beta)
        i = order[s]
        factor = coords.factor[i]
        weight = n * abs(factor) * l2
        if weight > 0.0:
            score = penalty.scaled_score(rows, i, v, seen) if seen > 0.0 else 0.0
            margin = math.copysign(1.0, factor) * (score + centre + coords.offset.at(i))
            seen += weight
            new = loss.dual_step(0.0, margin, n * coords.q[i] / seen)
            if new != 0.0:
                beta[i] = new
                rows.add(i, n * new * factor, v)
