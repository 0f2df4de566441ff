"""Fits of LinearSVC that train all classes jointly: which problems there are, and the fitted attributes from a run on one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from dualgap.core import ROUNDOFF, gamma, is_sparse, length_bound
from dualgap.estimators.fitting import Solve, Task, keep
from dualgap.estimators.joint import CrammerSinger, CrammerSingerRun, JointPoint, JointProblem, JointStepper, joint_dual
from dualgap.estimators.model import Fit, Model, fit_of
from dualgap.estimators.multinomial import Multinomial, MultinomialRun
from dualgap.estimators.parameters import Budget
from dualgap.estimators.samples import Labelled, Rows, as_csr, support
from dualgap.kernels import squares
from dualgap.problem import Problem
from dualgap.proof import JointPart, ProofError
from dualgap.run import Best, Deciding, Trained, drive

__all__ = [
    "JOINT",
    "NO_FREE_INTERCEPT",
    "JointBall",
    "is_joint",
    "joint_ball_of",
    "joint_deciding",
    "joint_fit",
    "joint_part",
    "joint_problem",
]

JOINT: dict[str, tuple[type[JointProblem], type[JointStepper]]] = {
    "crammer_singer": (CrammerSinger, CrammerSingerRun),
    "multinomial": (Multinomial, MultinomialRun),
}


def is_joint(model: Model, classes: int) -> bool:
    """Return whether a LinearSVC trains that many classes jointly. With two, the multinomial problem is the logistic one."""
    return model.multi_class in JOINT and not (model.multi_class == "multinomial" and classes == 2)


def joint_problem(name: str, base: Problem, codes: np.ndarray, K: int) -> JointProblem:
    """Return the joint problem of that name over the rows of `base`."""
    return JOINT[name][0](base, codes, K)


def joint_fit(
    model: Model, data: Labelled, base: Problem, budget: Budget, deciding: Callable[[JointProblem], Deciding] | None
) -> tuple[Solve, Callable[[list[Trained]], None]]:
    """Return what solves the joint problem of a LinearSVC and what keeps its result; `deciding` makes the rows that end the run once their
    labels are proven.

    With two classes the model is the difference of the two, as in LIBLINEAR.
    """
    joint, scale = joint_problem(model.multi_class, base, data.codes, len(data.classes)), model.C * data.own_weights()

    def solve(tasks: Sequence[Task], around: Callable[[int], Any]) -> list[Trained]:
        run = JOINT[model.multi_class][1].from_model(joint, np.random.default_rng(budget.seed), model, scale)
        run.atol, run.deciding = budget.atol, None if deciding is None else deciding(joint)
        ended = drive(run, budget.tol, budget.max_epochs, budget.max_seconds, evaluate=run.schedule, callbacks=tasks[0].callbacks)
        W, b, p = run.best.coef, run.best.intercept, run.best.beta
        return [Trained(problem=base, coef=W, intercept=b, dual=p, certificate=run.certificate(), **ended._asdict())]

    def keep_joint(results: list[Trained]) -> None:
        (result,) = results
        found = support(((joint.own - result.dual) * scale[:, None]).T, data.codes)
        found["dual_coef_"] = as_csr(found["dual_coef_"])
        W, b = result.coef, np.asarray(result.intercept)
        coef, intercept = (np.diff(W, axis=0), np.diff(b)) if joint.K == 2 else (W, b)
        keep(model, results, Fit(data.n), **data.attributes(coef), intercept_=intercept, **found)

    return solve, keep_joint


def joint_part(model: Model, data: Labelled, base: Problem, duals: Sequence[Any] | None) -> JointPart:
    """Return the part of a proof for a joint problem."""
    joint = joint_problem(model.multi_class, base, data.codes, len(data.classes))
    coef, b = (
        np.asarray(model.coef_.toarray() if is_sparse(model.coef_) else model.coef_, dtype=np.float64),
        np.asarray(model.intercept_, dtype=float),
    )
    if joint.K == 2:  # the model is the difference of two that add up to zero
        coef, b = np.concatenate([-coef, coef]) / 2, np.concatenate([-b, b]) / 2
    p = duals[0] if duals is not None else joint_dual(model, joint, model.C * data.own_weights())
    if p is None:
        raise ProofError(f"the model was trained on {fit_of(model).n_rows} rows; X has {data.n}")
    gap = model.certificate_.gap if duals is not None else None
    return JointPart(base, data.codes, coef, b, p, gap, f"{joint.K} classes jointly", model.objective_, joint.name)


NO_FREE_INTERCEPT = (
    "free intercepts of multi_class='multinomial' have no bound, and so no score of the exact model has one; use intercept='penalised' "
    "or fit_intercept=False, or multi_class='ovr'"
)


ROOT2 = math.sqrt(2.0) * (1.0 + 1e-15)


@dataclass(frozen=True)
class Moves:
    """For every ordered pair (k, j), at k·K + j: the mean row x̄, a bound of its length, and the upper bound `level` of the difference.

    `scores` has (centreₖ − centreⱼ)·x̄ and `drift` how far the exact x̄ may be. Without a move, the level is infinite.
    """

    rows: Rows
    lengths: np.ndarray
    scores: np.ndarray
    levels: np.ndarray
    drift: np.ndarray

    def row(self, pair: int) -> np.ndarray:
        found = self.rows[[pair]]
        return np.asarray(found.toarray() if hasattr(found, "toarray") else found).ravel()


@dataclass(frozen=True)
class JointBall:
    """Where the exact model of K classes is: W* is at most `radius` from `centre`, penalised intercepts included.

    `mean` is the mean of the model's intercepts, which free ones are compared by: they are known up to a common number.
    """

    centre: np.ndarray
    bias: np.ndarray
    radius: float
    scale: float  # of a penalised intercept's column; else 0
    mean: float
    gap: float
    moves: Moves | None = field(default=None, repr=False)  # of free intercepts
    loss: str = "crammer_singer"

    def bounds(self, X: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of each class's score; with two classes, of the second one's minus the first one's."""
        n, K = X.shape[0], len(self.centre)
        if not math.isfinite(self.radius):
            columns = 1 if K == 2 else K
            return np.full((n, columns), -np.inf), np.full((n, columns), np.inf)
        lengths = _lengths(X)
        if K == 2:
            return -self._above(X, lengths, 0, 1)[:, None], self._above(X, lengths, 1, 0)[:, None]
        scores = np.asarray(X @ self.centre.T)
        wide = self.radius * np.hypot(lengths, self.scale)[:, None] * (1.0 + 1e-12)
        wide = wide + gamma(X.shape[1] + 16) * lengths[:, None] * np.array([length_bound(w) for w in self.centre])
        low, high = self._intercepts()
        wide += 8.0 * ROUNDOFF * (np.abs(scores) + np.abs(np.where(np.isfinite(low), low, 0.0)))
        return scores - wide + low, scores + wide + high

    def proven(self, codes: np.ndarray, X: Rows) -> np.ndarray:
        """Return in which rows the class given has the largest exact score, for certain."""
        found = np.zeros(len(codes), dtype=bool)
        if math.isfinite(self.radius):
            for k, rows, lengths in self._by_class(codes, X):
                others = [self._above(X[rows], lengths, j, k) for j in range(len(self.centre)) if j != k]
                found[rows] = np.max(others, axis=0) < 0.0
        return found

    def row_status(self, codes: np.ndarray, X: Rows) -> np.ndarray:
        """Return the status of training rows of these classes: "out" without loss, "bound" if another class is certainly ahead."""
        if self.loss == "multinomial":
            return np.full(len(codes), "free", dtype="U5")  # every p is inside the simplex
        found = np.full(len(codes), "open", dtype="U5")
        if math.isfinite(self.radius):
            for k, rows, lengths in self._by_class(codes, X):
                part, others = X[rows], [j for j in range(len(self.centre)) if j != k]
                above = np.max([self._above(part, lengths, j, k) for j in others], axis=0)
                below = np.min([self._above(part, lengths, k, j) for j in others], axis=0)
                found[rows] = np.where(above < -1.0 - 1e-12, "out", np.where(below < 1.0 - 1e-12, "bound", "open"))
        return found

    def _by_class(self, codes: np.ndarray, X: Rows) -> Any:
        lengths = _lengths(X)
        for k in np.unique(codes).tolist():
            rows = np.flatnonzero(codes == k)
            yield k, rows, lengths[rows]

    def _above(self, X: Rows, lengths: np.ndarray, k: int, j: int) -> np.ndarray:
        """Return upper bounds of the exact score of class k minus that of class j."""
        difference = self.centre[k] - self.centre[j]
        size = length_bound(self.centre[k]) + length_bound(self.centre[j])
        scores = np.asarray(X @ difference).ravel()
        off = gamma(X.shape[1] + 16) * size * lengths
        if self.moves is None:
            wide = ROOT2 * self.radius * np.hypot(lengths, self.scale) * (1.0 + 1e-12) + off
            more = self.bias[k] - self.bias[j]
            return scores + more + wide + 8.0 * ROUNDOFF * (np.abs(scores) + np.abs(self.bias[[k, j]]).sum())
        moves, pair = self.moves, k * len(self.centre) + j
        level, length, drift = float(moves.levels[pair]), float(moves.lengths[pair]), float(moves.drift[pair])
        if not math.isfinite(level):
            return np.full(len(scores), np.inf)
        squared = lengths**2 - 2.0 * np.asarray(X @ moves.row(pair)).ravel() + length**2
        squared += (2.0 * gamma(X.shape[1] + 16) + 16.0 * ROUNDOFF) * (lengths + length) ** 2
        away = np.sqrt(np.maximum(squared, 0.0)) * (1.0 + 1e-12) + drift
        at = float(moves.scores[pair])
        off = off + gamma(X.shape[1] + 16) * size * length + drift * size
        wide = ROOT2 * self.radius * away + off + 16.0 * ROUNDOFF * (np.abs(scores) + abs(at) + abs(level))
        return (scores - at) + level + wide * (1.0 + 1e-12)

    def _intercepts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of each class's exact intercept; free ones have the mean `mean`. Penalised ones are in the ball already."""
        K = len(self.centre)
        if self.moves is None:
            return self.bias, self.bias
        moves, sizes = self.moves, np.array([length_bound(w) for w in self.centre])
        size = (sizes[:, None] + sizes[None, :]).ravel()
        wide = (
            ROOT2 * self.radius * (moves.lengths + moves.drift)
            + (gamma(self.centre.shape[1] + 16) * moves.lengths + moves.drift) * size
        )
        with np.errstate(invalid="ignore"):
            above = (moves.levels - moves.scores + wide * (1.0 + 1e-12)).reshape(K, K)  # of b*ₖ − b*ⱼ
        above = np.where(np.isnan(above), np.inf, above)
        np.fill_diagonal(above, 0.0)
        slack = 16.0 * K * ROUNDOFF * np.abs(np.where(np.isfinite(above), above, 0.0)).max() + 4.0 * ROUNDOFF * abs(self.mean)
        return self.mean - above.sum(axis=0) / K - slack, self.mean + above.sum(axis=1) / K + slack


