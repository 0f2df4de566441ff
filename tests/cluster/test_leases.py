"""What a cluster knows of a fit: its leases count as work and end with the client, workers come and go, and two fits share."""

import ast
import inspect
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import dualgap
from cluster_cases import OPTIONS, X, agrees, as_delayed, holds_nothing, kept_partitions, within, y
from dualgap.cluster import train

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed: pip install 'dualgap[dask]'")
dask = pytest.importorskip("dask", reason="dask is not installed: pip install 'dualgap[dask]'")

IN_PROCESS = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0", "silence_logs": 50}
SLOW = {**OPTIONS, "solver": "cocoa", "local_epochs": 1, "max_rounds": 3000, "partitions": 4}
VICTIM = """
import sys, time
import numpy as np
from distributed import Client
import dask
from dualgap.cluster import train
rows = lambda k: (np.random.default_rng(k).standard_normal((50, 4)), np.arange(50) % 2)
with Client(sys.argv[1]) as client:
    train([dask.delayed(rows)(k) for k in range(2)], l2=0.1, tol=0.0, client=client, callbacks=[lambda progress: time.sleep(600)])
"""


def test_rows_die_with_their_client(client):
    """The client is killed in the middle of a fit: the workers free its rows, and Dask has no task of it."""
    killed = subprocess.Popen([sys.executable, "-c", VICTIM, client.scheduler.address])
    try:
        within(120, lambda: sum(client.run(kept_partitions).values()) == 2)
        assert any(client.processing().values())
    finally:
        killed.kill()
        killed.wait()
    within(30, lambda: holds_nothing(client))


def test_rows_that_load_too_late_are_dropped(client):
    """The fit ends while a worker still makes a partition: the worker does not keep it."""
    from dualgap.cluster import make_pool

    gate = distributed.Event("gate")

    def slow():
        distributed.Event("gate").wait()
        return X[:40], y[:40]

    pool = make_pool([dask.delayed(slow)()], client=client, partitions=1)
    within(30, lambda: any("dualgap fit" in key for keys in client.processing().values() for key in keys))
    pool.close()
    gate.set()
    within(30, lambda: holds_nothing(client))


def test_a_fit_is_work_to_the_scheduler(client, best):
    """Neither is the scheduler idle in the middle of a fit, nor may a cluster that scales take the workers away."""
    found = []

    def look(progress):
        if progress.epoch in (3, 4):  # the first look notes the transitions, the second would find an idle scheduler
            found.append(
                client.run_on_scheduler(lambda dask_scheduler: (dask_scheduler.check_idle(), dask_scheduler.workers_to_close()))
            )

    agrees(train(*as_delayed(), **SLOW, client=client, callbacks=[look]), best)
    assert found == [(None, [])] * 2


def test_a_cluster_without_workers_starts_one(best):
    with distributed.LocalCluster(n_workers=0, **IN_PROCESS) as cluster:
        cluster.adapt(minimum=0, maximum=1, interval="100ms")
        with distributed.Client(cluster) as client:
            agrees(train(*as_delayed(), **SLOW, client=client), best)


def test_a_worker_that_joins_takes_partitions_with_their_dual_variables(best, monkeypatch):
    from dualgap.cluster import dask_workers

    monkeypatch.setattr(dask_workers, "LOOK", 0.0)
    seen = []
    with distributed.LocalCluster(n_workers=1, **IN_PROCESS) as cluster, distributed.Client(cluster) as client:

        def join(progress):
            if progress.epoch == 5:
                cluster.scale(2)
                client.wait_for_workers(2, timeout=60)
            seen.append((sorted(client.run(kept_partitions).values()), float(progress.certificate.relative_gap)))

        result = train(*as_delayed(), **SLOW, client=client, tol=1e-5, callbacks=[join])
    agrees(result, best, 1e-5)
    assert not result.losses
    assert seen[3][0] == [4]
    assert seen[-1][0] == [2, 2]
    assert max(gap for _, gap in seen[5:]) < seen[0][1]


def test_a_retired_worker_is_noticed(best):
    with distributed.LocalCluster(n_workers=2, **IN_PROCESS) as cluster, distributed.Client(cluster) as client:

        def retire(progress):
            if progress.epoch == 3:
                client.retire_workers([min(client.nthreads())])

        result = train(*as_delayed(), **SLOW, client=client, callbacks=[retire])
    agrees(result, best)
    assert len(result.losses) == 2


