"""Proof files: exact claims made of problems, models and dual points, and their text. docs/proof-format.md defines the format.

The checker is `verify`, which imports nothing of this package. Here β is made feasible in exact arithmetic before it is written.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import numpy as np

from dualgap.core import LOSSES, ResidualLoss, is_sparse, write_atomically
from dualgap.problem import Problem
from dualgap.proof import verify

__all__ = [
    "BinaryPart",
    "JointPart",
    "ProofError",
    "ProofText",
    "Table",
    "TargetPart",
    "canonical_text",
    "exact_values",
    "make_proof",
]

ROUNDING = 1e-9  # an exact gap that exceeds the certificate's by more than this share of P is no rounding
SAME = 1e-6  # an objective that differs by more than this share is another
CANDIDATES = 100  # rows whose exact cost is compared when one has to balance Σ cβy
SHRINKINGS = 60  # how often β is shrunk, each time twice as much, until |u| ≤ l1 holds exactly


class ProofError(ValueError):
    """A proof that cannot be written; the message says why and what would be right."""


# ----------------------------------------------------------------------------------------------------------------- the data


@dataclass(frozen=True)
class Table:
    """Training data of a proof: the matrix, the code 0, 1, … of each row's class, and the labels in the order of the codes.

    Of a regression there are no labels, and `codes` has the targets, an array of shape (n, targets).
    """

    X: Any
    codes: np.ndarray
    classes: Sequence[Any]


def canonical_text(table: Table) -> bytes:
    """Return the canonical text of data: the same for dense and sparse, float32 and float64 storage of the same numbers."""
    if is_sparse(table.X):
        matrix = table.X.tocsr(copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        columns, values = matrix.indices, matrix.data
        starts = matrix.indptr.tolist()
    else:
        array = np.asarray(table.X)
        rows, columns = np.nonzero(array)
        values = array[rows, columns]
        starts = np.searchsorted(rows, np.arange(array.shape[0] + 1)).tolist()
    words = [f" {j}:{x}" for j, x in zip(columns.tolist(), literals(values), strict=True)]
    entries = ["".join(words[start:end]) for start, end in pairwise(starts)]
    codes = table.codes.tolist() if len(table.classes) else [",".join(literals(row)) for row in table.codes]
    return verify.canonical(table.X.shape[1], len(table.classes), list(zip(codes, entries, strict=True)))


def literals(values: Any) -> list[str]:
    """Return the literal of each number of an array of floats."""
    values = np.asarray(values, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ProofError("a proof holds finite numbers only")
    mantissas, exponents = np.frexp(values)
    whole = (mantissas * 2.0**53).astype(np.int64)
    even = np.frexp((whole & -whole).astype(np.float64))[1] - 1
    odd, powers = whole >> np.maximum(even, 0), exponents - 53 + even
    return [f"{m:x}p{e}" if m else "0" for m, e in zip(odd.tolist(), powers.tolist(), strict=True)]


# --------------------------------------------------------------------------------------------------------------- the claims


@dataclass(frozen=True)
class BinaryPart:
    """A problem of two sides with its model, its dual point and the gap that is claimed.

    gap : None claims the exact gap, rounded up
    objective : what P(w, b) is known to be; another value in exact arithmetic means other data, and is an error
    positive, negative : codes of the classes on the two sides; None for all other classes. `problem` has the rows of these classes.
    """

    problem: Problem
    coef: np.ndarray
    intercept: float
    dual: np.ndarray
    gap: float | None
    positive: int = 1
    negative: int | None = 0
    title: str = ""
    objective: float | None = None

    def claim(self, data: verify.Data) -> verify.Claim:
        """Return the exact claim, with β made feasible."""
        claim = _frame(self.problem, self.gap)
        claim.loss, claim.delta = _loss(self.problem)
        claim.positive, claim.negative = self.positive, self.negative
        return _with_pair(claim, self, data)


@dataclass(frozen=True)
class TargetPart:
    """A problem of regression with its model, its dual point and the gap that is claimed; fields as of `BinaryPart`.

    target : which of the targets of the table
    """

    problem: Problem
    coef: np.ndarray
    intercept: float
    dual: np.ndarray
    gap: float | None
    target: int = 0
    title: str = ""
    objective: float | None = None

    def claim(self, data: verify.Data) -> verify.Claim:
        """Return the exact claim, with β made feasible."""
        claim, loss = _frame(self.problem, self.gap), self.problem.loss
        if type(loss) is not ResidualLoss:
            raise ProofError(f"a proof cannot be written for the loss object {type(loss).__name__}: a checker knows ResidualLoss")
        claim.loss, claim.target = "residual", self.target
        claim.epsilon, claim.delta = Fraction(float(loss.epsilon)), Fraction(float(loss.delta))
        low, high = (Fraction(float(slope)) if math.isfinite(slope) else None for slope in (loss.low, loss.high))
        claim.slopes = (low, high)
        return _with_pair(claim, self, data)


def _with_pair(claim: verify.Claim, part: BinaryPart | TargetPart, data: verify.Data) -> verify.Claim:
    """Return the claim with the model and the dual point of a part, made feasible."""
    problem = part.problem
    claim.title = part.title or claim.loss
    claim.kernel, claim.parameters = _kernel(problem)
    claim.coef, claim.bias = [exact(part.coef)], [Fraction(float(part.intercept))]
    beta = np.clip(part.dual, problem.loss.lower_bound(), problem.loss.upper_bound())
    if problem.intercept == "free":
        claim.balance, beta = _balance(claim, problem, beta, data)
    if problem.l2 == 0.0:
        beta = _within_l1(claim, problem, beta, data)
    claim.beta = [exact(beta)]
    return claim


@dataclass(frozen=True)
class JointPart:
    """A problem over all classes. `problem` has rows, weights, l2 and intercept; coef has a row, dual (p) a column for each class.

    `loss` is its name in LinearSVC's multi_class; a proof can be written for "crammer_singer".
    """

    problem: Problem
    codes: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    dual: np.ndarray
    gap: float | None
    title: str = ""
    objective: float | None = None
    loss: str = "crammer_singer"

    def claim(self, data: verify.Data) -> verify.Claim:
        """Return the exact claim, with p made feasible."""
        if self.loss != "crammer_singer":
            raise ProofError(
                f"a proof cannot be written for multi_class={self.loss!r}: a checker knows the losses of two classes and "
                "crammer_singer; multi_class='ovr' with the same loss has a proof for each class"
            )
        claim = _frame(self.problem, self.gap)
        claim.title, claim.loss = self.title or "crammer_singer", "crammer_singer"
        claim.coef, claim.bias = [exact(w) for w in self.coef], [Fraction(float(b)) for b in self.intercept]
        p = np.clip(self.dual, 0.0, 1.0)
        p[np.arange(len(self.codes)), self.codes] = 0.0
        _within_simplex(p)
        for balance in _stars(self.problem, self.codes, p) if self.problem.intercept == "free" else [None]:
            claim.balance, claim.beta = balance, [exact(column) for column in p.T]
            try:
                verify.class_flow(claim, data)
                return claim
            except verify.Refused:
                continue
        claim.balance, claim.beta = None, [{} for _ in self.coef]  # p = the row's own class: D = 0
        return claim


def exact(vector: np.ndarray) -> dict[int, Fraction]:
    """Return the entries of a vector that are not zero, as fractions."""
    return {int(i): Fraction(float(vector[i])) for i in np.flatnonzero(vector)}


def _frame(problem: Problem, gap: float | None) -> verify.Claim:
    """Return a claim with what every problem has."""
    if problem.streaming or problem.X is None:
        raise ProofError("a proof needs the rows in memory; this problem reads them from a store or from workers")
    gap = 0.0 if gap is None else gap
    if not math.isfinite(gap):
        raise ProofError(f"the certificate's gap is {gap}: there is nothing to prove; train longer, or scale the features")
    claim = verify.Claim(Fraction(gap), verify.Runs(map(Fraction, problem.c.tolist())), [], [])
    claim.l2, claim.l1 = Fraction(problem.l2), Fraction(problem.l1)
    if problem.bounds is not None:
        claim.low, claim.high = (
            verify.Runs(Fraction(x) if math.isfinite(x) else None for x in end.tolist()) for end in problem.bounds
        )
    claim.intercept = problem.intercept
    if problem.intercept == "penalised":
        claim.scale = Fraction(problem.intercept_scale)
    return claim


def _loss(problem: Problem) -> tuple[str, Fraction]:
    name = next((name for name, cls in LOSSES.items() if type(problem.loss) is cls), None)
    if name is None:
        raise ProofError(
            f"a proof cannot be written for the loss object {type(problem.loss).__name__}: a checker knows {', '.join(LOSSES)}"
        )
    return name, Fraction(problem.loss.delta) if name == "smooth_hinge" else verify.ZERO


def _kernel(problem: Problem) -> tuple[str, tuple[Fraction, ...]]:
    kernel = problem.kernel
    if kernel is None:
        return "none", ()
    if kernel.function is not None or kernel.name not in verify.KERNELS:
        raise ProofError(
            f"a proof cannot be written for kernel {kernel.name!r}: a checker knows linear, poly, rbf and precomputed. "
            "Give the kernel matrix of a function as X with kernel='precomputed'"
        )
    if kernel.name == "poly":
        if not kernel.semidefinite:
            raise ProofError(
                f"kernel 'poly' with coef0={kernel.coef0:g} is not positive semidefinite by its formula; use coef0 ≥ 0"
            )
        return "poly", tuple(Fraction(float(x)) for x in (kernel.gamma, kernel.coef0, kernel.degree))
    return kernel.name, (Fraction(float(kernel.gamma)),) if kernel.name == "rbf" else ()


# ------------------------------------------------------------------------------------------------------- feasible, exactly


def _balance(claim: verify.Claim, problem: Problem, beta: np.ndarray, data: verify.Data) -> tuple[list[int] | None, np.ndarray]:
    """Return the row whose β makes Σ cβy zero at the least cost to D, and β; all of β is 0 where no row can."""
    entries, signs, c = exact(beta), problem.y.astype(int).tolist(), claim.c
    v = {i: c[i] * value * signs[i] for i, value in entries.items()}
    rest = verify.total(v.values())
    if rest == 0:
        return None, beta
    low, high = verify.box(claim)
    costs: dict[int, Fraction] = {}
    chosen, _ = verify.sides(claim, data)
    t = verify.targets(claim, data, chosen)
    u = verify.combination(data, chosen, v) if problem.kernel is None else ({}, 1)
    for row in np.argsort(_balance_cost(problem, beta, float(rest)), kind="stable").tolist():
        if c[row] == 0:
            continue
        before = entries.get(row, verify.ZERO)
        after = before - signs[row] * rest / c[row]
        if (low is None or after >= low) and (high is None or after <= high):
            if problem.kernel is not None:
                return [row], beta
            conjugate = _conjugate_rise(claim, data, chosen[row], u, rest)
            gained = verify.psi(claim, after) - verify.psi(claim, before) + (after - before) * signs[row] * t[row]
            costs[row] = conjugate - c[row] * gained
            if len(costs) == CANDIDATES:
                break
    if not costs:
        return None, np.zeros_like(beta)
    return [min(costs, key=lambda row: costs[row])], beta


def _conjugate_rise(claim: verify.Claim, data: verify.Data, row: int, u: tuple[dict[int, int], int], rest: Fraction) -> Fraction:
    """Return R*(u − rest·x) − R*(u) of a row x of the data, exactly; for l1 alone by how much |u| exceeds l1, as a share of l1."""
    rise = verify.ZERO
    for j, x in zip(*data.rows[row], strict=True):
        before = Fraction(u[0][j], u[1])
        after = before - rest * x
        if claim.l2:
            rise += verify.conjugate(claim, j, after) - verify.conjugate(claim, j, before)
        else:
            rise = max(rise, abs(after) / claim.l1 - 1)
    return rise


def _balance_cost(problem: Problem, beta: np.ndarray, rest: float) -> np.ndarray:
    """Return about what D loses if a row's v = cβy falls by `rest`: the gradient of D, and the curvature of R*."""
    slopes = np.array([problem.loss.gradient(b, 0.0) for b in beta.tolist()])  # ψ'
    lengths = np.sqrt(problem.sqnorms)
    with np.errstate(invalid="ignore"):  # ψ' of the logistic loss is infinite at the bounds
        if problem.l2 == 0.0:
            cost = rest * problem.y * slopes + abs(rest) * lengths / problem.l1  # β has to shrink by this share at most
        else:
            v = problem.combine(problem.c * problem.y * beta / problem.l2)
            scores = problem.scores(v if problem.kernel is not None else problem.penalty.primal(v))
            cost = rest * (problem.y * slopes - scores) + (rest * lengths) ** 2 / (2.0 * problem.l2)
    return np.where(np.isfinite(cost), cost, np.inf)


