"""Kinds of cases: what is run on a problem, and the claims that come of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dualgap
from campaign.cases import Case
from campaign.following import answers, certified_choice, forgets, guarantee
from campaign.judge import Claimed, Judged, part_of, table_of
from campaign.nu import machine_of
from dualgap.cluster import InProcess, Partition, make_objective, run_rounds
from dualgap.cluster.partition import Others
from dualgap.core import settle
from dualgap.estimators.joint import CrammerSinger, CrammerSingerRun
from dualgap.proof import JointPart, Table, certificate_of_pair, certify_pair, dual_from_margins, dual_point, enclose
from dualgap.run import drive
from dualgap.store import StoreProblem, write_store


def claims(case: Case) -> Iterator[Claimed | Judged]:
    """Run a case and yield what it claims."""
    yield from RUNS[case["kind"]](case)


def _claim(problem: dualgap.Problem, certificate: Any, coef: Any, b: float, beta: np.ndarray, **options: Any) -> Claimed:
    return Claimed(certificate, part_of(problem, coef, b, beta), table_of(problem), **options)


def _of_result(case: Case, result: Any, name: str = "") -> Claimed:
    options = {"status": result.status, "tol": case["tol"], "atol": case["atol"], "name": name or case["solver"]}
    return _claim(result.problem, result.certificate, result.coef, result.intercept, result.dual, **options)


def _solve(case: Case) -> Iterator[Claimed]:
    options = {"tol": case["tol"], "atol": case["atol"], "max_epochs": case["max_epochs"], "seed": case["seed"]}
    yield _of_result(case, dualgap.solve(case.problem(), case["solver"], **options))


def _models(case: Case, problem: dualgap.Problem) -> Iterator[tuple[np.ndarray, float]]:
    """Yield foreign models: of random size, and one that somebody has trained and then rounded to float32."""
    rng = np.random.default_rng([3, case["seed"]])
    length = float(np.sqrt(np.max(problem.sqnorms))) or 1.0
    size = 10.0 ** rng.uniform(-3, 3) / length ** (2 if problem.kernel is not None else 1)
    b = 0.0 if problem.intercept == "none" else float(rng.normal() * 10.0 ** rng.uniform(-3, 3))
    yield problem.penalty.nearest_point(size * rng.normal(size=problem.size)), b
    trained = dualgap.solve(problem, case["solver"], tol=1e-9, max_epochs=case["max_epochs"])
    yield trained.coef, trained.intercept
    with np.errstate(over="ignore"):
        rounded = trained.coef.astype(np.float32).astype(float)
    if np.isfinite(rounded).all():
        yield problem.penalty.nearest_point(rounded), trained.intercept


def _pair(case: Case) -> Iterator[Claimed]:
    """Certify models by dual points from elsewhere: random ones, and those of margins; in float64 and in double-double sums."""
    problem, rng = case.problem(), np.random.default_rng([4, case["seed"]])
    for coef, b in _models(case, problem):
        margins = problem.y * (problem.scores(problem.stored(coef)) + b)
        beta = np.where(rng.random(problem.n) < 0.5, rng.random(problem.n), rng.integers(0, 2, problem.n))
        low = max(problem.loss.lower_bound(), -1e3 * problem.offset.scale) if problem.is_regression else 0.0
        betas = [low + (min(problem.loss.upper_bound(), max(-low, 1.0)) - low) * beta, None]
        for beta in betas:
            point = dual_from_margins(problem, margins) if beta is None else dual_point(problem, beta)
            certificate = certify_pair(problem, coef, b, point, "given").certificate
            yield _claim(problem, certificate, coef, b, point.beta, pair=True, name="certify_pair")
            if problem.kernel is None:
                certificate = certificate_of_pair(enclose(problem, coef, b, point, precise=True), "given")
                yield _claim(problem, certificate, coef, b, point.beta, pair=True, name="precise")


def _certify(case: Case) -> Iterator[Claimed]:
    """`certify` of foreign models. The β of its bound is not returned: the bound is judged by the best model that is known."""
    problem = case.problem()
    result = dualgap.solve(problem, "auto", tol=1e-9, max_epochs=case["max_epochs"])
    zero = np.zeros(problem.n)
    yield _of_result(case.change(tol=1e-9, atol=0.0, solver="auto"), result)
    for coef, b in _models(case, problem):
        for epochs in (0, case["max_epochs"]):
            certificate = dualgap.certify(problem, coef, b, epochs=epochs)
            yield _claim(problem, _upper_half(certificate), coef, b, zero, name=f"certify, {certificate.source}: its primal")
            yield _claim(problem, _lower_half(certificate, result), result.coef, result.intercept, zero, name="certify: its dual")


def _upper_half(certificate: Any) -> Any:
    """Return the certificate with the bound of β = 0."""
    return dualgap.Certificate(certificate.primal, min(certificate.dual, 0.0), certificate.source, certificate.radius)


def _lower_half(certificate: Any, best: Any) -> Any:
    """Return a claim that the judge refuses if a bound is above the objective of the best model, and one that it accepts if not."""
    if certificate.dual > best.certificate.primal:
        return dualgap.Certificate(best.certificate.primal, certificate.dual, certificate.source)
    return dualgap.Certificate(best.certificate.primal, 0.0, certificate.source)


def _joint(case: Case) -> Iterator[Claimed]:
    K = int(case.y.max()) + 1
    options = {"l2": case["l2"], "intercept": case["intercept"], "intercept_scale": case["intercept_scale"]}
    base = dualgap.Problem(case.matrix(), case.y == 0, sample_weight=case.weights, classes=[False, True], **options)
    run = CrammerSingerRun(CrammerSinger(base, case.y, K), np.random.default_rng(case["seed"]))
    ended = drive(run, case["tol"], case["max_epochs"], None, evaluate="geometric")
    best, table = run.best, Table(base.X, case.y, list(range(K)))
    part = JointPart(base, case.y, best.coef, best.intercept, best.beta, None)
    yield Claimed(run.certificate(), part, table, status=ended.status, tol=case["tol"], name="crammer_singer")


class Recorded(Partition):
    """A partition that remembers the β of its proofs, which the coordinator is not told."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.proven: list[np.ndarray] = []

    def prove(self, coef: Any, b: float, positive: float = 1.0, negative: float = 1.0, others: Others | None = None) -> Any:
        self.proven.append(self.beta * np.where(self.signs > 0, positive, negative))
        if others is not None and others.last == self.number:
            settle(self.c, self.signs, self.proven[-1], others.rest.value)
        return super().prove(coef, b, positive, negative, others)


