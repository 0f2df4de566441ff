"""Fits of LinearSVC that train all classes jointly: which problems there are, and the fitted attributes from a run on one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dualgap.core import is_sparse
from dualgap.estimators.crammer_singer import CrammerSinger, CrammerSingerRun
from dualgap.estimators.fitted import Fit, fit_of, keep
from dualgap.estimators.fitting import Budget, Solve, Task
from dualgap.estimators.joint import JointProblem, JointStepper, joint_dual
from dualgap.estimators.multinomial import Multinomial, MultinomialRun
from dualgap.estimators.targets import Labelled, as_csr, support
from dualgap.problem import Problem
from dualgap.proof import JointPart, ProofError
from dualgap.run import Deciding, Trained, drive

__all__ = ["JOINT", "is_joint", "joint_fit", "joint_part", "joint_problem"]

JOINT: dict[str, tuple[type[JointProblem], type[JointStepper]]] = {
    "crammer_singer": (CrammerSinger, CrammerSingerRun),
    "multinomial": (Multinomial, MultinomialRun),
}


def is_joint(model: Any, classes: int) -> bool:
    """Return whether a LinearSVC trains that many classes jointly. With two, the multinomial problem is the logistic one."""
    return getattr(model, "multi_class", "ovr") in JOINT and not (model.multi_class == "multinomial" and classes == 2)


def joint_problem(name: str, base: Problem, codes: np.ndarray, K: int) -> JointProblem:
    """Return the joint problem of that name over the rows of `base`."""
    return JOINT[name][0](base, codes, K)


def joint_fit(
    model: Any, data: Labelled, base: Problem, budget: Budget, deciding: Callable[[JointProblem], Deciding] | None
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


def joint_part(model: Any, data: Labelled, base: Problem, duals: Sequence[Any] | None) -> JointPart:
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
