"""On a real cluster of two processes: every kind of input, a worker killed in the middle, a cluster that is gone."""

import os
import pickle
import signal

import numpy as np
import pytest
from sklearn.base import clone

import dualgap
from cluster_cases import OPTIONS, X, agrees, as_delayed, holds_nothing, kept_partitions, within, y
from dualgap.cluster import ClusterLost, train
from dualgap.dask import LinearSVC
from dualgap.store import write_store

pytest.importorskip("distributed", reason="dask.distributed is not installed: pip install 'dualgap[dask]'")
dask = pytest.importorskip("dask", reason="dask is not installed: pip install 'dualgap[dask]'")


def as_array():
    import dask.array

    return dask.array.from_array(X.toarray(), chunks=(60, 10)), y


def as_frame():
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    table = pandas.DataFrame(X.toarray(), columns=[f"x{j}" for j in range(25)]).assign(label=y)
    frame = frames.from_pandas(table, npartitions=5)
    return frame.drop(columns=["label"]), frame["label"]


@pytest.mark.parametrize("make", [as_array, as_frame, as_delayed], ids=["array", "data frame", "delayed CSR"])
def test_inputs(client, best, make):
    result = train(*make(), **OPTIONS, local_epochs=2)
    agrees(result, best)
    assert result.partitions == 2
    assert not result.losses


def test_store_on_shared_disk(client, best, tmp_path):
    store = write_store([(X[k::5], y[k::5]) for k in range(5)], tmp_path / "store", block_bytes=2000)
    result = train(store, **OPTIONS, local_epochs="auto", client=client)
    agrees(result, best)
    assert (result.predict(X) == dualgap.solve(dualgap.Problem(X, y, **OPTIONS), "sdca").predict(X)).mean() > 0.99


def test_fixed_epochs_give_the_same_model_every_time(client):
    runs = [train(*as_delayed(), **OPTIONS, local_epochs=2, seed=5) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].coef, runs[1].coef)


def test_linear_svc(client):
    model = LinearSVC(loss="smooth_hinge", C=0.1, class_weight="balanced", tol=1e-3, random_state=0).fit(*as_array())
    alone = dualgap.LinearSVC(loss="smooth_hinge", C=0.1, class_weight="balanced", tol=1e-6, random_state=0, solver="sdca").fit(
        X, y
    )
    assert model.status_ == "converged"
    assert model.objective_ == pytest.approx(alone.objective_, rel=1e-3)
    assert model.dual_gap_ >= model.objective_ - alone.objective_ - 1e-9
    assert (model.predict(X) == alone.predict(X)).mean() > 0.98
    with pytest.raises(ValueError, match="solver='sdca' on a cluster"):
        LinearSVC(solver="sdca").fit(*as_array())
    local = model.to_local()
    assert type(local) is dualgap.LinearSVC
    np.testing.assert_array_equal(local.predict(X), model.predict(X))
    assert clone(model).get_params() == model.get_params()
    assert pickle.loads(pickle.dumps(model.set_params(client=client))).client is None


def test_linear_svc_of_three_classes(client):
    labels = y + (np.arange(400) % 7 == 0)
    import dask.array

    rows = dask.array.from_array(X.toarray(), chunks=(100, -1))
    model = LinearSVC(loss="smooth_hinge", C=0.02, tol=1e-2, random_state=0).fit(rows, labels)
    alone = dualgap.LinearSVC(loss="smooth_hinge", C=0.02, tol=1e-6, random_state=0, solver="sdca").fit(X, labels)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.objective_ == pytest.approx(alone.objective_, rel=1e-2)


def test_errors_of_a_worker_reach_the_user(client):
    parts = [dask.delayed(lambda: (np.array([[1.0, np.nan]]), np.array([1])))()]
    with pytest.raises(ValueError, match="NaN at row 0, column 1"):
        train(parts, l2=0.1)
    with pytest.raises(ValueError, match="it gave 1 things"):
        train([dask.delayed(lambda: (np.eye(2),))()], l2=0.1)
    with pytest.raises(ValueError, match="leave y and sample_weight out"):
        train(as_delayed()[0], y, l2=0.1)


