"""Many small kernel machines over one kernel matrix, solved and certified in one compiled call: the pairs of classes of a classifier.

A problem is one that `minimise` would give to WorkingSet: the hinge, weights above 0, a free intercept. Each has a certificate and a trace.
One whose certificate is not within the tolerance is left to `minimise`.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dualgap.core import Hinge
from dualgap.core import kernel as compiled
from dualgap.kernels import Kernel, KernelBlocks, distances_of, exact_in_float32
from dualgap.problem import Samples
from dualgap.proof import SUMS, Certificate, Expansion, certificates_of, enclose_expansion, value_errors
from dualgap.run.trace import Trace
from dualgap.run.trained import Trained
from dualgap.solvers import Box, WorkingSet, minimise_whole

__all__ = ["Pairs", "minimise_pairs", "pairs_of"]

EPOCHS = 20  # of a problem, at most: it needs two or three, or is left to `minimise`


class Pairs(NamedTuple):
    """The problems of all pairs of classes, one after the other: their rows, ascending, and signs, +1 for the first class of a pair.

    `lines` has the line of dual_coef_ in which the coefficient of a row stands. Problem k has the entries starts[k]:starts[k + 1].
    """

    rows: np.ndarray
    signs: np.ndarray
    lines: np.ndarray
    starts: np.ndarray


def pairs_of(codes: np.ndarray, classes: int) -> Pairs:
    """Return the problems of all pairs of `classes` classes, (0, 1), (0, 2), …, from the class of each row."""
    n, order, counts = len(codes), np.argsort(codes, kind="stable"), np.bincount(codes, minlength=classes)
    first, second = np.triu_indices(classes, 1)
    begin = np.cumsum(counts) - counts
    sizes = counts[first] + counts[second]
    keys, lines = [], []
    for own, other_line in ((first, second - 1), (second, first)):
        pair = np.repeat(np.arange(len(first)), counts[own])
        within = np.arange(len(pair)) - np.repeat(np.cumsum(counts[own]) - counts[own], counts[own])
        keys.append(pair * n + order[np.repeat(begin[own], counts[own]) + within])
        lines.append(np.repeat(other_line, counts[own]))
    key = np.concatenate(keys)
    sorting = np.argsort(key, kind="stable")
    signs = np.repeat([1.0, -1.0], [len(keys[0]), len(keys[1])])
    return Pairs(key[sorting] % n, signs[sorting], np.concatenate(lines)[sorting], np.concatenate([[0], np.cumsum(sizes)]))


def minimise_pairs(
    kernel: Kernel, X: Any, codes: np.ndarray, pairs: Pairs, c: np.ndarray, l2: np.ndarray, tol: float, most: int
) -> list[Trained | None]:
    """Minimise the problems of all pairs; return a Trained for each, None for one whose certified gap is above `tol`.

    `c` has the weights of the entries, `l2` the penalty of each problem; `most` is the number of epochs. A pair has at most MOST_ROWS rows.
    """
    began = time.process_time(), time.perf_counter()
    order = np.argsort(codes, kind="stable")  # rows of a class together, so that fewer bytes are read
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    ordered = X[order]
    K = KernelBlocks(kernel, ordered, np.float64, np.float32 if exact_in_float32(ordered) else None).matrix()
    errors = value_errors(kernel, distances_of(kernel, ordered), X.shape[1])
    norms = np.sqrt(np.maximum(K.diagonal(), 0.0) + errors) * (1.0 + 1e-15) + 1e-150
    dual, coef, sums, found = (
        np.empty(len(pairs.rows)),
        np.empty(len(pairs.rows)),
        np.empty((len(l2), SUMS)),
        np.zeros((len(l2), 2)),
    )
    size = int(np.diff(pairs.starts).max())
    memory = (
        np.empty(size * size),
        np.empty((13, size)),
        np.zeros(size, dtype=np.int8),
        np.empty((4, 1)),
    )
    rows = place[pairs.rows]
    shared = K, errors, norms, Samples(norms, norms).offset
    problems = rows, pairs.signs, c, pairs.starts, l2
    _minimise_each(Hinge(), shared, problems, tol, min(most, EPOCHS), memory, (dual, coef, sums, found))
    certificates = certificates_of(sums, tol, "solver")
    seconds = (time.process_time() - began[0]) / len(l2), (time.perf_counter() - began[1]) / len(l2)
    supports = np.add.reduceat(dual != 0.0, pairs.starts[:-1]).tolist()
    solver, starts = WorkingSet(), pairs.starts.tolist()
    results: list[Trained | None] = []
    for k, (certificate, (epochs, intercept)) in enumerate(zip(certificates, found.tolist(), strict=True)):
        if certificate is None or epochs == 0.0:
            results.append(None)
            continue
        own = slice(starts[k], starts[k + 1])
        result = Trained(
            solver=solver,
            coef=coef[own],
            intercept=intercept,
            dual=dual[own],
            certificate=certificate,
            status="converged",
            trace=OneRow(certificate, epochs, seconds, supports[k]),
            epochs=int(epochs),
            cpu_seconds=seconds[0],
            wall_seconds=seconds[1],
        )
        results.append(result)
    return results


class OneRow(Trace):
    """The trace of a problem that was evaluated once. Its row is made when it is first asked for."""

    def __init__(self, certificate: Certificate, epochs: float, seconds: tuple[float, float], supports: int) -> None:
        self.handovers = []
        self._seen = certificate, epochs, seconds, supports

    @cached_property
    def _columns(self) -> dict[str, list[float]]:  # type: ignore[override]
        certificate, epochs, (cpu, wall), supports = self._seen
        values = {"epoch": epochs, "passes": epochs, "cpu_seconds": cpu, "wall_seconds": wall}
        values |= {name: getattr(certificate, name) for name in ("primal", "dual", "gap", "relative_gap")}
        return {name: [value] for name, value in (values | {"support_vectors": float(supports)}).items()}


@compiled
def _minimise_each(loss, shared, problems, tol, most, memory, out):
    """Minimise and enclose the problems one after the other; write β, a = cβy/l2, the sums of `enclose_expansion`, epochs and intercept."""
    (K, errors, norms, offset), (rows, signs, shares, starts, l2) = shared, problems
    square, vectors, group, partial = memory
    dual, coef, sums, found = out
    for k in range(l2.shape[0]):
        first, last = starts[k], starts[k + 1]
        n = last - first
        part = rows[first:last]
        values = square[: n * n].reshape((n, n))
        a, low, high, g, r = vectors[0, :n], vectors[1, :n], vectors[2, :n], vectors[3, :n], vectors[4, :n]
        p, weight, diagonal, beta = vectors[5, :n], vectors[6, :n], vectors[7, :n], vectors[8, :n]
        own_errors, own_norms, scores, radius = vectors[9, :n], vectors[10, :n], vectors[11, :n], vectors[12, :n]
        c = shares[first:last]
        for i in range(n):
            row, y = K[part[i]], signs[first + i]
            for j in range(n):
                values[i, j] = row[part[j]]
            a[i], r[i], weight[i] = 0.0, 0.0, c[i] / l2[k]
            g[i] = p[i] = y
            low[i], high[i] = min(y, 0.0) * weight[i], max(y, 0.0) * weight[i]
            diagonal[i], own_errors[i], own_norms[i] = values[i, i], errors[part[i]], norms[part[i]]
        box = Box(a, low, high, g, r, p, weight, group[:n])
        samples = Samples(signs[first:last], c, offset)
        ends = starts[k : k + 1] * 0 + n
        epochs, b = minimise_whole(loss, samples, values, diagonal, box, ends, tol, most)
        for i in range(n):
            beta[i] = a[i] * signs[first + i] / weight[i]
        written = Expansion(dual[first:last], coef[first:last], scores, radius, partial)
        enclose_expansion(loss, samples, values, own_errors, own_norms, beta, b, l2[k], written, sums[k])
        found[k, 0], found[k, 1] = epochs, b