def _cluster(case: Case) -> Iterator[Claimed]:
    """Rounds on a pool of partitions in this process, judged with the β that the partitions had in the best of their proofs."""
    X, count = case.matrix(), 1 + case["seed"] % 3
    pieces = [np.arange(k, len(case.y), count) for k in range(count)]
    X = X.tocsr() if hasattr(X, "tocsr") else np.ascontiguousarray(X)
    weights = np.ones(len(case.y)) if case.weights is None else case.weights
    pool = InProcess([Recorded(X[rows], case.y[rows], weights[rows]) for rows in pieces])
    names = ("loss", "delta", "l2", "l1", "intercept", "intercept_scale")
    objective, classes = make_objective(pool, **{name: case[name] for name in names})
    result = run_rounds(pool, objective, classes, case["tol"], case["max_epochs"], local_epochs=2, seed=case["seed"])
    c, betas = np.empty(len(case.y)), np.zeros((1 + len(pool.partitions[0].proven), len(case.y)))
    for rows, partition in zip(pieces, pool.partitions, strict=True):
        c[rows], betas[1:, rows] = partition.c, partition.proven
    problem = case.change(kernel=None).problem().replace(c=c)
    options = {"status": result.status, "tol": case["tol"], "name": "cluster"}
    model = result.coef, result.intercept
    yield _claim(problem, result.certificate, *model, _likely(problem, model, betas, result.certificate), **options)