@pytest.mark.parametrize(
    ("saved", "solver"),
    [(False, "cocoa"), (True, "cocoa"), (False, "newton")],
    ids=["without checkpoint", "with checkpoint", "newton"],
)
def test_a_worker_killed_in_the_middle(client, best, tmp_path, saved, solver):
    killed = []

    def kill(progress):
        if progress.epoch == 3 and not killed:
            killed.extend(client.run(os.getpid).values())
            os.kill(killed[0], signal.SIGKILL)

    where = {"checkpoint": tmp_path / "run", "checkpoint_seconds": 0.0} if saved else {}
    result = train(*as_delayed(), **OPTIONS, tol=1e-5, local_epochs=1, max_rounds=3000, callbacks=[kill], solver=solver, **where)
    assert killed
    agrees(result, best, 1e-5)
    assert len(result.losses) == 1
    assert ("its last checkpoint" if saved else "zero") in result.losses[0]
    problem = dualgap.Problem(X, y, **OPTIONS)
    assert problem.objective(result.coef, result.intercept) == pytest.approx(result.certificate.primal, rel=1e-12)


def test_no_worker_left(tmp_path, best):
    """All workers gone: an error that names the checkpoint, from which another run goes on."""
    from distributed import Client

    folder = tmp_path / "run"
    options = {**OPTIONS, "tol": 1e-5, "local_epochs": 1, "max_rounds": 3000, "checkpoint": folder, "checkpoint_seconds": 0.0}
    options["solver"] = "cocoa"
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50) as client:

        def stop(progress):
            if progress.epoch == 5:
                client.sync(client.cluster.workers[0].close)

        with pytest.raises(ClusterLost, match=r"no worker is left.*the last checkpoint is of round \d+.*resume=True"):
            train(as_delayed()[0], callbacks=[stop], patience=0.5, client=client, partitions=2, **options)
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50) as client:
        result = train(as_delayed()[0], resume=True, client=client, partitions=3, **options)  # another number than before
    agrees(result, best, 1e-5)
    assert result.trace["relative_gap"][0] < 0.5


def test_scheduler_lost():
    from distributed import Client

    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0", "silence_logs": 50}
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), Client(**options) as client:

        def stop(progress):
            if progress.epoch == 3:
                client.sync(client.cluster.scheduler.close)

        with pytest.raises(ClusterLost, match=r"the scheduler at .* is gone.*no checkpoint was asked for"):
            train(as_delayed()[0], **OPTIONS, tol=1e-9, local_epochs=1, callbacks=[stop], client=client)


def test_no_client():
    with pytest.raises(ValueError, match=r"no Dask client is active: make one with distributed.Client"):
        train(as_delayed()[0], l2=0.1)


def test_command_line(client, tmp_path, capsys):
    pytest.importorskip("typer", reason="the command line needs the extra 'lab'")
    pytest.importorskip("skops", reason="model files need the extra 'lab'")
    from dualgap.app.cli import main

    write_store([(X[k::5], y[k::5]) for k in range(5)], tmp_path / "store", block_bytes=2000)
    options = ["--l2", "0.01", "--loss", "smooth_hinge", "--tol", "1e-3", "--scheduler", client.scheduler.address]
    options += ["--partitions", "3", "--checkpoint", str(tmp_path / "run")]
    assert main(["fit", str(tmp_path / "store"), "--model", str(tmp_path / "model.skops"), *options]) == 0
    out = capsys.readouterr().out
    assert "converged after" in out
    assert "rounds" in out
    assert len(list((tmp_path / "run").glob("beta-*.npy"))) == 3
    assert main(["fit", str(tmp_path / "store"), "--model", str(tmp_path / "model.skops"), "--partitions", "3"]) == 1
    assert "--partitions goes with --scheduler" in capsys.readouterr().err


def test_dask_has_nothing_of_the_partitions(client):
    """Dask spills, copies and recomputes values of its own: the rows and dual variables stay with the workers' keepers until the end."""
    from dualgap.cluster import make_pool

    with make_pool(*as_delayed(), client=client, partitions=2) as pool:
        pool.call("describe")
        assert not pool._loading
        assert sum(client.run(kept_partitions).values()) == 2
    within(30, lambda: holds_nothing(client))


def test_a_worker_that_starts_again_is_given_its_rows_again(client, best):
    """The process forgets its partitions, as one that restarts at the same address has: they are loaded and configured anew."""
    forgotten = []

    def forget(progress):
        if progress.epoch == 2 and not forgotten:
            forgotten.append(client.run(kept_partitions, forget=True))

    result = train(*as_delayed(), **OPTIONS, tol=1e-5, callbacks=[forget], solver="newton")
    agrees(result, best, 1e-5)
    assert len(result.losses) == 2