def _within_l1(claim: verify.Claim, problem: Problem, beta: np.ndarray, data: verify.Data) -> np.ndarray:
    """Return β shrunk until |u| ≤ l1 holds exactly, in balance where it has to be."""
    share, less = 1.0, 2.0**-53
    for _ in range(SHRINKINGS):
        claim.beta = [exact(beta * share)]
        try:
            chosen, y = verify.sides(claim, data)
            u, common = verify.combination(data, chosen, verify.dual_variables(claim, y)[0])
            longest = Fraction(max(map(abs, u.values()), default=0), common)
            if longest <= claim.l1:
                return beta * share
            share *= float(claim.l1 / longest) * (1.0 - less)
            less *= 2.0
        except verify.Refused:
            break
        if problem.intercept == "free":
            claim.balance, shrunk = _balance(claim, problem, beta * share, data)
            if not shrunk.any():
                break
    claim.balance = None
    return np.zeros_like(beta)


def _within_simplex(p: np.ndarray) -> None:
    """Lower p, in place, where the entries of a row add up to more than 1."""
    for i in np.flatnonzero(p.sum(axis=1) > 1.0 - 1e-9):
        while (over := sum(map(Fraction, p[i].tolist())) - 1) > 0:
            k = int(np.argmax(p[i]))
            p[i, k] = np.nextafter(max(p[i, k] - float(over), 0.0), 0.0)


