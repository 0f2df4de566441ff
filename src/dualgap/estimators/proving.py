"""save_proof of the estimators: the problems of a fit, made again from the data, with the models and dual variables as parts of a proof."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualgap.estimators.fitted import linear_dual, refuse_uncertified
from dualgap.estimators.joint import joint_dual
from dualgap.estimators.joint_fit import is_joint, joint_problem
from dualgap.estimators.labelled import Labelled
from dualgap.estimators.on_store import is_store
from dualgap.estimators.parameters import checked
from dualgap.problem import Problem
from dualgap.proof import BinaryPart, JointPart, ProofError, Table, make_proof

__all__ = ["Kept", "ProvableMixin", "kernel_parts", "linear_parts", "refuse_function", "table_of"]


@dataclass(frozen=True)
class Kept:
    """What `fit` was given, by reference, and the dual variables of its problems. It is not pickled with the model."""

    X: Any
    y: Any
    sample_weight: Any
    duals: Sequence[Any]
    treated: Any = None  # of an indefinite kernel: the matrix trained on, see `indefinite`


class ProvableMixin:
    """`save_proof`, and what it needs. `fit` sets `_kept`; `_proof_parts` makes the parts of the proof."""

    def save_proof(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        *,
        data: str | os.PathLike[str] | None = None,
        preparation: Sequence[str] = (),
        check: bool = True,
    ) -> None:
        """Write a proof of the certified gaps that anybody can check without dualgap.

        `dualgap verify PROOF DATA` checks it, and so does dualgap/proof/verify.py, a single file for plain Python. The proof is about the
        data that this estimator was fitted on: after the preparation, in a pipeline. With several classes the file has a proof for each
        problem.

        Parameters
        ----------
        path : path
            The file to write; docs/proof-format.md describes it.
        X, y, sample_weight : the training data, optional
            What `fit` was given, unless told. They must be given for a model that was loaded from a file.
        data : path, optional
            Write the data there too, in the format's own canonical text.
        preparation : sequence of str
            How the training data were made from what others have, a step each, in words.
        check : bool
            Whether to evaluate the claims in exact arithmetic first, which takes some seconds for each million non-zeros.
        """
        check_is_fitted(self)
        refuse_uncertified(self, "a proof")
        duals = None
        if X is None:
            kept = vars(self).get("_kept")
            if kept is None:
                raise ProofError("this model has not its training data any more: give X, y and sample_weight as in fit")
            X, y, sample_weight, duals = kept.X, kept.y, kept.sample_weight, kept.duals
        if is_store(X):
            raise ProofError("a proof needs the rows in memory; these are in a store")
        if not hasattr(self, "certificate_") and not hasattr(self, "certificates_"):
            raise ProofError("this model has no certificate for all of its data: it was trained by partial_fit or on a cluster")
        table, parts = self._proof_parts(X, y, sample_weight, duals)
        make_proof(table, parts, preparation, check).save(path, data)

    def _proof_parts(self, X: Any, y: Any, sample_weight: Any, duals: Sequence[Any] | None) -> tuple[Table, list[Any]]:
        """Return the data as a proof describes them, and a part for each problem."""
        return self._parts(X, y, sample_weight, duals)  # type: ignore[attr-defined, no-any-return]


def linear_parts(model: Any, data: Labelled, duals: Sequence[Any] | None) -> tuple[Table, list[Any]]:
    """Return the parts of a LinearSVC."""
    table, parameters = table_of(model, data), checked(model)
    if is_joint(model, len(data.classes)):
        return table, [_joint_part(model, data, model._joint_base(data, parameters), duals)]
    make, K = model._maker(data, parameters), len(data.classes)
    parts = []
    for j, k in enumerate([1] if K == 2 else range(K)):
        problem = make(k)
        dual = duals[j] if duals is not None else linear_dual(model, data, j, k, parameters.C)
        coef, b = _dense(model.coef_)[j], float(model.intercept_[j])
        sides, title = ((1, 0), "") if K == 2 else ((k, None), f"class {data.classes[k]} against the rest")
        parts.append(_part(model, j, problem, (coef, b, dual), duals is not None, sides, title))
    return table, parts


def _joint_part(model: Any, data: Labelled, base: Problem, duals: Sequence[Any] | None) -> JointPart:
    joint = joint_problem(model.multi_class, base, data.codes, len(data.classes))
    coef, b = _dense(model.coef_), np.asarray(model.intercept_, dtype=float)
    if joint.K == 2:  # the model is the difference of two that add up to zero
        coef, b = np.concatenate([-coef, coef]) / 2, np.concatenate([-b, b]) / 2
    p = duals[0] if duals is not None else joint_dual(model, joint, model.C * data.own_weights())
    if p is None:
        raise ProofError(f"the model was trained on {model._n_rows} rows; X has {data.n}")
    gap = model.certificate_.gap if duals is not None else None
    return JointPart(base, data.codes, coef, b, p, gap, f"{joint.K} classes jointly", model.objective_, joint.name)


def refuse_function(model: Any) -> None:
    """Raise ProofError where the kernel is a function, which a checker does not have."""
    if callable(getattr(model, "kernel", None)):
        raise ProofError(
            "a proof cannot be written for a function as kernel, which a checker does not have; give the kernel matrix as X with "
            "kernel='precomputed'"
        )


def kernel_parts(model: Any, data: Labelled, duals: Sequence[Any] | None) -> tuple[Table, list[BinaryPart]]:
    """Return the parts of an SVC, one for each pair of classes."""
    refuse_function(model)
    table, K = table_of(model, data), len(data.classes)
    if getattr(model, "_n_rows", None) != data.n:
        raise ProofError(f"the model was trained on {model._n_rows} rows; X has {data.n}")
    coefficients = model._coefficients()
    parts = []
    for k, (i, j) in enumerate([(1, 0)] if K == 2 else combinations(range(K), 2)):
        problem = model._problem(data, (i, j), float(model.C))
        rows = np.flatnonzero((data.codes == i) | (data.codes == j))
        signed = np.zeros(data.n)
        signed[model.support_] = coefficients[:, k]
        coef = signed[rows]
        if duals is not None:
            dual = duals[k]
        else:
            dual = np.divide(np.abs(coef) * problem.l2, problem.c, out=np.zeros(len(rows)), where=problem.c > 0)
        title = "" if K == 2 else f"class {data.classes[i]} against class {data.classes[j]}"
        parts.append(_part(model, k, problem, (coef, float(model.intercept_[k]), dual), duals is not None, (i, j), title))
    return table, parts


def _part(model: Any, j: int, problem: Problem, found: tuple[Any, float, Any], kept: bool, sides: Any, title: str) -> BinaryPart:
    """Return one part: the gap is that of the fit if its dual variables were kept, else the exact one of those at hand."""
    coef, b, dual = found
    if dual is None:
        raise ProofError(f"the model was trained on {model._n_rows} rows; X has {problem.n}")
    certificates = model.certificate_ if isinstance(model.certificate_, list) else [model.certificate_]
    gap = certificates[j].gap if kept else None
    return BinaryPart(problem, coef, b, dual, gap, sides[0], sides[1], title, float(np.atleast_1d(model.objective_)[j]))


def table_of(model: Any, data: Labelled) -> Table:
    """Return the data as a proof describes them; refuse other classes than the model's."""
    if not np.array_equal(model.classes_, data.classes):
        raise ProofError(f"y has the classes {data.classes.tolist()}, the model was trained on {model.classes_.tolist()}")
    return Table(data.X, data.codes, data.classes.tolist())


def _dense(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)
