"""Rounds of 8 to 256 partitions, in one process on real data: `python -m benchmarks.rounds [network|rounds|sockets|billion]`.

network   seconds of an exchange, of a further partition, and of a byte, measured on two local worker processes
rounds    rounds to a relative gap, by partitions; with the measured network, the seconds that a cluster would take
sockets   bytes through the loopback interface in a round, against the bytes of the vectors alone
billion   the time of 10⁹ rows, computed from the rounds of the text-like data and the measured network; --quick takes the rounds in docs

The arithmetic of `rounds` is that of a cluster. Its seconds are modelled: those of the slowest partition of each exchange are measured, and
the network's are computed. See docs/scale.md.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.scale import data_folder, load_set

FAN_IN = 8
TEN_GIGABIT = 1.25e9  # bytes a second
PARTITIONS = (8, 32, 128, 256)
CASES = [  # data, loss, l2, solver, tolerance
    ("creditcard", "hinge", 1e-4, "newton", 1e-3),
    ("creditcard", "hinge", 1e-4, "newton", 1e-6),
    ("w8a", "hinge", 1e-6, "newton", 1e-3),
    ("covtype", "logistic", 1e-5, "newton", 1e-6),
    ("news20", "smooth_hinge", 1e-4, "cocoa", 1e-3),
    ("text-like", "hinge", 1e-5, "cocoa", 1e-3),
    ("text-like", "smooth_hinge", 1e-5, "cocoa", 1e-3),
    ("text-like", "logistic", 1e-5, "cocoa", 1e-3),
    ("text-like", "smooth_hinge", 1e-5, "newton_cg", 1e-3),
    ("text-like", "logistic", 1e-5, "newton_cg", 1e-3),
    ("news20", "smooth_hinge", 1e-4, "newton_cg", 1e-3),
]


class Network(NamedTuple):
    """Seconds of an exchange with two partitions, of each partition beyond, and of a byte from one place to another."""

    exchange: float
    partition: float
    byte: float

    def seconds(self, partitions: int, down: int, up: int) -> float:
        """Return the seconds of one exchange with as many workers: a vector of `down` bytes and sums of `up` bytes along a tree of FAN_IN.

        Every worker sends to FAN_IN others, and takes as many sums. Branches work at the same time, so that one level counts once.
        """
        levels = max(math.ceil(math.log(partitions, FAN_IN)), 1)
        most = min(partitions, FAN_IN)
        return levels * (self.exchange + self.partition * most + self.byte * most * (down + up))


def measure(client: Any) -> Network:
    """Measure the network of a cluster of two local processes."""
    few, many, long = (_exchange(client, count, width) for count, width in ((2, 10), (64, 10), (2, 1_000_000)))
    # In `long`, two vectors of 8 MB come to one place: from a worker to the scheduler, and from there to the client. In `many`, each of
    # the two workers answers once for 32 partitions.
    return Network(few, max(many - few, 0.0) / 62, max(long - few, 0.0) / (2 * 8e6))


def _exchange(client: Any, partitions: int, width: int) -> float:
    """Return the median seconds in which all partitions answer with a vector and the sum arrives."""
    import dask

    from dualgap.cluster import make_objective, make_pool

    parts = [dask.delayed(_tiny)(width, k) for k in range(partitions)]
    with make_pool(parts, client=client, partitions=partitions) as pool:
        objective, _ = make_objective(pool, l2=0.1)
        pool.configure(objective, lambda k: None)
        times = []
        for _ in range(15):
            began = time.perf_counter()
            pool.total("answer")
            times.append(time.perf_counter() - began)
    return float(np.median(times))


def _tiny(width: int, k: int) -> tuple[Any, np.ndarray]:
    from scipy import sparse

    return sparse.csr_matrix(([1.0, 1.0], ([0, 1], [0, k % width])), shape=(2, width)), np.array([0, 1])


def timed_pool(partitions: list[Any]) -> Any:
    """Return a pool in one process that notes of every exchange the slowest partition's seconds and the bytes to and from each."""
    from dualgap.cluster import InProcess

    class Timed(InProcess):
        """Counts exchanges."""

        def __init__(self) -> None:
            super().__init__(partitions)
            self.exchanges: list[tuple[float, int, int]] = []

        def _note(self, ask: Any, args: Any) -> Any:
            self.slowest = 0.0
            found = ask()
            arrays = getattr(found, "arrays", None) or {}
            down = sum(value.nbytes for value in args if isinstance(value, np.ndarray))
            self.exchanges.append((self.slowest, down, sum(array.nbytes for array in arrays.values())))
            return found

        def _one(self, k: int, method: str, args: Any) -> Any:
            began = time.perf_counter()
            found = super()._one(k, method, args)
            self.slowest = max(self.slowest, time.perf_counter() - began)
            return found

        def call(self, method: str, *args: Any, only: Any = None) -> Any:
            return self._note(lambda: super(Timed, self).call(method, *args, only=only), args)

        def total(self, method: str, *args: Any, only: Any = None) -> Any:
            return self._note(lambda: super(Timed, self).total(method, *args, only=only), args)

    return Timed()