def _stars(problem: Problem, codes: np.ndarray, p: np.ndarray) -> Iterable[list[int] | None]:
    """Yield ways to balance the classes: a hub, and for each other class the row whose entry between it and the hub has most room."""
    flow = problem.c[:, None] * p
    own = problem.c - flow.sum(axis=1)
    K = p.shape[1]
    yield None
    for either_way in (True, False):
        for hub in np.argsort(-np.bincount(codes, weights=problem.c, minlength=K)):
            rows = np.full(K, 0)
            for k in range(K):
                # An entry of a row of class k towards the hub, or of a row of the hub towards k.
                entry = np.where(codes == k, flow[:, hub], np.where(codes == hub, flow[:, k], -1.0))
                room = np.minimum(entry, own) if either_way else np.where(entry >= 0.0, own, -1.0)
                rows[k] = int(np.argmax(room)) if k != hub else 0
            yield [int(hub), *rows.tolist()]


# ------------------------------------------------------------------------------------------------------------------ the file


@dataclass(frozen=True)
class ProofText:
    """A proof file and the canonical text of its data; `save` writes them."""

    proof: bytes
    data: bytes

    def save(self, path: str | os.PathLike[str], data: str | os.PathLike[str] | None = None) -> None:
        """Write the proof and, where a path is given, the data. A reader sees a whole file or none."""
        for target, content in ((path, self.proof), (data, self.data)):
            if target is not None:
                write_atomically(target, content)