def _likely(problem: dualgap.Problem, model: Any, betas: np.ndarray, certificate: dualgap.Certificate) -> np.ndarray:
    """Return the β whose certificate with this model is nearest to the given one: the β that it came from."""
    found = [certify_pair(problem, *model, dual_point(problem, beta), "given").certificate for beta in betas]
    return betas[int(np.argmin([abs(c.gap - certificate.gap) for c in found]))]


def _svc(case: Case) -> Iterator[Claimed]:
    """LinearSVC, by the parts of its own proof."""
    names = {"none": False}
    C = 1.0 / ((case["l2"] + case["l1"]) * len(case.y))
    model = dualgap.LinearSVC(
        C=C,
        loss=case["loss"],
        delta=case["delta"],
        fit_intercept=names.get(case["intercept"], True),
        intercept="free" if case["intercept"] == "free" else "penalised",
        intercept_scaling=case["intercept_scale"],
        tol=case["tol"],
        max_iter=case["max_epochs"],
        solver="auto",
        random_state=0,
    ).fit(case.matrix(), case.y, sample_weight=case.weights)
    table, (part,) = model._parts(case.matrix(), case.y, case.weights, model._fit.kept.duals)
    yield Claimed(model.certificate_, part, table, status=model.status_, tol=case["tol"], name="LinearSVC")


def _path(case: Case) -> Iterator[Claimed]:
    """The points of a LinearSVCPath."""
    C = 1.0 / ((case["l2"] + case["l1"]) * len(case.y))
    model = dualgap.LinearSVCPath(
        Cs=[C, 3.0 * C, 100.0 * C],
        l1_ratios=[0.5, 1.0] if case["intercept"] != "penalised" else [0.5, 0.0],
        loss=case["loss"],
        delta=case["delta"],
        fit_intercept=case["intercept"] != "none",
        intercept="penalised" if case["intercept"] == "penalised" else "free",
        intercept_scaling=case["intercept_scale"],
        tol=case["tol"],
        max_iter=case["max_epochs"],
        random_state=0,
    ).fit(case.matrix(), case.y, sample_weight=case.weights)
    table, parts = model._parts(case.matrix(), case.y, case.weights, model._fit.kept.duals)
    certificates = [c for row in model.certificates_ for c in row]
    for part, certificate, status in zip(parts, certificates, model.statuses_.ravel().tolist(), strict=True):
        yield Claimed(certificate, part, table, status=status, tol=case["tol"], name="LinearSVCPath")


def _store(case: Case) -> Iterator[Claimed]:
    """A run over a store, judged by the same rows in memory."""
    names = ("loss", "delta", "l2", "l1", "intercept", "intercept_scale")
    X = case.matrix()
    with tempfile.TemporaryDirectory() as folder:
        store = write_store([(X, case.y)], Path(folder) / "store", dtype=str(X.dtype), block_bytes=2000, shuffle=False)
        streamed = StoreProblem(store, sample_weight=case.weights, **{name: case[name] for name in names})
        result = dualgap.solve(streamed, "auto", tol=case["tol"], max_epochs=case["max_epochs"], seed=case["seed"])
        c = streamed.c.copy()
    problem = case.change(kernel=None).problem().replace(c=c)
    options = {"status": result.status, "tol": case["tol"], "name": "store"}
    yield _claim(problem, result.certificate, result.coef, result.intercept, result.dual, **options)


RUNS: dict[str, Callable[[Case], Iterator[Claimed | Judged]]] = {
    "solve": _solve,
    "pair": _pair,
    "certify": _certify,
    "joint": _joint,
    "cluster": _cluster,
    "svc": _svc,
    "path": _path,
    "store": _store,
    "nu": machine_of,
    "answers": answers,
    "forget": forgets,
    "guarantee": guarantee,
    "certified_cv": certified_choice,
}
