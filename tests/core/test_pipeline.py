"""The leaner compiler: it computes what numba computes, and counts references where a function makes or returns arrays."""

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

import dualgap
from dualgap.core import pipeline
from dualgap.core.jit import compiled, kernel, kernel_part, prefetch, sequential, strict, strict_part

own = pytest.mark.skipif(bool(pipeline.ASKED), reason="DUALGAP_COMPILER asks for numba's own compiler")


@compiled
class Offset(NamedTuple):
    by: float = 1.5

    def shifted(self, x):
        return x + self.by


class Pair(NamedTuple):
    first: np.ndarray
    second: np.ndarray


class Weighted(NamedTuple):
    pair: Pair
    weight: float


@kernel_part
def part(x, i):
    return x[i] * 2.0


@kernel
def inner(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += part(x, i)
    return s


@kernel
def outer(pair, offset):
    return inner(pair.first) + offset.shifted(inner(pair.second[1:]))


@kernel
def weighted(both):
    return both.weight * inner(both.pair.first)


@kernel_part
def doubled(x):
    out = np.empty(x.shape[0])
    for i in range(x.shape[0]):
        out[i] = 2.0 * x[i]
    return out


@kernel_part
def second_of(pair):
    return pair.second


@kernel
def sum_of_made(pair):
    made, other = doubled(pair.first), second_of(pair)
    s = 0.0
    for i in range(made.shape[0]):
        s += made[i] + other[i]
    return s


@kernel
def made(x):
    return doubled(x)


@kernel
def expression(x):
    return (x + 2.0 * x)[0]


@kernel
def fancy(x, which):
    return x[which][0]


@kernel
def with_closure(x):
    twice = lambda v: 2.0 * v  # noqa: E731
    return twice(x[0])


class Shifted(NamedTuple):
    x: np.ndarray
    offset: Offset  # a number inside a tuple beside an array


@compiled
class Fetched(NamedTuple):
    x: np.ndarray

    def fetch_then_read(self, i):
        prefetch(self.x, i)
        return self.x[i]


@kernel
def sum_of_shifted(shifted, which):
    s = 0.0
    for i in which:
        s += shifted.offset.shifted(shifted.x[i])
    return s


@kernel
def fetched_sum(fetched):
    s = 0.0
    for i in range(fetched.x.shape[0]):
        s += fetched.fetch_then_read(i)
    return s


@sequential
def halved(x):
    return 0.5 * x


def counted(monkeypatch, folder):
    """Names of functions compiled from now on -> whether their references are counted."""
    found, original = {}, pipeline.counts_nothing

    def look(state):
        found[state.func_id.func_name] = not original(state)
        return not found[state.func_id.func_name]

    monkeypatch.setattr(pipeline, "counts_nothing", look)
    monkeypatch.setenv("DUALGAP_CACHE_DIR", str(folder))
    return found


def test_kernels_call_parts_kernels_and_methods():
    pair = Pair(np.arange(3.0), np.arange(4.0))
    assert outer(pair, Offset()) == 6.0 + 12.0 + 1.5


@own
def test_a_part_has_no_machine_code_and_a_kernel_has(monkeypatch, tmp_path):
    monkeypatch.setenv("DUALGAP_CACHE_DIR", str(tmp_path))
    outer(Pair(np.arange(3), np.arange(4)), Offset())  # types that no other test has compiled
    parts = [*part.overloads.values(), *inner.part.overloads.values()]
    assert parts
    for result in parts:
        assert isinstance(result.library, pipeline.PartLibrary)
    assert inner(np.arange(3)) == 6.0
    for result in inner.entry.overloads.values():
        assert not isinstance(result.library, pipeline.PartLibrary)


@own
def test_references_are_counted_where_arrays_are_made_or_returned(monkeypatch, tmp_path):
    found = counted(monkeypatch, tmp_path)
    x = np.arange(4, dtype=np.float32)  # types that no other test has compiled
    pair = Pair(x, x)
    outer(pair, Offset())
    weighted(Weighted(pair, 2.0))
    sum_of_made(pair)
    made(x)
    expression(x)
    fancy(x, np.array([2, 1]))
    with_closure(x)
    wanted = {"weighted": False, "outer": False, "inner": False, "part": False, "with_closure": False}
    wanted |= {"sum_of_made": True, "doubled": True, "second_of": True, "made": True, "expression": True, "fancy": True}
    assert {name: found[name] for name in wanted} == wanted


@own
def test_no_references_are_counted_where_arrays_are_only_read(monkeypatch, tmp_path):
    found = counted(monkeypatch, tmp_path)
    x = np.arange(4, dtype=np.float32)
    assert sum_of_shifted(Shifted(x, Offset()), np.array([1, 3])) == 7.0
    assert fetched_sum(Fetched(x)) == 6.0
    names = ("sum_of_shifted", "fetched_sum", "fetch_then_read")
    assert [found[name] for name in names] == [False] * len(names)


def test_arrays_that_kernels_make_and_pass_on_are_freed():
    x = np.arange(1000.0)
    pair = Pair(x, x.copy())
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    references = sys.getrefcount(x), sys.getrefcount(pair.second)
    for _ in range(50):
        assert sum_of_made(pair) == 3.0 * x.sum()
        np.testing.assert_array_equal(made(x), 2.0 * x)
        assert outer(pair, Offset()) > 0.0
    after = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free > 0
    assert (sys.getrefcount(x), sys.getrefcount(pair.second)) == references


def test_expressions_closures_and_sequential_functions_work():
    x = np.array([1.0, 2.0])
    assert expression(x) == 3.0
    assert fancy(x, np.array([1, 0])) == 2.0
    assert with_closure(x) == 2.0
    assert halved(3.0) == 1.5


def test_functions_of_other_users_call_methods_of_compiled_classes():
    @numba.njit
    def theirs(offset, x):
        return offset.shifted(x)

    assert theirs(Offset(2.0), 1.0) == 3.0


def test_functions_of_other_users_call_kernels_with_all_their_parts():
    @numba.njit
    def theirs(pair, offset):
        return outer(pair, offset) + inner(pair.first)

    pair = Pair(np.arange(3.0), np.arange(4.0))
    assert theirs(pair, Offset()) == 6.0 + 12.0 + 1.5 + 6.0


@kernel_part
def fast_power(x):
    return np.sum(x) + max(x[0], x[1])


@strict_part
def strict_power(x):
    return np.sum(x) + max(x[0], x[1])


@strict
def by_ones(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    return s


@kernel
def both(x):
    return fast_power(x), strict_power(x)


def test_what_is_found_for_one_set_of_options_does_not_count_for_another():
    x = np.array([1.0, 1e16, -1e16, 3.0])
    fast, exact = both(x)
    assert exact == np.float64(3.0) + 1e16
    assert np.isfinite(fast)
    total = 0.0
    numbers = np.random.default_rng(0).standard_normal(1001) * 10.0 ** np.arange(1001).__mod__(17)
    for value in numbers:
        total += value
    assert by_ones(numbers) == total


@pytest.mark.parametrize("was_on", [True, False])
def test_the_collector_is_as_it_was_after_a_pause(was_on):
    now = gc.isenabled()
    try:
        (gc.enable if was_on else gc.disable)()
        with pipeline.collector_paused():
            assert not gc.isenabled()
        assert gc.isenabled() == was_on
    finally:
        (gc.enable if now else gc.disable)()


# ---------------------------------------------------------------------------------------------------------- numba's own compiler

TOTAL = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    {before}
    import numpy as np
    from dualgap.core import Hinge, total_value
    print(total_value(Hinge(), np.array([-1.0, 0.5, 3.0]), np.array([0.5, 0.25, 0.25])))
print(*[warning.message for warning in seen])
"""


def run(before, cache, compiler=""):
    """What a new process prints that sums three losses, after some other lines."""
    env = {**os.environ, "PYTHONPATH": str(Path(dualgap.__file__).parents[1])}
    env |= {"DUALGAP_CACHE_DIR": str(cache), "DUALGAP_COMPILER": compiler}
    return subprocess.run(
        [sys.executable, "-B", "-c", TOTAL.format(before=before)], env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        ("from dualgap.core import pipeline; pipeline.PartLibrary._finalize_final_module = lambda self: self.gone", 1),
        ("from dualgap.core import pipeline; pipeline.counts_nothing = lambda state: state.gone", 1),
        ("from numba.core import codegen; del codegen.JITCodeLibrary", 1),
        ("import sys; sys.modules['dualgap.core.pipeline'] = None", 0),
    ],
)
def test_a_numba_that_does_not_fit_compiles_alone(tmp_path, before, kept):
    found = run(before, tmp_path)
    value, warning = found.stdout.splitlines()
    assert value == "1.125", found.stderr
    assert warning.count("compiles kernels without dualgap's part of the compiler") == 1
    assert len([*tmp_path.rglob("*.nbc")]) == kept


def test_numbas_own_compiler_is_there_for_the_asking(tmp_path):
    found = run("from dualgap.core import pipeline; del pipeline.PartLibrary", tmp_path, "numba")
    assert found.stdout.splitlines() == ["1.125", ""], found.stderr
    again = run("from dualgap.core import pipeline; del pipeline.PartCompiler.define_pipelines", tmp_path, "numba")
    assert again.stdout.splitlines() == ["1.125", ""], again.stderr
    assert len([*tmp_path.rglob("*.nbc")]) == 1
    assert "is 'clang': set it to 'numba'" in run("pass", tmp_path, "clang").stderr