def rounds_table(options: argparse.Namespace, network: Network) -> None:
    """Print the table of rounds."""
    from dualgap.cluster import Partition, make_objective, run_rounds

    print(f"network: {_words(network)}")
    print(
        "| data | n | d | loss | l2 | solver | gap | partitions | rounds | slowest partition, s | network, s | all at 10 Gbit/s, s |"
    )
    print("| --- " * 12 + "|", flush=True)
    sets: dict[str, Any] = {}
    for name, loss, l2, solver, tol in CASES:
        if options.data and name not in options.data.split(","):
            continue
        if name not in sets:
            sets = {name: load_set(name, data_folder(options.folder))}
        if sets[name] is None:
            print(f"{name} is not at hand", flush=True)
            continue
        X, y = sets[name]
        for count in PARTITIONS:
            pool = timed_pool([Partition(X[k::count], y[k::count]) for k in range(count)])
            made = make_objective(pool, loss, l2=l2, intercept="free")
            warm = run_rounds(pool, *made, tol=0.5, max_rounds=2, local_epochs=1, solver=solver)  # loads kernels
            assert warm.rounds
            pool.exchanges.clear()
            r = run_rounds(pool, *made, tol=tol, max_rounds=2000, local_epochs=1, solver=solver)
            working = sum(each[0] for each in pool.exchanges)
            here, fast = (
                sum(net.seconds(count, down, up) for _, down, up in pool.exchanges)
                for net in (network, network._replace(byte=1.0 / TEN_GIGABIT))
            )
            rounds = f"{r.rounds}" if r.status == "converged" else f"{r.rounds} ({r.status})"
            row = [
                name,
                f"{X.shape[0]:,}",
                f"{X.shape[1]:,}",
                loss.replace("_", " "),
                f"{l2:.0e}",
                solver,
                f"{tol:.0e}",
                count,
                rounds,
            ]
            print(f"| {' | '.join(map(str, row))} | {working:.2f} | {here:.2f} | {working + fast:.2f} |", flush=True)


TEXT_ROUNDS = {
    "cocoa": {8: 17, 32: 38, 128: 152, 256: 211},
    "newton_cg": {8: 38, 32: 38, 128: 38, 256: 38},
}  # smooth hinge, to 1e-3


def billion_table(options: argparse.Namespace, network: Network) -> None:
    """Print the time of 10⁹ rows of 100 non-zeros and 10⁶ columns, to 1e-3, by partitions. Rounds are run, all else is computed."""
    rows, nonzeros, columns, step = 1e9, 100, 1_000_000, 8e-9  # seconds of a step a non-zero
    print(f"network: {_words(network)}; 10 Gbit/s below")
    print("| solver | partitions | rows each | computation of a round, s | messages, s | rounds | total, min |")
    print("| --- " * 7 + "|", flush=True)
    fast = network._replace(byte=1.0 / TEN_GIGABIT)
    for solver, known in TEXT_ROUNDS.items():
        found = known if options.quick else _text_rounds(solver)
        for count, rounds in found.items():
            # CoCoA+: an epoch and, for the gap, half of one more. A product reads the rows for the scores and for the sum.
            working = (1.5 if solver == "cocoa" else 1.0) * rows * nonzeros * step / count
            size = 4 * columns if solver == "cocoa" else 8 * columns
            sending = fast.seconds(count, size, size)
            row = [solver, count, f"{rows / count:,.0f}", f"{working:.1f}", f"{sending:.2f}", rounds]
            print(f"| {' | '.join(map(str, row))} | {rounds * (working + sending) / 60:.0f} |", flush=True)