def make_proof(
    table: Table, parts: Sequence[BinaryPart | JointPart | TargetPart], preparation: Sequence[str] = (), check: bool = True
) -> ProofText:
    """Return the proof of some problems over the same data.

    With `check`, every claim is evaluated in exact arithmetic first. Where rounding has made a certificate's gap smaller than the exact
    one, the exact one, rounded up, is claimed.
    """
    text = canonical_text(table)
    data, _ = verify.parse_data(text)
    claims = [part.claim(data) for part in parts]
    claims = [
        _checked(claim, part, data) if check or part.gap is None else claim for claim, part in zip(claims, parts, strict=True)
    ]
    return ProofText(proof_text(table, sha256(text).hexdigest(), claims, preparation), text)


def _checked(claim: verify.Claim, part: BinaryPart | JointPart | TargetPart, data: verify.Data) -> verify.Claim:
    """Return the claim with a true gap. Refuse another problem, another model, or a gap that is far from the certificate's."""
    try:
        primal, dual = verify.evaluate(claim, data)
    except verify.Refused as error:
        raise ProofError(f"{claim.title}: this cannot be proven: {error}") from None
    if part.objective is not None and abs(primal - Fraction(part.objective)) > SAME * abs(part.objective):
        raise ProofError(
            f"{claim.title}: the model's objective is {verify.shown(primal)} on these data with these parameters, but it was "
            f"{part.objective:.10g} in training: the data, the weights or the parameters are others now"
        )
    gap = primal - dual
    if part.gap is not None and gap <= claim.gap:
        return claim
    if part.gap is not None and gap - claim.gap > Fraction(ROUNDING) * primal:
        raise ProofError(
            f"{claim.title}: the gap is {verify.shown(gap)} in exact arithmetic, the certificate says {verify.shown(claim.gap)}; "
            "scale the features, or raise l2"
        )
    return replace(claim, gap=Fraction(rounded_up(gap)))


