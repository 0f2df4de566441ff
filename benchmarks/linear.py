"""Linear models: seconds to a relative suboptimality, dualgap against its peers, in one run on one machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import dualgap
from benchmarks.cases import Case, load_case
from benchmarks.peers import Peer, available, check, quiet

__all__ = ["PATIENCE", "PENALTIES", "TARGETS", "Timing", "ratios", "run"]

TARGETS = (1e-2, 1e-3, 1e-6)
PENALTIES = ("1e-2", "1e-4", "1/n", "0.1/n")  # l2, from strong to weak; C = 1/(n·l2) is 1 at 1/n
PATIENCE = 10.0  # seconds for one setting of a peer on one problem; what takes longer is not tightened any further


@dataclass(frozen=True)
class Timing:
    """Seconds (wall and CPU; the best of the repeats) after which a solver's model had the target's relative suboptimality."""

    data: str
    loss: str
    l2: float
    solver: str
    target: float
    seconds: float
    cpu_seconds: float
    reached: float  # the suboptimality found; for dualgap its certified relative gap
    setting: float


def timed(function: Callable[[], Any], repeats: int) -> tuple[Any, float, float]:
    """Return the result, and the best wall and CPU seconds."""
    wall, cpu, result = np.inf, np.inf, None
    for _ in range(repeats):
        w, c = time.perf_counter(), time.process_time()
        result = function()
        w, c = time.perf_counter() - w, time.process_time() - c
        wall, cpu = min(wall, w), min(cpu, c)
        if w > 5.0:
            break
    return result, wall, cpu


def time_dualgap(case: Case, loss: str, l2: float, repeats: int) -> tuple[list[Timing], float]:
    """dualgap's times, and its best lower bound on the optimum."""

    def train(tol: float) -> dualgap.Result:
        problem = dualgap.Problem(case.X, case.y, loss=loss, l2=l2)
        return dualgap.solve(problem, "auto", tol=tol, max_epochs=100_000, stall=False)

    train(1e-1)  # compiles
    timings = []
    for target in TARGETS:
        result, wall, cpu = timed(lambda target=target: train(target), repeats)
        gap = result.certificate.relative_gap
        seconds = (wall, cpu) if result.converged else (np.nan, np.nan)
        timings.append(Timing(case.name, loss, l2, "dualgap", target, *seconds, gap, target))
    return timings, train(1e-8).certificate.dual


def time_peer(peer: Peer, case: Case, loss: str, l2: float, best: float, repeats: int, patience: float) -> list[Timing]:
    """Return a peer's times: for each target the fastest setting that reached it."""
    objective = dualgap.Problem(case.X, case.y, loss=loss, l2=l2).objective
    tried = []
    for setting in peer.settings if peer.takes(case.X) else ():
        try:
            with quiet():
                coef, wall, cpu = timed(lambda setting=setting: peer.train(case.X, case.y, l2, loss, setting), repeats)
        except Exception as error:  # a peer that fails is a finding, not an end of the run
            print(f"    {peer.name}: {type(error).__name__}: {str(error)[:80]}")
            break
        reached = (objective(coef) - best) / best
        tried.append((reached, wall, cpu, setting))
        if reached <= TARGETS[-1] or wall > patience:
            break
    timings = []
    for target in TARGETS:
        good = [entry for entry in tried if entry[0] <= target]
        reached, wall, cpu, setting = min(good, key=lambda e: e[1]) if good else (np.nan, np.nan, np.nan, np.nan)
        timings.append(Timing(case.name, loss, l2, peer.name, target, wall, cpu, reached, setting))
    return timings


def strength(penalty: str, n: int) -> float:
    """Return the l2 that a penalty such as "1e-4" or "0.1/n" means for n rows."""
    number, _, per_row = penalty.partition("/")
    if per_row not in ("", "n"):
        raise ValueError(f"penalty={penalty!r} must be a number, or a number divided by n, such as '0.1/n'")
    return float(number) / (n if per_row else 1)


def run(
    names: Iterable[str],
    losses: Iterable[str] = ("hinge",),
    peers: Iterable[str] | None = None,
    repeats: int = 3,
    patience: float = PATIENCE,
    penalties: Iterable[str] = PENALTIES,
) -> Iterator[list[dict[str, Any]]]:
    """Race everything on the named cases at each l2, and print as it goes; yield all records so far after each problem."""
    losses = tuple(losses)
    chosen: dict[str, list[Peer]] = {}
    for loss in losses:
        chosen[loss] = []
        for peer in available(loss):
            if peers is not None and peer.name not in peers:
                continue
            fault = check(peer, loss)
            print(f"  {peer.name}, {loss}: {'checked at two values of C' if not fault else 'LEFT OUT: ' + fault}")
            if not fault:
                chosen[loss].append(peer)
    records: list[dict[str, Any]] = []
    for name in names:
        try:
            case = load_case(name)
        except Exception as error:  # a set that is not at hand
            print(f"{name}: left out: {error}")
            continue
        for loss in losses:
            for l2 in (strength(penalty, len(case.y)) for penalty in penalties):
                timings, best = time_dualgap(case, loss, l2, repeats)
                for peer in chosen[loss]:
                    timings += time_peer(peer, case, loss, l2, best, repeats, patience)
                show(case, loss, l2, timings)
                records += [asdict(timing) for timing in timings]
                yield records


def show(case: Case, loss: str, l2: float, timings: list[Timing]) -> None:
    """Print the table of one problem."""
    print(f"\n{case.name}  {case.X.shape[0]:,} × {case.X.shape[1]:,}  {loss}  l2 = {l2:.2g}   (seconds to relative suboptimality)")
    solvers = list(dict.fromkeys(timing.solver for timing in timings))
    for solver in solvers:
        mine = [timing for timing in timings if timing.solver == solver]
        cells = "  ".join(f"{t.target:g}: {t.seconds:8.4f}" if np.isfinite(t.seconds) else f"{t.target:g}:        —" for t in mine)
        print(f"  {solver:20s} {cells}", flush=True)


def ratios(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each problem and target: the best peer, and how many times faster dualgap is."""
    rows = []
    for key in dict.fromkeys((r["data"], r["loss"], r["l2"], r["target"]) for r in records):
        here = [r for r in records if (r["data"], r["loss"], r["l2"], r["target"]) == key]
        ours = next(r for r in here if r["solver"] == "dualgap")
        others = [r for r in here if r["solver"] != "dualgap" and np.isfinite(r["seconds"])]
        best = min(others, key=lambda r: r["seconds"], default=None)
        rows.append(
            {
                "data": key[0],
                "loss": key[1],
                "l2": key[2],
                "target": key[3],
                "dualgap": ours["seconds"],
                "best peer": best["solver"] if best else "none reached it",
                "its seconds": best["seconds"] if best else np.nan,
                "ratio": best["seconds"] / ours["seconds"] if best else np.inf,
            }
        )
    return rows