def _text_rounds(solver: str) -> dict[int, int]:
    """Return the rounds of the text-like data, smooth hinge, to 1e-3, by partitions."""
    from dualgap.cluster import InProcess, Partition, make_objective, run_rounds

    found = {}
    made = load_set("text-like", data_folder(None))
    assert made is not None
    X, y = made
    for count in PARTITIONS:
        pool = InProcess([Partition(X[k::count], y[k::count]) for k in range(count)])
        objective = make_objective(pool, "smooth_hinge", l2=1e-5, intercept="free")
        found[count] = run_rounds(pool, *objective, tol=1e-3, max_rounds=2000, local_epochs=1, solver=solver).rounds
    return found


def sockets_table(options: argparse.Namespace, client: Any) -> None:
    """Print bytes through the loopback interface in a round. Nothing else may use that interface meanwhile."""
    import dask

    from dualgap.cluster import train

    print("| data | d | partitions | rounds | MB of vectors a round | MB through the sockets a round | idle, MB a second |")
    print("| --- " * 7 + "|", flush=True)
    before = _loopback()
    time.sleep(2.0)
    idle = (_loopback() - before) / 2.0
    for name, loss, l2 in (("news20", "smooth_hinge", 1e-4), ("creditcard", "hinge", 1e-4)):
        found = load_set(name, data_folder(options.folder))
        if found is None:
            continue
        X, y = found
        for count in (2, 16):
            parts = [dask.delayed(client.scatter((X[k::count], y[k::count]))) for k in range(count)]
            seen: list[tuple[int, int, float]] = []

            def note(progress: Any, seen: Any = seen) -> None:
                seen.append((_loopback(), int(progress.record["bytes_sent"]), time.perf_counter()))

            problem = {"loss": loss, "l2": l2, "intercept": "free"}
            train(parts, **problem, tol=1e-3, local_epochs=1, partitions=count, client=client, callbacks=[note])
            (first, sent_first, began), (last, sent_last, ended) = seen[0], seen[-1]
            steps = max(len(seen) - 1, 1)
            measured = (last - first - idle * (ended - began)) / steps
            row = f"{(sent_last - sent_first) / steps / 1e6:.3f} | {measured / 1e6:.3f} | {idle / 1e6:.3f}"
            print(f"| {name} | {X.shape[1]:,} | {count} | {len(seen)} | {row} |", flush=True)


def _loopback() -> int:
    """Return the bytes that have gone through the loopback interface."""
    for line in Path("/proc/net/dev").read_text(encoding="utf-8").splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    raise RuntimeError("/proc/net/dev has no loopback interface")


def _words(network: Network) -> str:
    speed = f"{1e-6 / network.byte:.0f} MB/s" if network.byte else "too fast to measure"
    return f"{1e3 * network.exchange:.1f} ms an exchange, {1e3 * network.partition:.2f} ms a further partition, {speed}"


def main() -> None:
    """Run the command line."""
    from distributed import Client

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=("all", "network", "rounds", "sockets", "billion"), default="all")
    parser.add_argument("--folder", default=None, help="where the data sets are")
    parser.add_argument("--data", default="", help="names of data sets, separated by commas; all by default")
    parser.add_argument(
        "--quick", action="store_true", help="billion: take the rounds that docs/scale.md has, instead of running them"
    )
    options = parser.parse_args()
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as client:
        network = measure(client)
        if options.command == "network":
            print(_words(network))
        if options.command in ("all", "sockets"):
            sockets_table(options, client)
    if options.command in ("all", "billion"):
        billion_table(options, network)
    if options.command in ("all", "rounds"):
        rounds_table(options, network)


if __name__ == "__main__":
    main()