def rounded_up(value: Fraction) -> float:
    """Return the least float64 that is not below a fraction."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def exact_values(part: BinaryPart | JointPart | TargetPart, table: Table) -> tuple[Fraction, Fraction]:
    """Return (P, D) of a part in exact arithmetic, with β made feasible as a proof file has it."""
    data, _ = verify.parse_data(canonical_text(table))
    return verify.evaluate(part.claim(data), data)


def proof_text(table: Table, digest: str, claims: Sequence[verify.Claim], preparation: Sequence[str]) -> bytes:
    """Return the bytes of a proof file."""
    lines = [f"data {digest}", f"rows {table.X.shape[0]}", f"columns {table.X.shape[1]}", f"classes {len(table.classes)}"]
    lines += [f"class {_label(label)}" for label in table.classes]
    maker = json.dumps(f"dualgap {version('dualgap')}")
    lines += [f"maker {maker}", f"preparation {len(preparation)}"]
    lines += [f"step {json.dumps(step)}" for step in preparation]
    lines.append(f"problems {len(claims)}")
    for claim in claims:
        lines += _claim_lines(claim)
    body = "\n".join([*lines, "end", ""]).encode("ascii")
    return b"dualgap-proof 1\nsha256 " + sha256(body).hexdigest().encode() + b"\n" + body


def _label(label: Any) -> str:
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, bool | int | float):
        if float(value) != value:
            raise ProofError(f"the label {value!r} is not a float64 number; use smaller numbers or strings as labels")
        return _written(Fraction(float(value)))
    return json.dumps(str(value))


def _claim_lines(claim: verify.Claim) -> list[str]:
    joint = claim.loss == "crammer_singer"
    sides = "all" if joint else f"{claim.positive} {'rest' if claim.negative is None else claim.negative}"
    if claim.target is not None:
        sides = f"target {claim.target}"
    scale = [claim.scale] if claim.intercept == "penalised" else []
    return [
        f"problem {json.dumps(claim.title)}",
        f"sides {sides}",
        " ".join(["loss", claim.loss, *_loss_numbers(claim)]),
        f"l2 {_written(claim.l2)}",
        f"l1 {_written(claim.l1)}",
        *(" ".join([name, *_runs(ends)]) for name, ends in (("low", claim.low), ("high", claim.high)) if ends is not None),
        " ".join(["intercept", claim.intercept, *map(_written, scale)]),
        " ".join(["kernel", claim.kernel, *map(_written, claim.parameters)]),
        f"gap {_written(claim.gap)}",
        " ".join(["weights", *_runs(claim.c)]),
        *(" ".join(["coef", *_entries(w)]) for w in claim.coef),
        " ".join(["bias", *map(_written, claim.bias)]),
        "balance none" if claim.balance is None else " ".join(["balance", *map(str, claim.balance)]),
        *(" ".join(["beta", *_entries(column)]) for column in claim.beta),
    ]


def _loss_numbers(claim: verify.Claim) -> list[str]:
    if claim.loss == "residual":
        slopes = ["none" if slope is None else _written(slope) for slope in claim.slopes]
        return [_written(claim.epsilon), _written(claim.delta), *slopes]
    return [_written(claim.delta)] if claim.loss == "smooth_hinge" else []


def _written(value: Fraction) -> str:
    return verify.literal(value.numerator, value.denominator)


def _entries(vector: dict[int, Fraction]) -> list[str]:
    return [f"{i}:{_written(value)}" for i, value in sorted(vector.items())]


def _runs(values: verify.Runs[Any]) -> list[str]:
    """Return numbers as words, None as "none"; a run of equal ones is "times*number"."""
    words = (("none" if value is None else _written(value), times) for value, times in values.runs())
    return [word if times == 1 else f"{times}*{word}" for word, times in words]