@pytest.mark.parametrize("classes", [2, 3])
def test_predictions_on_dask_data_are_lazy(client, classes):
    import dask.array

    labels = np.array(["a", "b", "c"])[(y + (np.arange(400) % 7 == 0)) % classes]
    rows = dask.array.from_array(X.toarray(), chunks=(60, 10))
    model = LinearSVC(C=0.1, random_state=0).fit(rows, labels)
    predicted, scores = model.predict(rows), model.decision_function(rows)
    assert isinstance(predicted, dask.array.Array)
    assert isinstance(scores, dask.array.Array)
    np.testing.assert_array_equal(predicted.compute(), model.predict(X.toarray()))
    np.testing.assert_allclose(scores.compute(), model.decision_function(X.toarray()), rtol=1e-12, atol=1e-12)
    right = dask.array.from_array(labels, chunks=60)
    assert model.score(rows, right) == pytest.approx(model.score(X.toarray(), labels))
    weights = np.arange(400.0)
    weighted = model.score(rows, right, dask.array.from_array(weights, chunks=60))
    assert weighted == pytest.approx(model.score(X.toarray(), labels, weights))
    with pytest.raises(ValueError, match="X has 3 features"):
        model.predict(rows[:, :3])


def test_predictions_on_frames_are_lazy(client):
    frame, target = as_frame()
    model = LinearSVC(C=0.1, random_state=0).fit(frame, target)
    np.testing.assert_array_equal(model.predict(frame).compute(), model.predict(X.toarray()))


@pytest.mark.parametrize(
    "name", ["LinearSVC", "LinearSVR", "SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM", "LinearSVCPath", "SVCPath"]
)
def test_the_plain_classes_do_not_draw_dask_rows_into_this_process(name):
    """Each says what to use, and computes nothing."""
    import dask.array

    rows = dask.array.map_blocks(
        lambda: pytest.fail("the rows were computed"), chunks=((20,), (3,)), dtype=float, meta=np.empty((0, 0))
    )
    model = getattr(dualgap, name)()
    with pytest.raises(TypeError, match=rf"{name} works on rows in this process.*dualgap\.dask"):
        model.fit(rows, np.arange(20) % 2)
    if not name.endswith("Path"):
        model.fit(X[:40].toarray(), y[:40])
        with pytest.raises(TypeError, match=r"works on rows in this process.*dualgap\.dask"):
            model.predict(dask.array.from_array(X[:40].toarray(), chunks=(20, -1)))


def test_the_classes_of_a_cluster_take_no_rows_in_memory():
    with pytest.raises(TypeError, match=r"X is a ndarray: use dualgap\.LinearSVC"):
        LinearSVC().fit(X.toarray(), y)


def test_a_fit_goes_on_from_its_checkpoint(client, tmp_path):
    """What the first fit reached in a few rounds is where the second one begins, on another number of partitions."""
    options = {"loss": "smooth_hinge", "C": 0.1, "tol": 1e-9, "random_state": 0, "solver": "cocoa", "checkpoint": tmp_path / "run"}
    with pytest.warns(dualgap.ConvergenceWarning):
        first = LinearSVC(**options, max_iter=8).fit(*as_array())
    with pytest.warns(dualgap.ConvergenceWarning):
        second = LinearSVC(**options, max_iter=1, partitions=3).fit(*as_array())
    assert second.history_["relative_gap"][0] <= 1.01 * first.certificate_.relative_gap
    with pytest.raises(dualgap.cluster.CheckpointError, match=r"another problem.*give another folder"):
        LinearSVC(**{**options, "C": 0.2}).fit(*as_array())


def test_three_classes_have_a_checkpoint_each(client, tmp_path):
    import dask.array

    labels = y + (np.arange(400) % 7 == 0)
    rows = dask.array.from_array(X.toarray(), chunks=(100, -1))
    LinearSVC(loss="smooth_hinge", C=0.02, tol=1e-2, random_state=0, checkpoint=tmp_path / "run").fit(rows, labels)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["class-000", "class-001", "class-002"]


def test_progress_is_on_the_scheduler(client):
    model = LinearSVC(loss="smooth_hinge", C=0.1, tol=1e-3, random_state=0, solver="cocoa").fit(*as_array())
    events = [event for _, event in client.get_events("dualgap")]
    assert {"name", "round", "relative_gap", "tol", "lost"} <= set(events[-1])
    assert 1 <= events[-1]["round"] <= model.n_iter_