def _lengths(X: Rows) -> np.ndarray:
    return np.sqrt(squares(X)) * (1.0 + gamma(X.shape[1] + 16)) + 1e-150


def joint_ball_of(part: JointPart) -> JointBall:
    """Return the ball that a model and a dual point prove. Its radius is infinite where the two prove nothing."""
    base, K = part.problem, len(part.coef)
    if part.loss == "multinomial" and base.intercept == "free":
        raise ProofError(NO_FREE_INTERCEPT)
    joint = joint_problem(part.loss, base, part.codes, K)
    point = joint.dual_point(part.dual)
    certificate, _ = joint.certify(part.coef, part.intercept, point)
    gap, scale = certificate.gap, base.intercept_scale if base.intercept == "penalised" else 0.0
    rests = joint.rests(point.p)
    drifts = point.errors + scale * np.array([each.radius for each in rests]) / base.l2
    if base.intercept == "free":
        drifts = drifts + joint.balance_cost(point.p, np.zeros((base.n, K)), np.zeros(base.n), rests)[1]
    drift = float(np.linalg.norm(drifts)) * (1.0 + 1e-12)
    size = float(np.linalg.norm(part.coef) + np.linalg.norm(point.coef))
    apart = float(np.linalg.norm(part.coef - point.coef)) * (1.0 - gamma(K * base.d + 8)) - 4.0 * ROUNDOFF * size
    squared = (gap / base.l2) * (1.0 + 1e-12) - 0.25 * max(apart - drift, 0.0) ** 2
    radius = math.sqrt(max(squared, 0.0)) * (1.0 + 1e-12) + 0.5 * drift + 4.0 * ROUNDOFF * size
    centre, bias = 0.5 * (part.coef + point.coef), np.zeros(K)
    if not math.isfinite(radius):
        return JointBall(centre, bias, math.inf, scale, 0.0, gap, loss=part.loss)
    if base.intercept == "penalised":
        bias = 0.5 * (part.intercept + scale * scale * np.array([each.value for each in rests]) / base.l2)
        radius += 4.0 * ROUNDOFF * float(np.linalg.norm(bias) + np.linalg.norm(part.intercept)) / scale
    moves = _moves(joint, part, point, centre, gap) if base.intercept == "free" else None
    return JointBall(centre, bias, radius, scale, float(part.intercept.mean()), gap, moves, part.loss)


