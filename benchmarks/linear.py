"""Linear models: seconds to a relative suboptimality, dualgap against its peers, in one run on one machine."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import dualgap
from benchmarks.cases import Case, load_case
from benchmarks.peers import Peer, available, check, quiet, warm_up

__all__ = ["PATIENCE", "PENALTIES", "TARGETS", "Timing", "ratios", "run"]

TARGETS = (1e-2, 1e-3, 1e-6)
PENALTIES = ("1e-2", "1e-4", "1/n", "0.1/n")  # l2, from strong to weak; C = 1/(n·l2) is 1 at 1/n
CHECK_SECONDS = 60.0  # for imports, and for the check of a peer
READY, FAILED = "ready", "failed"  # messages of a child
PATIENCE = 60.0  # seconds for a peer on one problem, all its settings and repeats; then it is stopped


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
    """Return a peer's times: for each target the fastest setting that reached it, within `patience` seconds for all of them together."""
    tried: dict[float, tuple[float, float, float]] = {}  # setting: suboptimality, and the best wall and CPU seconds
    if peer.takes(case.X):
        if not peer.own_threads:  # here, once for all problems: some compile
            warm_up(peer, case.X, case.y, loss)
        for setting, *found in in_child(lambda send: _try_settings(peer, case, loss, l2, best, repeats, send), patience):
            if setting is FAILED:
                print(f"    {peer.name}: {found[0]}")
                continue
            reached, wall, cpu = found
            before = tried.get(setting, (reached, np.inf, np.inf))
            tried[setting] = reached, min(wall, before[1]), min(cpu, before[2])
    timings = []
    for target in TARGETS:
        setting = _fastest(tried, target)
        reached, wall, cpu = (np.nan, np.nan, np.nan) if setting is None else tried[setting]
        timings.append(Timing(case.name, loss, l2, peer.name, target, wall, cpu, reached, np.nan if setting is None else setting))
    return timings


def _fastest(tried: dict[float, tuple[float, float, float]], target: float) -> float | None:
    """Return the fastest setting that reached a target."""
    return min((s for s, entry in tried.items() if entry[0] <= target), key=lambda s: tried[s][1], default=None)


def _try_settings(peer: Peer, case: Case, loss: str, l2: float, best: float, repeats: int, send: Callable[[Any], None]) -> None:
    """Train at each setting, from loose to tight, until the last target is reached; then again at those that were fastest to a target."""
    objective = dualgap.Problem(case.X, case.y, loss=loss, l2=l2).objective
    tried: dict[float, tuple[float, float, float]] = {}

    def attempt(setting: float) -> float:
        with quiet():
            coef, wall, cpu = timed(lambda: peer.train(case.X, case.y, l2, loss, setting), 1)
        tried[setting] = (objective(coef) - best) / best, wall, cpu
        send((setting, *tried[setting]))
        return tried[setting][0]

    try:
        if peer.own_threads:
            warm_up(peer, case.X, case.y, loss)
        send(READY)
        for setting in peer.settings:
            if attempt(setting) <= TARGETS[-1]:
                break
        chosen = {_fastest(tried, target) for target in TARGETS} - {None}
        for _ in range(repeats - 1):
            for setting in sorted(chosen, reverse=True):
                attempt(setting)
    except Exception as error:  # a peer that fails is a finding, not an end of the run
        send((FAILED, f"{type(error).__name__}: {str(error)[:80]}"))


def in_child(work: Callable[[Callable[[Any], None]], None], seconds: float) -> Iterator[Any]:
    """Run work(send) in a child process, which is ended some seconds after it sends READY; yield what else it sends.

    A peer's fit is compiled code that listens to nobody, and may take minutes longer than its race.
    """
    fork = multiprocessing.get_context("fork")  # the data are not copied
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=_run_child, args=(work, sender))
    child.start()
    sender.close()
    deadline = time.perf_counter() + CHECK_SECONDS
    try:
        while receiver.poll(max(deadline - time.perf_counter(), 0.0)):
            if (message := receiver.recv()) == READY:
                deadline = time.perf_counter() + seconds
            else:
                yield message
    except EOFError:
        pass
    finally:
        child.kill()
        child.join()
        receiver.close()


def _run_child(work: Callable[[Callable[[Any], None]], None], sender: Any) -> None:
    work(sender.send)
    sender.close()


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
            # In a child: threads that a peer starts here would not survive in the children that race, and would be waited for.
            fault = next(iter(in_child(lambda send, peer=peer, loss=loss: send(check(peer, loss)), 0.0)), "its check did not end")
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
