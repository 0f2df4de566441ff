"""What the tests on clusters share: a problem in parts, and what the workers of a cluster keep."""

import time

import numpy as np
from scipy import sparse

OPTIONS = {"loss": "smooth_hinge", "l2": 1e-2, "intercept": "free"}  # one loss for all tests: compiling takes longer than they do


def sample(n=400, d=25, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d, 0.3, "csr", random_state=seed)
    y = np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0.1, 1, 0)
    return X, y


X, y = sample()


def agrees(result, best, tol=1e-4):
    assert result.status == "converged"
    assert result.certificate.relative_gap <= tol
    assert best.dual - 1e-12 <= result.certificate.primal <= best.primal * (1 + tol)
    assert result.certificate.dual <= best.primal + 1e-12


def as_delayed():
    import dask

    return [dask.delayed(lambda k: (X[k::5], y[k::5]))(k) for k in range(5)], None


def kept_partitions(dask_worker, forget=False):
    """On a worker: how many partitions it keeps; `forget` removes them."""
    from dualgap.cluster.keeper import keeper_of

    if "dualgap" not in dask_worker.plugins:
        return 0
    leases = keeper_of(dask_worker).leases.values()
    count = sum(len(lease.partitions) for lease in leases)
    if forget:
        for lease in leases:
            lease.partitions.clear()
    return count


def within(seconds, condition):
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this never came to be"
        time.sleep(0.05)


def holds_nothing(client):
    """Whether the workers of a cluster keep no rows, and Dask has no task of a fit."""
    return not sum(client.run(kept_partitions).values()) and not any(client.processing().values())
