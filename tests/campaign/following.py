"""What follows from a certificate, judged by models that are nearly exact: their P and D are fractions, and so is the ball around them.

P is l2-strongly convex in w, so that ‖w − w*‖² ≤ 2·(P − D)/l2, with b/scale as a coordinate of a penalised intercept. A free b* has no such
ball: there the package's own bounds of the nearly exact model must agree with those that are judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

import dualgap
from campaign.cases import Case
from campaign.judge import Claimed, Judged, false_words, part_of, table_of
from dualgap.proof import exact_values

Interval = tuple[Any, Any]
PRECISE = {"tol": 1e-10, "max_epochs": 3000}
ROUNDED = Fraction(1, 10**12)  # relative difference of two ways to compute l2 from C


def root(x: Fraction) -> Fraction:
    """Return a number that is at least √x, and hardly more."""
    scale = 1 << 2 * max(0, 64 + (x.denominator.bit_length() - x.numerator.bit_length() + 1) // 2)
    return Fraction(math.isqrt(x.numerator * scale // x.denominator) + 1, math.isqrt(scale))


class Exact:
    """A nearly exact model of a problem with l2 > 0, and the exact bounds that follow for the exact one."""

    def __init__(self, problem: dualgap.Problem) -> None:
        self.problem = problem
        self.result = dualgap.solve(problem, **PRECISE)
        part = part_of(problem, self.result.coef, self.result.intercept, self.result.dual)
        self.primal, self.dual = exact_values(part, table_of(problem))

    @cached_property
    def radius(self) -> Fraction:
        """Bounds the distance of the coefficients."""
        return root(2 * (self.primal - self.dual) / Fraction(self.problem.l2))

    @cached_property
    def coef(self) -> list[Fraction]:
        return [Fraction(x) for x in self.result.coef.tolist()]

    def scores(self, X: Any) -> list[Interval]:
        """Return an interval for the score that the exact model gives each row."""
        if self.problem.intercept == "free":
            return list(zip(*(end.tolist() for end in self.result.decision_bounds(X)), strict=True))
        rows = X.toarray() if hasattr(X, "toarray") else X
        scale = Fraction(self.problem.intercept_scale) if self.problem.intercept == "penalised" else Fraction(0)
        found = []
        for row in rows.tolist():
            x = [Fraction(value) for value in row]
            score = sum((p * q for p, q in zip(x, self.coef, strict=True)), Fraction(self.result.intercept))
            off = self.radius * root(sum((p * p for p in x), scale * scale))
            found.append((score - off, score + off))
        return found


def apart(claimed: Interval, exact: Interval) -> bool:
    """Whether two intervals have no point in common, where one of them must then be false."""
    return bool(max(claimed[0], exact[0]) > min(claimed[1], exact[1]))


def answers(case: Case) -> Iterator[Claimed | Judged]:
    """Bounds of scores, features that are zero, and of labels the leave-one-out scores of a few rows."""
    problem, X = case.problem(), case.matrix()
    result = dualgap.solve(problem, "auto", tol=case["tol"], max_epochs=case["max_epochs"], seed=case["seed"])
    exact = Exact(problem)
    pairs = zip(zip(*result.decision_bounds(X), strict=True), exact.scores(X), strict=True)
    wrong = [f"bounds of the score of row {i} are {found}" for i, (found, true) in enumerate(pairs) if apart(found, true)]
    for j, status in enumerate(result.feature_status().tolist()):
        if status == "zero" and abs(exact.coef[j]) > exact.radius:
            wrong.append(f"feature {j} is said to be zero")
    yield Judged("answers", wrong)
    if not problem.is_regression:
        yield Judged("leave_one_out", list(_left_out(case, problem, result)))


def _left_out(case: Case, problem: dualgap.Problem, result: Any) -> Iterator[str]:
    found = result.leave_one_out()
    for i in np.random.default_rng(case["seed"]).permutation(problem.n)[:3].tolist():
        stay = np.flatnonzero(np.arange(problem.n) != i)
        if len(np.unique(problem.y[stay])) < 2 or not problem.c[stay].any():
            continue
        others = case.change(X=case.X[stay], y=case.y[stay], weights=None).problem().replace(c=problem.c[stay])
        (true,) = Exact(others).scores(case.X[[i]])
        claimed = found.scores[0][i], found.scores[1][i]
        if apart(claimed, true):
            yield f"bounds of row {i}, left out, are {claimed}"
        status, label = found.status[i], problem.y[i]
        if (status == "right" and label * true[int(label > 0)] < 0) or (status == "wrong" and label * true[int(label < 0)] > 0):
            yield f"bounds: row {i}, left out, is said to be {status}"


def forgets(case: Case) -> Iterator[Claimed | Judged]:
    """`forget` of some rows, twice: the certificate of what stays, and the distance of the exact model."""
    problem, rng = case.problem(), np.random.default_rng([7, case["seed"]])
    result = dualgap.solve(problem, "auto", tol=case["tol"], max_epochs=case["max_epochs"], seed=case["seed"])
    left = rng.permutation(problem.n)
    for count in (1, 2):
        rows, left = left[:count], left[count:]
        if len(left) < 4 or len(np.unique(problem.y[left])) < len(np.unique(problem.y)) or not problem.c[left].any():
            return
        allowed, tol = float(rng.choice([0.0, 0.01, 10.0])), case["tol"] or 1e-6
        result, receipt = result.forget(rows, max_relative_gap=allowed, tol=tol)
        part = part_of(result.problem, result.coef, result.intercept, result.dual)
        yield Claimed(receipt.certificate, part, table_of(result.problem), name="forget")
        asked = min(allowed, tol) if receipt.retrained else allowed
        yield Judged("forget: status", false_words(result.certificate, result.status, asked, 0.0))
        exact = Exact(result.problem)
        coef = [Fraction(x) for x in result.coef.tolist()]
        away = root(sum(((p - q) ** 2 for p, q in zip(coef, exact.coef, strict=True)), Fraction(0)))
        far = np.isfinite(receipt.distance) and away > (Fraction(receipt.distance) + exact.radius) * (1 + ROUNDED)
        yield Judged("forget: distance", [f"distance {receipt.distance!r}, but it is {float(away)!r}"] if far else [])


def guarantee(case: Case) -> Iterator[Claimed | Judged]:
    """A path with a guarantee, at some C: no model may be further above another one than is claimed."""
    options, total = _options(case), len(case.y) if case.weights is None else case.weights.sum()
    C, epsilon, ratio = _least(case), float(case["guarantee"]), 0.5 * (case["l1"] > 0)
    model = dualgap.LinearSVCPath(Cs=[C, 20.0 * C], l1_ratios=ratio, guarantee=epsilon, max_iter=3000, **options)
    model.fit(case.matrix(), case.y, sample_weight=case.weights)
    wrong = []
    for at in C * 20.0 ** np.random.default_rng([8, case["seed"]]).random(3):
        if not any(low <= at <= high for low, high in model.breakpoints_):
            continue
        one = model.model_at(float(at))
        problem = case.change(l2=(1.0 - ratio) / (at * total), l1=ratio / (at * total)).problem()
        exact, c = Exact(problem), one.certificate_
        part = part_of(problem, one.coef_[0], float(one.intercept_[0]), np.zeros(problem.n))
        primal, _ = exact_values(part, table_of(problem))
        if primal > Fraction(c.primal) * (1 + ROUNDED):
            wrong.append(f"primal {c.primal!r} at C={at!r} is below {float(primal)!r}")
        if exact.primal < Fraction(c.dual) * (1 - ROUNDED):
            wrong.append(f"dual {c.dual!r} at C={at!r} is above the objective {float(exact.primal)!r} of another model")
        if primal - exact.primal > Fraction(c.gap) * (1 + ROUNDED) + ROUNDED * primal:
            wrong.append(f"gap {c.gap!r} at C={at!r}, but another model is better by {float(primal - exact.primal)!r}")
        if primal > (1 + Fraction(epsilon) + ROUNDED) * exact.primal:
            wrong.append(f"guarantee {epsilon:g} at C={at!r}, but a model is better by {float(primal / exact.primal - 1)!r}")
    yield Judged("guarantee", wrong)


def certified_choice(case: Case) -> Iterator[Claimed | Judged]:
    """Cross-validation with intervals of the errors of exact models, and a winner that is proven."""
    X, C, options = case.matrix(), _least(case), _options(case)
    Cs = [C, 10.0 * C, 300.0 * C]
    folds = list(StratifiedKFold(2).split(case.X, case.y))
    model = dualgap.LinearSVCPathCV(Cs=Cs, l1_ratios=0.0, cv=folds, certified=True, max_iter=3000, max_time=20.0, **options)
    model.fit(X, case.y, sample_weight=case.weights)
    wrong, errors = [], np.zeros((len(folds), len(Cs), 2))
    for f, (train, test) in enumerate(folds):
        weights = None if case.weights is None else case.weights[train]
        for j, at in enumerate(model.Cs_.tolist()):
            total = len(train) if weights is None else weights.sum()
            problem = case.change(X=case.X[train], y=case.y[train], weights=weights, l2=1.0 / (at * total), l1=0.0).problem()
            scores, signs = Exact(problem).scores(X[test]), np.where(case.y[test] == 1, 1, -1)
            right = sum((low > 0 and sign > 0) or (high < 0 and sign < 0) for (low, high), sign in zip(scores, signs, strict=True))
            bad = sum((low > 0 and sign < 0) or (high < 0 and sign > 0) for (low, high), sign in zip(scores, signs, strict=True))
            errors[f, j] = bad / len(test), 1.0 - right / len(test)
            claimed = model.intervals_[f, 0, j]
            if max(claimed[0], errors[f, j, 0]) > min(claimed[1], errors[f, j, 1]) + 1e-12:
                wrong.append(f"interval {claimed} of fold {f}, C={at!r}: the error is in {errors[f, j]}")
    low, high = errors.mean(axis=0).T
    if model.proven_ and low[model.Cs_.tolist().index(model.C_)] > high.min() + 1e-12:
        wrong.append(f"winner C={model.C_!r} has an error of {low} or more; another has {high.min()} at most")
    yield Judged("certified_cv", wrong)


def _least(case: Case) -> float:
    return float(1.0 / ((case["l2"] + case["l1"]) * len(case.y)))


def _options(case: Case) -> dict[str, Any]:
    return {
        "loss": case["loss"],
        "delta": case["delta"],
        "fit_intercept": case["intercept"] != "none",
        "intercept": "penalised" if case["intercept"] == "penalised" else "free",
        "intercept_scaling": case["intercept_scale"],
        "random_state": 0,
    }
