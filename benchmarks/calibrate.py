"""`python -m benchmarks.calibrate`: measure the numbers of dualgap/core/machine.py on this machine, and print them beside those configured.

A size at which one way overtakes another is found on a grid of factors of two. Two measured values that differ by less than a factor of two
or three mean the same choice nearly everywhere; a larger difference is worth a look. Run it on an idle machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.linalg import lapack

import dualgap
from dualgap import data
from dualgap.core import linalg, machine, shuffle_blocks
from dualgap.core import rows as storage
from dualgap.core.order import natural_order, shuffle
from dualgap.core.threads import blas_alone, one_processor, share
from dualgap.solvers.coordinate import Ascent
from dualgap.solvers.working_set.dual_box import Box
from dualgap.solvers.working_set.pair_steps import pair_steps

RNG = np.random.default_rng(0)


def seconds(work: Callable[[], Any], repeats: int = 7, clock: Callable[[], float] = time.process_time) -> float:
    """Return the least seconds of a call, after one that compiles: processor time, unless threads are what is measured."""
    work()
    best = np.inf
    for _ in range(repeats):
        began = clock()
        work()
        best = min(best, clock() - began)
    return best


def first_size(
    sizes: Iterable[int], plain: Callable[[int], Any], other: Callable[[int], Any], clock: Callable[[], float] = time.process_time
) -> float:
    """Return the first size at which the call that `other(size)` makes takes a tenth less time than that of `plain(size)`."""
    for size in sizes:
        if seconds(other(size), clock=clock) < 0.9 * seconds(plain(size), clock=clock):
            return float(size)
    return np.inf


def dense_problem(n: int, d: int, loss: str = "hinge") -> dualgap.Problem:
    return dualgap.Problem(RNG.standard_normal((n, d)), np.arange(n) % 2, loss=loss, l2=1e-3)


def text_problem(n: int, nonzeros: int, d: int = 4000) -> dualgap.Problem:
    found = data.text_like(n, d, nonzeros, seed=0)
    return dualgap.Problem(found.X, found.y, l2=1e-4)


def steps(problem: dualgap.Problem, ahead: int = 0, block: int = 1) -> Callable[[], Any]:
    """Return a pass of coordinate steps in a random order of rows, or of blocks of rows."""
    ascent, order = Ascent(problem), natural_order(problem.n)
    (shuffle(order, 1) if block == 1 else shuffle_blocks(order, block, 1))
    ascent.ahead = ahead
    return lambda: ascent.steps(order)


# ------------------------------------------------------------------------------------------------------- caches and threads


def own_cache() -> float:
    sizes = [2**k for k in range(17, 26)]
    return first_size(sizes, lambda b: steps(dense_problem(b // 256, 32)), lambda b: steps(dense_problem(b // 256, 32), block=16))


def shared_cache() -> float:
    sizes = [2**k for k in range(20, 28)]
    return first_size(
        sizes, lambda b: steps(text_problem(b // 480, 40)), lambda b: steps(text_problem(b // 480, 40), storage.AHEAD)
    )


def in_threads(make: Callable[[int], Callable[[int, int], Any]], sizes: Iterable[int]) -> float:
    """Return the first size whose halves are worth a thread each; `make(size)` returns the work on a part of that range."""

    def alone(size: int) -> Callable[[], Any]:
        work = make(2 * size)
        return lambda: work(0, 2 * size)

    def shared(size: int) -> Callable[[], Any]:
        work = make(2 * size)
        return lambda: share(work, 2 * size, 1)

    return first_size(sizes, alone, shared, time.perf_counter)


def thread_bytes() -> float:
    def make(count: int) -> Callable[[int, int], Any]:
        x, v, out = RNG.standard_normal((count, 32)), np.ones(32), np.empty(count)
        return lambda first, last: storage.scores(storage.dense(x[first:last]), v, out[first:last])

    return 256 * in_threads(make, [2**k for k in range(8, 18)])


def thread_products() -> float:
    def make(count: int) -> Callable[[int, int], Any]:
        x, weight = RNG.standard_normal((count, 32)), np.ones(count)

        def work(first: int, last: int) -> Any:
            with one_processor():
                return linalg.gram_of_rows(storage.dense(x[first:last]), weight[first:last], 32)

        return work

    return 1024 * in_threads(make, [2**k for k in range(7, 16)])


def thread_values() -> float:
    left = RNG.standard_normal((64, 32))

    def make(count: int) -> Callable[[int, int], Any]:
        x = RNG.standard_normal((count, 32))
        return lambda first, last: np.exp(-np.abs(x[first:last] @ left.T))

    with blas_alone:
        return 64 * in_threads(make, [2**k for k in range(7, 16)])


# --------------------------------------------------------------------------------------------------------------------- widths


def narrow() -> float:
    def gram(limit: int) -> Callable[[int], Callable[[], Any]]:
        def make(width: int) -> Callable[[], Any]:
            rows, weight = storage.dense(RNG.standard_normal((4000, width))), np.ones(4000)

            def work() -> None:
                linalg.NARROW = limit
                linalg.gram_of_rows(rows, weight, width)

            return work

        return make

    with one_processor():
        width = first_size([8, 16, 32, 48, 64, 96, 128, 256], gram(10**9), gram(0))
    linalg.NARROW = machine.NARROW
    return width


def cheap() -> float:
    def product(width: int) -> Callable[[], Any]:
        x, out = RNG.standard_normal((512, width)).astype(np.float32), np.empty((512, 4096), dtype=np.float32)
        y = RNG.standard_normal((4096, width)).astype(np.float32)
        return lambda: np.matmul(x, y.T, out=out)

    def store(width: int) -> Callable[[], Any]:
        exponents = np.full((512, 4096), -1.0, dtype=np.float32)
        out = np.empty_like(exponents)
        return lambda: np.exp(exponents, out=out)  # what is done with each product before it is stored

    with blas_alone:
        return first_size([16, 32, 64, 128, 256, 512, 1024], product, store)


# ---------------------------------------------------------------------------------------------------------------- nanoseconds


def dense_pass() -> tuple[float, float]:
    """Return nanoseconds for each number and for each row."""
    short, long = (1e9 * seconds(steps(dense_problem(2000, d))) / 2000 for d in (10, 200))
    entry = (long - short) / 190
    return entry, short - 10 * entry


def sparse_pass() -> float:
    problems = [text_problem(2000, nonzeros) for nonzeros in (20, 200)]
    short, long = (1e9 * seconds(steps(problem)) for problem in problems)
    return (long - short) / (storage.stored(problems[1].rows) - storage.stored(problems[0].rows))


def logistic_step() -> float:
    plain, other = (1e9 * seconds(steps(dense_problem(2000, 10, loss))) / 2000 for loss in ("hinge", "logistic"))
    return other - plain


def score_entry(problem: dualgap.Problem) -> float:
    v, out, ones = np.ones(problem.d), np.empty(problem.n), np.ones(problem.n)
    both = seconds(lambda: (storage.scores(problem.rows, v, out), storage.accumulate(problem.rows, ones, v)))
    return 1e9 * both / storage.stored(problem.rows)


def newton_row() -> float:
    problem, solver = dense_problem(100_000, 1, "smooth_hinge"), dualgap.Newton()

    def work() -> None:
        state = solver.start(problem, RNG)
        for _ in range(4):
            solver.epoch(problem, state, RNG)

    return 1e9 * seconds(work) / (4 * problem.n)


def products(problem: dualgap.Problem) -> float:
    weight, squares = np.ones(problem.n), problem.n * (storage.stored(problem.rows) / problem.n) ** 2
    with one_processor():
        return 1e9 * seconds(lambda: linalg.gram_of_rows(problem.rows, weight, problem.d), 3) / squares


def definite(n: int, dtype: Any) -> np.ndarray:
    X = RNG.standard_normal((n, n)).astype(dtype)
    return np.asarray(X @ X.T + n * np.eye(n, dtype=dtype))


def cholesky() -> float:
    H, g = definite(1000, np.float64), np.ones(1000)
    with blas_alone:
        return 1e9 * seconds(lambda: linalg.solve_positive(H.copy(), g), 3) / 1000**3


def flop() -> float:
    M = definite(2000, np.float32)
    with blas_alone:
        return 1e9 * seconds(lambda: lapack.spotrf(M), 3) / (2000**3 / 3)


def kernel_value() -> float:
    store, change = np.ones((1000, 40_000), dtype=np.float32), np.ones(1000, dtype=np.float32)
    with blas_alone:
        return 1e9 * seconds(lambda: change @ store) / store.size


def matrix_entry() -> float:
    store, places = np.ones((1000, 20_000), dtype=np.float32), np.sort(RNG.choice(20_000, 1000, replace=False))
    return 1e9 * seconds(lambda: store[:, places]) / 1e6


def pair_step() -> float:
    n, most = 512, 200
    X = RNG.standard_normal((n, 8))
    K = np.exp(-0.1 * ((X[:, None] - X[None]) ** 2).sum(axis=2)).astype(np.float32)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)

    def work() -> int:
        none, group = np.zeros(n), np.zeros(n, dtype=np.int64)
        box = Box(np.zeros(n), np.minimum(y, 0.0), np.maximum(y, 0.0), y.copy(), none, none, np.ones(n), group)
        return int(pair_steps(K, np.diag(K).copy(), box, 1e-12, 0.0, most, 1.0, np.array([n])))

    return 1e9 * seconds(work) / (work() * n)


def main() -> None:
    entry, row = dense_pass()
    pictures, few_columns, text = dense_problem(20_000, 300), dense_problem(20_000, 40), text_problem(20_000, 40, 400)
    table: list[tuple[str, str, float, Callable[[], float]]] = [
        ("OWN_CACHE", "bytes", machine.OWN_CACHE, own_cache),
        ("SHARED_CACHE", "bytes", machine.SHARED_CACHE, shared_cache),
        ("READING", "bytes", machine.READING, thread_bytes),
        ("THREAD_WORK", "products", machine.THREAD_WORK, thread_products),
        ("THREAD_VALUES", "kernel values", machine.THREAD_VALUES, thread_values),
        ("NARROW", "columns", machine.NARROW, narrow),
        ("CHEAP", "entries", machine.CHEAP, cheap),
        ("DENSE_ENTRY", "ns", machine.DENSE_ENTRY, lambda: entry),
        ("SPARSE_ENTRY", "ns", machine.SPARSE_ENTRY, sparse_pass),
        ("STEP", "ns", machine.STEP, lambda: row),
        ("LOGISTIC_STEP", "ns", machine.LOGISTIC_STEP, logistic_step),
        ("SCORE_ENTRY, dense", "ns", machine.SCORE_ENTRY[0], lambda: score_entry(pictures)),
        ("SCORE_ENTRY, sparse", "ns", machine.SCORE_ENTRY[1], lambda: score_entry(text)),
        ("NEWTON_ROW", "ns", machine.NEWTON_ROW, newton_row),
        ("CHOLESKY", "ns", machine.CHOLESKY, cholesky),
        ("BLAS_PRODUCT", "ns", machine.BLAS_PRODUCT, lambda: products(pictures)),
        ("NARROW_PRODUCT", "ns", machine.NARROW_PRODUCT, lambda: products(few_columns)),
        ("LOOP_PRODUCT", "ns", machine.LOOP_PRODUCT, lambda: products(text)),
        ("PAIR_STEP", "ns", machine.PAIR_STEP, pair_step),
        ("KERNEL_VALUE", "ns", machine.KERNEL_VALUE, kernel_value),
        ("MATRIX_ENTRY", "ns", machine.MATRIX_ENTRY, matrix_entry),
        ("FLOP", "ns", machine.FLOP, flop),
    ]
    print(f"{'name':22s} {'unit':14s} {'configured':>12s} {'measured':>12s} {'ratio':>7s}")
    for name, unit, configured, measure in table:
        measured = measure()
        print(f"{name:22s} {unit:14s} {configured:12.4g} {measured:12.4g} {measured / configured:7.2f}", flush=True)
    for name, configured in (("CALL", machine.CALL), ("EPOCH", machine.EPOCH)):
        print(f"{name:22s} {'ns':14s} {configured:12.4g}   Python's part of a step or an epoch; not measured apart")


if __name__ == "__main__":
    main()