def _moves(joint: JointProblem, part: JointPart, point: JointPoint, centre: np.ndarray, gap: float) -> Moves:
    """Find the best move for every ordered pair of classes."""
    base, K = part.problem, joint.K
    scores = np.stack([base.scores(np.ascontiguousarray(w)) + b for w, b in zip(part.coef, part.intercept, strict=True)], axis=1)
    most = np.where(joint.own > 0.0, 0.0, point.p)
    own = np.maximum(1.0 - most.sum(axis=1) - 4.0 * (K + 8) * ROUNDOFF, 0.0)  # p of the own class is 1 − Σ of the others
    most[np.arange(base.n), joint.codes] = own
    most[(base.c[:, None] * point.p).argmax(axis=0)] = 0.0  # rows that the exact balance may move
    rows: list[Any] = []
    lengths, at, levels, drift = np.zeros(K * K), np.zeros(K * K), np.full(K * K, np.inf), np.zeros(K * K)
    for pair in range(K * K):
        k, j = divmod(pair, K)
        weights = np.zeros(base.n)
        if k != j:
            gain = joint.own[:, k] - joint.own[:, j]
            mass = base.c * most[:, j]
            chosen = _cheapest(gain - (scores[:, k] - scores[:, j]), mass, gap)
            mu = math.fsum(mass[chosen].tolist())
            if mu > 1e-290:
                top = gap + math.fsum((mass[chosen] * gain[chosen]).tolist())
                levels[pair] = top / mu + 32.0 * ROUNDOFF * (abs(top) + gap + mu) / mu
                weights[chosen] = mass[chosen] / mu
        row = base.combine(weights)
        rows.append(sparse.csr_matrix(row) if is_sparse(base.X) else row)
        lengths[pair], at[pair] = length_bound(row), float((centre[k] - centre[j]) @ row)
        drift[pair] = gamma(base.n + 32) * float(weights @ base.norms)
    stacked = sparse.vstack(rows, format="csr") if is_sparse(base.X) else np.stack(rows)
    return Moves(stacked, lengths, at, levels, drift)