def test_two_fits_share_a_cluster_and_say_so(client, best):
    from dualgap.cluster import make_pool

    with make_pool(*as_delayed(), client=client, partitions=2) as pool:
        rows = pool.call("describe")
        with pytest.warns(UserWarning, match="another fit keeps rows on the workers"):
            agrees(train(*as_delayed(), **OPTIONS, client=client), best)
        assert pool.call("describe") == rows


def test_a_fit_inside_a_task(client, best):
    """The task's own client is the current one, and its thread is free for the rows."""

    def fit():
        return train(*as_delayed(), **OPTIONS)

    agrees(client.submit(fit, pure=False).result(timeout=120), best)


def test_an_asynchronous_client_is_refused():
    with pytest.raises(ValueError, match=r"the Dask client is asynchronous.*asyncio.to_thread"):
        train(as_delayed()[0], l2=0.1, client=types.SimpleNamespace(asynchronous=True))


def test_the_dashboard_shows_round_and_gap(client, monkeypatch):
    from dualgap.cluster import dask_workers

    monkeypatch.setattr(dask_workers, "TITLE", 0.0)
    import dask.array

    names = set()

    def look(progress):
        names.update(key.rpartition("-")[0] for keys in client.processing().values() for key in keys)
        return len(names) > 2

    dualgap.dask.LinearSVC(loss="smooth_hinge", tol=1e-9, solver="cocoa", client=client, callbacks=[look], max_iter=5000).fit(
        dask.array.from_array(X.toarray(), chunks=(100, -1)), y
    )
    assert any(name.startswith("dualgap fit: fit, round ") and ", gap " in name for name in names)


def test_errors_name_the_row_of_the_data(client):
    import dask.array

    rows = X.toarray()
    rows[321, 7] = np.nan
    chunks = dask.array.from_array(rows, chunks=(100, -1))
    with pytest.raises(ValueError, match=r"partition 1 of the data: .*NaN at row 321, column 7"):
        train(chunks, y, **OPTIONS, client=client, partitions=2)
    weights = np.ones(400)
    weights[250] = -1.0
    with pytest.raises(ValueError, match=r"partition 1 of the data: sample_weight\[250\]"):
        train(
            dask.array.from_array(X.toarray(), chunks=(100, -1)), y, sample_weight=weights, **OPTIONS, client=client, partitions=2
        )
    unknown = chunks[dask.array.from_array(np.ones(400, dtype=bool), chunks=100)]
    with pytest.raises(ValueError, match=r"y is a ndarray beside an X with chunks of unknown size.*compute_chunk_sizes"):
        train(unknown, y, **OPTIONS, client=client)
    labels = dask.array.from_array(y, chunks=100)[dask.array.from_array(np.ones(400, dtype=bool), chunks=100)]
    with pytest.raises(ValueError, match=r"partition 1, with rows counted in it, parts 2 to 3 of the data: .*NaN at row 121"):
        train(unknown, labels, **OPTIONS, client=client, partitions=2)


# All that the package uses of distributed: names of the module, and attributes of a client, a future, a worker and a scheduler.
USED = {
    "Client": "address asynchronous compute gather log_event nthreads register_plugin run run_on_scheduler scheduler status submit",
    "Future": "cancel exception release status",
    "Worker": "address handlers plugins rpc state",
    "Scheduler": "workers",
    "": "Client Future Scheduler Worker WorkerPlugin get_client get_worker secede wait",
}


def test_no_private_name_of_distributed_is_used():
    """The list above has each symbol, all are public, and this release has them."""
    source = Path(inspect.getfile(dualgap)).parent
    names, attributes = set(), {"client": set(), "worker": set(), "dask_worker": set(), "dask_scheduler": set(), "future": set()}
    for path in [*(source / "cluster").glob("*.py"), source / "estimators" / "on_cluster.py", source / "app" / "training.py"]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "distributed":
                assert node.module == "distributed", f"{path}: import from distributed itself, not from {node.module}"
                names.update(each.name for each in node.names)
            if isinstance(node, ast.Attribute):
                owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
                attributes.get(owner, set()).add(node.attr)
    used = {kind: set(words.split()) for kind, words in USED.items()}
    assert names <= used[""]
    assert all(hasattr(distributed, name) for name in used[""])
    for owner, kind in (("client", "Client"), ("worker", "Worker"), ("dask_worker", "Worker"), ("dask_scheduler", "Scheduler")):
        assert attributes[owner] <= used[kind], owner
    assert not any(name.startswith("_") for words in used.values() for name in words)
    for kind in ("Client", "Future"):
        assert all(hasattr(getattr(distributed, kind), name) for name in used[kind] - {"address", "status", "scheduler"})
