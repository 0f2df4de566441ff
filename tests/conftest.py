"""What the tests share: small data sets, and the way to the real ones."""

import gc
import os
from pathlib import Path

import numpy as np
import pytest
import sklearn
from hypothesis import settings
from scipy import sparse

from dualgap.core import jit

# The same examples on every run and machine, and no time limit for the one that compiles. `make fuzz` sets DUALGAP_EXAMPLES: each test
# then gets that many new examples, and a failure prints a line that repeats it.
EXAMPLES = int(os.environ.get("DUALGAP_EXAMPLES", "0"))
settings.register_profile("fuzz", derandomize=False, deadline=None, max_examples=EXAMPLES or 100, print_blob=True)
settings.register_profile("dualgap", derandomize=True, deadline=None, database=None, print_blob=False)
settings.load_profile("fuzz" if EXAMPLES else "dualgap")

# numba's compiler makes many objects that stay. To search all of them for cycles again and again takes a sixth of the processor time.
gc.set_threshold(100_000, 20, 100)

# The tests read standard error; the first kernel that a process compiles would add a line to it.
jit._said.append("compiling")

ROOT = Path(__file__).resolve().parents[1]

# (1, 9), say: for the few tests that ask for something of scikit-learn itself
SKLEARN = tuple(int(part) for part in sklearn.__version__.split(".")[:2])


def pytest_collection_modifyitems(items):
    """With `make fuzz`, the number of examples is the same for a test that names its own."""
    for item in items if EXAMPLES else ():
        own = getattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings", None)
        if own is not None:
            item.obj._hypothesis_internal_use_settings = settings(own, max_examples=EXAMPLES)


def pytest_collection_finish():
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_data():
    """shared_data(name): the path of a real data set, from DUALGAP_DATA or ../shared/data; skips where it is absent."""
    folder = Path(os.environ.get("DUALGAP_DATA") or ROOT.parent / "shared" / "data")

    def find(name):
        path = folder / name
        if not path.exists():
            pytest.skip(f"no {name} in {folder.name}; set DUALGAP_DATA to the folder that holds it")
        return path

    return find


def make_data(n=60, d=5, seed=0, noise=0.5):
    """n rows of d features in float64 and labels ±1 that a plane through (0.3 off) the origin separates but for some noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X @ rng.normal(size=d) + 0.3 + noise * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y


def random_sparse(n, d, density, rng):
    """An n × d CSR array with round(density · n · d) non-zeros at random places."""
    places = rng.choice(n * d, size=round(density * n * d), replace=False)
    return sparse.csr_array((rng.uniform(0.5, 1.5, len(places)), np.divmod(places, d)), shape=(n, d))


@pytest.fixture
def small():
    """60 × 5 dense rows, labels ±1."""
    return make_data()


@pytest.fixture
def sparse_like():
    """80 × 12 rows, three quarters zeros, two of the rows empty, labels ±1: the dense form of a sparse set."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 12)) * (rng.random((80, 12)) < 0.25)
    X[[7, 31]] = 0.0
    y = np.where(X @ rng.normal(size=12) + 0.5 * rng.normal(size=80) > 0, 1.0, -1.0)
    return X, y