def _cheapest(cost: np.ndarray, mass: np.ndarray, gap: float) -> np.ndarray:
    """Return the rows with the least (gap + Σ mass·cost)/Σ mass."""
    rows = np.flatnonzero(mass > 0.0)
    order = rows[np.argsort(cost[rows], kind="stable")]
    if len(order) == 0:
        return order
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = (gap + np.cumsum(mass[order] * cost[order])) / np.cumsum(mass[order])
    return order[: 1 + int(np.nanargmin(ratio))] if np.isfinite(ratio).any() else order[:0]


def joint_deciding(joint: JointProblem, rows: Rows) -> Deciding:
    """Return the rows that end the run on a joint problem, once their labels are proven."""
    if joint.name == "multinomial" and joint.base.intercept == "free":
        raise ValueError(f"decide does not go with this problem: {NO_FREE_INTERCEPT}")

    def prove(best: Best) -> Callable[[Any], np.ndarray]:
        part = JointPart(joint.base, joint.codes, best.coef, np.asarray(best.intercept), best.beta, None, loss=joint.name)
        ball = joint_ball_of(part)

        def proven(X: Rows) -> np.ndarray:
            return ball.proven(np.argmax(X @ best.coef.T + best.intercept, axis=1), X)

        return proven

    return Deciding(rows, prove)