def test_frames_with_categories(client):
    """Columns of words, categories and dates are prepared on the workers as a table's are; predictions take frames again."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("polars")
    frames = pytest.importorskip("dask.dataframe")
    from dualgap.data import Preparation

    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "green", "blue"], 400)
    table = pandas.DataFrame(
        {"size": rng.normal(5.0, 20.0, 400), "colour": colour, "grade": pandas.Categorical(rng.choice(["a", "b"], 400))}
    )
    table.loc[3, "size"] = np.nan
    labels = pandas.Series(np.where((colour == "red") ^ (rng.random(400) < 0.1), "yes", "no"))
    rows, target = frames.from_pandas(table, npartitions=5), frames.from_pandas(labels, npartitions=5)
    model = LinearSVC(loss="smooth_hinge", C=0.1, tol=1e-4, random_state=0).fit(rows, target)
    import polars

    expected = Preparation("").fit(polars.from_pandas(table), labels.to_numpy())
    assert model.preparation_.feature_names == expected.feature_names
    features = expected.transform(polars.from_pandas(table))
    alone = dualgap.LinearSVC(loss="smooth_hinge", C=0.1, tol=1e-6, random_state=0).fit(features, labels.to_numpy())
    assert model.objective_ == pytest.approx(alone.objective_, rel=1e-3)
    assert model.score(rows, target) == pytest.approx((alone.predict(features) == labels.to_numpy()).mean(), abs=0.01)
    np.testing.assert_array_equal(model.predict(rows).compute(), model.predict(table))


def test_many_partitions_are_added_along_a_tree(client, best):
    """Twelve partitions on two workers, more than one place adds up; a process that forgets its partitions spoils one sum alone."""
    parts = [dask.delayed(lambda k: (X[k::12], y[k::12]))(k) for k in range(12)]
    forgotten = []

    def forget(progress):
        if progress.epoch == 4 and not forgotten:
            forgotten.append(client.run(kept_partitions, forget=True))

    result = train(parts, **OPTIONS, tol=1e-4, callbacks=[forget], solver="cocoa", partitions=12, local_epochs=2, max_rounds=3000)
    agrees(result, best)
    assert result.partitions == 12
    assert len(result.losses) == 12


def test_messages_go_along_a_tree_of_workers(monkeypatch, best):
    """Seven workers, of which no place sends to more than two: those pass the message on, and add up what comes back."""
    from distributed import Client

    from dualgap.cluster import dask_workers

    monkeypatch.setattr(dask_workers, "FAN_IN", 2)
    with Client(n_workers=7, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50) as client:
        parts = [dask.delayed(lambda k: (X[k::9], y[k::9]))(k) for k in range(9)]
        result = train(parts, **OPTIONS, client=client, partitions=9, local_epochs=2, max_rounds=3000, solver="cocoa")
    agrees(result, best)
    assert result.partitions == 9
    assert not result.losses


@pytest.mark.parametrize("workers", [1, 8, 9, 70])
def test_every_worker_is_in_the_tree_once(workers):
    from dualgap.cluster.dask_workers import FAN_IN, _addresses, _tree
    from dualgap.cluster.keeper import Branch

    def widest(branches):
        return max([len(branches), *(widest(branch.below) for branch in branches)], default=0)

    tree = _tree([Branch(str(k), {}) for k in range(workers)])
    assert sorted(int(address) for branch in tree for address in _addresses(branch)) == list(range(workers))
    assert widest(tree) <= FAN_IN


def test_three_classes_in_data_frames(client):
    """Fit, predict and score on frames: one class against the rest, over the same partitions."""
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    labels = np.array(["a", "b", "c"])[y + (np.arange(400) % 7 == 0)]
    table = pandas.DataFrame(X.toarray(), columns=[f"x{j}" for j in range(25)])
    rows = frames.from_pandas(table, npartitions=5)
    target = frames.from_pandas(pandas.Series(labels), npartitions=5)
    model = LinearSVC(loss="smooth_hinge", C=0.02, tol=1e-4, random_state=0).fit(rows, target)
    alone = dualgap.LinearSVC(loss="smooth_hinge", C=0.02, tol=1e-6, random_state=0).fit(X.toarray(), labels)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.objective_ == pytest.approx(alone.objective_, rel=1e-3)
    np.testing.assert_array_equal(model.predict(rows).compute(), model.predict(table.to_numpy()))
    assert model.score(rows, target) == pytest.approx(model.score(table.to_numpy(), labels))
