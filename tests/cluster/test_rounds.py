"""Rounds in one process, without Dask: the same optimum as one solver on all rows, exact certificates, lost partitions, resuming."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import dualgap
from dualgap.cluster import CheckpointError, ClusterLost, InProcess, Partition, make_objective, run_rounds
from dualgap.cluster.checkpoint import Checkpoint
from dualgap.cluster.cocoa import Pace
from dualgap.cluster.objective import DataStatistics
from dualgap.cluster.partition import Answer, Curve, Request, Trial, lower_triangle, symmetric
from dualgap.cluster.rounds import chosen_solver
from dualgap.cluster.train import checkpoint_meta
from dualgap.cluster.worker_pool import bundle, merged
from reference.own_loss import CubicHinge

CASES = [
    {"loss": "hinge", "l2": 1e-2},
    {"loss": "smooth_hinge", "l2": 1e-2, "intercept": "free"},
    {"loss": "logistic", "l2": 1e-2, "l1": 3e-3, "intercept": "penalised"},
    {"loss": "squared_hinge", "l2": 1e-2, "l1": 3e-3, "intercept": "free"},
    {"loss": "logistic", "l2": 1e-2, "intercept": "free", "bounds": (0.0, 0.5)},
]


def sample(n=400, d=25, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d, 0.3, "csr", random_state=seed)
    y = np.where(X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) > 0.1, "yes", "no")
    return X, y


X, y = sample()


def make_pool(partitions=3, weights=None):
    pieces = [slice(k, None, partitions) for k in range(partitions)]
    return InProcess([Partition(X[s], y[s], None if weights is None else weights[s]) for s in pieces])


@pytest.fixture(scope="module", params=CASES, ids=lambda options: f"{options['loss']}-{options.get('intercept', 'none')}")
def case(request):
    """Options, and what is certain about the optimum."""
    options = request.param
    return options, dualgap.solve(dualgap.Problem(X, y, **options), "sdca", tol=1e-8, max_epochs=20_000).certificate


@pytest.mark.parametrize("solver", ["cocoa", "newton", "newton_cg"])
def test_same_optimum_as_one_process(case, solver):
    options, best = case
    pool = make_pool()
    objective, classes = make_objective(pool, **options)
    refused = "l2 penalty alone" if "l1" in options or "bounds" in options else "smooth losses alone"
    if solver != "cocoa" and (refused.startswith("l2") or (solver, options["loss"]) == ("newton_cg", "hinge")):
        with pytest.raises(ValueError, match=refused):
            run_rounds(pool, objective, classes, solver=solver)
        return
    result = run_rounds(pool, objective, classes, tol=1e-5, local_epochs=3, max_rounds=3000, solver=solver)
    assert result.status == "converged"
    assert best.dual - 1e-12 <= result.certificate.primal <= best.primal * (1 + 1e-5)
    assert result.certificate.dual <= best.primal + 1e-12


def test_certificate_is_that_of_the_whole_problem(case):
    """After a few rounds, far from the optimum: the sums of the parts are P and D of all rows for that model and those dual variables."""
    options, _ = case
    pool = make_pool()
    result = run_rounds(pool, *make_objective(pool, **options), tol=0.0, local_epochs=1, max_rounds=4, solver="cocoa")
    problem = dualgap.Problem(X, y, **options)
    beta = np.empty(len(y))
    for k, partition in enumerate(pool.partitions):
        beta[k::3] = partition.dual()
    if (
        problem.intercept == "free"
    ):  # partitions balance β by the heavier class; certify, which sees all rows, by the free variables
        part = problem.c * problem.y * beta
        up, down = part[part > 0].sum(), -part[part < 0].sum()
        beta[part * np.sign(up - down) > 0] *= min(up, down) / max(up, down)
    again = dualgap.certify(problem, result.coef, result.intercept, dual=beta)
    assert again.primal == pytest.approx(result.certificate.primal, rel=1e-12)
    assert again.dual == pytest.approx(result.certificate.dual, rel=1e-9)


def test_one_round_never_lowers_the_dual(case):
    """σ = K is safe: without momentum, adding all partitions' steps raises D."""
    options, _ = case
    pool = make_pool(4)
    objective, _ = make_objective(pool, **options)
    problem = dualgap.Problem(X, y, **{**options, "intercept": options.get("intercept", "none").replace("free", "none")})
    v = pool.configure(objective, lambda k: None).arrays["share"]
    bounds = []
    for number in range(1, 6):
        answers = pool.call("step", Request(number, 0.0, 2, number), v)
        psi = sum(answer.psi for answer in answers.values())
        v = sum(answer.share for answer in answers.values())
        conjugate = float(np.sum(problem.penalty.conjugate(objective.l2 * v[:25]))) + 0.5 * objective.l2 * float(
            np.sum(v[25:] ** 2)
        )
        bounds.append(psi - conjugate)
    assert all(np.diff(bounds) >= -1e-14)
    assert bounds[0] > 0


def test_shares_add_up_to_v_of_all_dual_variables():
    pool = make_pool()
    objective, _ = make_objective(pool, "smooth_hinge", l2=1e-2)
    v = pool.configure(objective, lambda k: None).arrays["share"]
    for number in range(1, 8):
        answers = pool.call("step", Request(number, 0.0, 2, number, 0.5), v)
        v = sum(answer.share for answer in answers.values())
    for partition, answer in zip(pool.partitions, answers.values(), strict=True):
        signs = np.where(partition.labels == "yes", 1.0, -1.0)
        expected = partition.X.T @ (partition.dual() * signs / len(y)) / 1e-2
        np.testing.assert_allclose(answer.share, expected, rtol=1e-12, atol=1e-14)


def test_the_same_round_asked_twice_is_done_once():
    pool = make_pool(2)
    objective, _ = make_objective(pool, l2=1e-2)
    v = pool.configure(objective, lambda k: None).arrays["share"]
    request = Request(1, 0.0, 3, 0)
    first, second = pool.call("step", request, v), pool.call("step", request, v)
    np.testing.assert_array_equal(first[0].share, second[0].share)


def test_weights(case):
    options, _ = case
    weights = np.random.default_rng(3).random(len(y)) + 0.1
    pool = make_pool(weights=weights)
    result = run_rounds(
        pool, *make_objective(pool, **options, class_weight={"yes": 3.0}), tol=1e-5, local_epochs=3, max_rounds=3000
    )
    problem = dualgap.Problem(X, y, **options, sample_weight=weights * np.where(y == "yes", 3.0, 1.0))
    assert problem.objective(result.coef, result.intercept) == pytest.approx(result.certificate.primal, rel=1e-12)
    best = dualgap.solve(problem, "sdca", tol=1e-7, max_epochs=20_000).certificate
    assert result.certificate.primal <= best.primal * (1 + 1e-5)


@pytest.mark.parametrize("saved", [False, True], ids=["from zero", "from a checkpoint"])
def test_a_lost_partition(tmp_path, saved):
    options = CASES[1]
    best = dualgap.solve(dualgap.Problem(X, y, **options), "sdca", tol=1e-8, max_epochs=20_000).certificate
    pool = make_pool()
    checkpoint = Checkpoint(tmp_path / "run" if saved else None, every=0.0)
    checkpoint.begin({})
    gaps = []

    def lose(progress):
        gaps.append(progress.record["relative_gap"])
        if progress.epoch == 6:
            pool.lose(1)

    result = run_rounds(
        pool,
        *make_objective(pool, **options),
        tol=1e-5,
        local_epochs=2,
        max_rounds=3000,
        callbacks=[lose],
        checkpoint=checkpoint,
        solver="cocoa",
    )
    assert result.status == "converged"
    assert result.losses == ["partition 1 was lost"]
    assert "went on after partition 1 was lost" in repr(result)
    assert best.dual - 1e-12 <= result.certificate.primal <= best.primal * (1 + 1e-5)
    assert result.certificate.dual <= best.primal + 1e-12
    if saved:
        assert max(gaps[7:]) < 2 * gaps[5]  # little was lost
    else:
        assert max(gaps[7:]) > 2 * gaps[5]


def test_a_partition_lost_while_the_certificate_is_made():
    """The attempt is given up; no certificate mixes dual variables from before with those from after."""
    pool = make_pool()
    real = pool.total
    calls = []

    def total(method, *args, only=None):
        if method == "prove" and not calls:
            calls.append(method)
            pool.lose(0)
        return real(method, *args, only=only)

    pool.total = total
    result = run_rounds(pool, *make_objective(pool, **CASES[1]), tol=1e-4, local_epochs=2, max_rounds=3000)
    assert result.status == "converged"
    assert len(result.losses) == 1
    problem = dualgap.Problem(X, y, **CASES[1])
    assert problem.objective(result.coef, result.intercept) == pytest.approx(result.certificate.primal, rel=1e-12)


def test_partitions_lost_in_every_attempt_to_certify():
    pool = make_pool()
    real = pool.total

    def total(method, *args, only=None):
        if method == "prove":
            pool.lose(0)
        return real(method, *args, only=only)

    pool.total = total
    with pytest.raises(ClusterLost, match=r"no certificate: a worker was lost in each of 5 attempts.*no checkpoint was asked for"):
        run_rounds(pool, *make_objective(pool, **CASES[0]), tol=1e-4, local_epochs=2, max_rounds=3)


def test_ctrl_c_in_the_middle_of_a_round():
    """Some partitions have stepped and some have not: the model and the certificate are still of one state."""
    pool = make_pool()
    real = pool.total

    def total(method, *args, only=None):
        if method == "step" and args[0].number == 4:
            real(method, *args, only=[0])
            raise KeyboardInterrupt
        return real(method, *args, only=only)

    pool.total = total
    result = run_rounds(pool, *make_objective(pool, **CASES[1]), tol=1e-9, local_epochs=2, solver="cocoa")
    assert (result.status, result.rounds) == ("interrupted", 4)
    problem = dualgap.Problem(X, y, **CASES[1])
    assert problem.objective(result.coef, result.intercept) == pytest.approx(result.certificate.primal, rel=1e-12)
    assert 0 < result.certificate.dual < result.certificate.primal


def test_callbacks_and_halt_end_a_run():
    pool = make_pool()
    made = make_objective(pool, **CASES[1])
    for answer in (True, np.True_):
        result = run_rounds(pool, *made, tol=1e-9, callbacks=[lambda p, answer=answer: answer if p.epoch == 2 else None])
        assert (result.status, result.rounds) == ("interrupted", 2)
    assert run_rounds(pool, *made, tol=1e-9, halt=lambda: True).rounds == 1


def test_resume(tmp_path):
    options = {**CASES[0], "l2": 1e-3}
    pool = make_pool()
    made = make_objective(pool, **options)
    first = Checkpoint(tmp_path / "run", every=0.0)
    first.begin({"rows": 400})
    stopped = run_rounds(
        pool, *made, tol=1e-4, local_epochs=1, callbacks=[lambda p: p.epoch == 15], checkpoint=first, solver="cocoa"
    )
    assert stopped.status == "interrupted"
    again = make_pool()
    second = Checkpoint(tmp_path / "run", every=1e9)
    second.resume({"rows": 400})
    result = run_rounds(again, *made, tol=1e-4, local_epochs=1, max_rounds=3000, checkpoint=second, solver="cocoa")
    assert result.status == "converged"
    assert result.trace["relative_gap"][0] <= 1.01 * stopped.certificate.relative_gap
    with pytest.raises(CheckpointError, match="of another problem: its rows is 400, not 300"):
        Checkpoint(tmp_path / "run", 1.0).resume({"rows": 300})
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        Checkpoint(tmp_path / "empty", 1.0).resume({})


def test_progress_and_bytes():
    pool = make_pool(2)
    seen = []
    result = run_rounds(
        pool, *make_objective(pool, l2=1e-2), tol=1e-3, local_epochs=2, callbacks=[lambda p: seen.append(p.record)], solver="cocoa"
    )
    vector = 25 * 8
    assert [r["epoch"] for r in seen] == list(range(1, len(seen) + 1))
    sent = np.diff([r["bytes_sent"] for r in seen])
    # to two partitions and back, in float32 where the gap is large, and once more in float64 where a certificate was computed
    assert set(sent / vector) <= {2.0, 4.0, 6.0, 8.0}
    assert 2.0 in set(sent / vector)
    assert result.certificate.relative_gap <= 1e-3


def test_pace_works_as_long_as_it_waits():
    pace = Pace("auto")
    for _ in range(10):
        pace.observe(round_seconds=1.0 + 0.125 * pace.epochs, working=0.125 * pace.epochs)
    assert pace.epochs == 8
    for _ in range(10):
        pace.observe(round_seconds=0.01 + pace.epochs, working=float(pace.epochs))
    assert pace.epochs == 1
    for fixed in (Pace(5), Pace(5, partitions=2)):
        fixed.observe(1.0, 0.001)
        assert fixed.epochs == 5
    several = Pace("auto", partitions=2)
    several.observe(1.0, 0.001)
    assert several.epochs == 1
    with pytest.raises(ValueError, match="local_epochs=0"):
        Pace(0)


def test_a_checkpoint_is_of_its_bounds():
    """NumPy shortens the text of long arrays: two that differ in the middle must not look alike."""
    low = np.zeros(25)
    low[12] = -1.0
    pool = make_pool()
    data = DataStatistics(pool.call("describe"))
    metas = [checkpoint_meta(data, *make_objective(pool, l2=0.1, bounds=(ends, None))) for ends in (np.zeros(25), low)]
    assert metas[0] != metas[1]
    assert "..." not in metas[0]["objective"]


def test_refusals():
    with pytest.raises(dualgap.NotSupported, match="l2 > 0"):
        make_objective(make_pool(), l2=0.0, l1=0.1)
    with pytest.raises(ValueError, match="25 and 26 features"):
        make_objective(InProcess([Partition(X, y), Partition(sparse.hstack([X, X[:, :1]], "csr"), y)]), l2=0.1)
    with pytest.raises(ValueError, match="one class only"):
        make_objective(InProcess([Partition(X[y == "no"], y[y == "no"])]), l2=0.1)
    with pytest.raises(ValueError, match="3 classes; give positive="):
        make_objective(InProcess([Partition(np.eye(3), [0, 1, 2])]), l2=0.1)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_newton_takes_few_rounds(loss, intercept):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(6000, 8)) * 10.0 ** rng.uniform(-1, 1, 8)
    labels = np.where(rows @ rng.normal(size=8) + 3.0 * rng.normal(size=6000) > 1.0, 1, 0)
    pool = InProcess([Partition(rows[k::4], labels[k::4]) for k in range(4)])
    result = run_rounds(pool, *make_objective(pool, loss, l2=1e-3, intercept=intercept), tol=1e-6, max_rounds=100)
    problem = dualgap.Problem(rows, labels, loss, l2=1e-3, intercept=intercept)
    best = dualgap.solve(problem, tol=1e-8, max_epochs=2000).certificate
    assert result.status == "converged"
    assert result.rounds <= 60  # CoCoA+ takes several hundred
    assert best.dual <= result.certificate.primal * (1 + 1e-12)
    assert result.certificate.primal <= best.primal * (1 + 1e-6)


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_newton_takes_a_loss_whose_curvature_has_no_bound(intercept):
    pool, options = make_pool(), {"loss": CubicHinge(), "l2": 1e-2, "intercept": intercept}
    result = run_rounds(pool, *make_objective(pool, **options), tol=1e-6, solver="newton")
    best = dualgap.solve(dualgap.Problem(X, y, **options), "newton", tol=1e-9).certificate
    assert result.status == "converged"
    assert best.dual <= result.certificate.primal <= best.primal * (1 + 1e-6)


@pytest.mark.parametrize("loss", ["smooth_hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_conjugate_gradients_take_the_same_rounds_on_any_partitions(loss, intercept):
    rng = np.random.default_rng(2)
    rows = sparse.random(600, 900, 0.02, "csr", random_state=2)
    labels = np.where(rows @ rng.normal(size=900) + 0.1 * rng.normal(size=600) > 0.0, 1, 0)
    options = {"l2": 1e-3, "intercept": intercept}
    taken = []
    for count in (1, 7):
        pool = InProcess([Partition(rows[k::count], labels[k::count]) for k in range(count)])
        result = run_rounds(pool, *make_objective(pool, loss, **options), tol=1e-6, max_rounds=500, solver="newton_cg")
        assert result.status == "converged"
        taken.append(result.rounds)
    assert max(taken) <= 1.5 * min(taken) + 10  # rounding makes a difference; CoCoA+ takes several times the rounds of one
    best = dualgap.solve(dualgap.Problem(rows, labels, loss, **options), tol=1e-8, max_epochs=2000).certificate
    assert best.dual <= result.certificate.primal * (1 + 1e-12)
    assert result.certificate.primal <= best.primal * (1 + 1e-6)


def test_a_product_is_that_of_the_matrix():
    """The sums of `product` and the diagonal, against the matrix that Newton's method for few features adds up."""
    pool = make_pool()
    objective, _ = make_objective(pool, **CASES[1])
    pool.configure(objective, lambda k: None)
    z = np.random.default_rng(5).normal(size=26)
    matrix = symmetric(pool.total("curve", Trial(1, 0.0), z).arrays["matrix"], 26)
    found = pool.total("curve", Trial(2, 0.0, diagonal=True), z)
    np.testing.assert_allclose(found.arrays["matrix"], np.diag(matrix), rtol=1e-12)
    vector = np.random.default_rng(6).normal(size=26)
    np.testing.assert_allclose(pool.total("product", vector).arrays["product"], matrix @ vector, rtol=1e-10, atol=1e-14)


def test_auto_counts_features_partitions_and_digits():
    few, _ = make_objective(make_pool(), **CASES[1])
    many = replace(few, features=100_000)
    assert chosen_solver("auto", few, 1e-3) == "newton"
    assert chosen_solver("auto", many, 1e-3) == "cocoa"
    assert chosen_solver("auto", replace(many, partitions=256), 1e-3) == "newton_cg"
    assert chosen_solver("auto", replace(many, partitions=64), 1e-6) == "newton_cg"
    assert chosen_solver("auto", replace(many, partitions=256), 0.0) == "newton_cg"
    hinge, _ = make_objective(make_pool(), **CASES[0])
    assert chosen_solver("auto", replace(hinge, features=100_000, partitions=256), 1e-6) == "cocoa"


@pytest.mark.parametrize("place", [2, 4, 6])
def test_conjugate_gradients_go_on_after_a_lost_partition(place):
    """A partition takes its part of the matrix with it: the system under way is given up."""
    pool = make_pool()

    def lose(progress):
        if progress.epoch == place and not pool.losses:
            pool.lose(1)

    result = run_rounds(pool, *make_objective(pool, **CASES[1]), tol=1e-6, callbacks=[lose], solver="newton_cg")
    best = dualgap.solve(dualgap.Problem(X, y, **CASES[1]), "sdca", tol=1e-8, max_epochs=20_000).certificate
    assert result.status == "converged"
    assert len(result.losses) == 1
    assert best.dual - 1e-12 <= result.certificate.primal <= best.primal * (1 + 1e-6)


def test_newton_goes_on_after_a_lost_partition():
    pool = make_pool()
    objective, classes = make_objective(pool, **CASES[0])
    lost = []

    def lose(progress):
        if progress.epoch in (2, 5) and progress.epoch not in lost:
            lost.append(progress.epoch)
            pool.lose(1)

    result = run_rounds(pool, objective, classes, tol=1e-5, callbacks=[lose], solver="newton")
    best = dualgap.solve(dualgap.Problem(X, y, **CASES[0]), "sdca", tol=1e-8, max_epochs=20_000).certificate
    assert result.status == "converged"
    assert len(result.losses) == 2
    assert best.dual - 1e-12 <= result.certificate.primal <= best.primal * (1 + 1e-5)
    assert result.certificate.dual <= best.primal + 1e-12


def test_a_partition_without_rows_takes_part():
    pool = InProcess([Partition(X[:200], y[:200]), Partition(X[200:], y[200:]), Partition(X[:0], y[:0])])
    for solver in ("newton", "cocoa"):
        result = run_rounds(pool, *make_objective(pool, **CASES[1]), tol=1e-4, local_epochs=2, max_rounds=3000, solver=solver)
        assert result.status == "converged"


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_resume_on_another_number_of_partitions(tmp_path, partitions):
    """β is saved by partitions of consecutive rows; it is cut anew, row for row."""
    meta = {"features": 25}
    pool = InProcess([Partition(X[k : k + 134], y[k : k + 134]) for k in (0, 134, 268)])
    checkpoint = Checkpoint(tmp_path, every=0.0)
    checkpoint.begin({**meta, "rows": [134, 134, 132]})
    made = make_objective(pool, **CASES[1])
    run_rounds(pool, *made, tol=1e-9, local_epochs=2, max_rounds=6, checkpoint=checkpoint, solver="cocoa")
    beta = np.concatenate([partition.dual() for partition in pool.partitions])
    pieces = np.array_split(np.arange(400), partitions)
    again = Checkpoint(tmp_path, every=0.0)
    again.resume({**meta, "rows": [len(piece) for piece in pieces]})
    found = [np.load(again.restored(k)) for k in range(partitions)]
    np.testing.assert_array_equal(np.concatenate(found), beta)
    assert [len(part) for part in found] == [len(piece) for piece in pieces]
    assert again.restored(partitions) is None
    with pytest.raises(CheckpointError, match="its rows is"):
        Checkpoint(tmp_path, every=0.0).resume({**meta, "rows": [399]})


def test_a_source_that_gives_other_rows_is_refused():
    partition = Partition(X[:100], y[:100])
    expected = partition.describe().digest
    objective, _ = make_objective(make_pool(), **CASES[0])
    Partition(X[:100], y[:100]).configure(objective, None, 0, expected)
    changed = X[:100].copy()
    changed.data[7] += 1e-9
    with pytest.raises(ValueError, match=r"partition 3 was read again.*same rows every time"):
        Partition(changed, y[:100]).configure(objective, None, 3, expected)


@pytest.mark.parametrize("count", [1, 2, 9, 70])
def test_a_tree_adds_up_what_one_place_would(count):
    """Bundles of bundles have the numbers of all and the sums of all arrays, whatever the shape of the tree."""
    rng = np.random.default_rng(0)
    answers = [Answer(rng.normal(size=5), float(k), 1.0, 2.0) for k in range(count)]
    level = [bundle(k, answer) for k, answer in enumerate(answers)]
    while len(level) > 1:
        level = [merged(level[first : first + 8]) for first in range(0, len(level), 8)]
    np.testing.assert_allclose(level[0].arrays["share"], sum(answer.share for answer in answers), rtol=1e-13)
    assert [level[0].parts[k].psi for k in range(count)] == [answer.psi for answer in answers]
    anew = merged([bundle(0, answers[0]), bundle(1, Curve(None, 0.0, *[np.ones(5)] * 3, 0.0, 0.0))])
    assert anew.arrays is None


def test_a_round_in_float32_starts_all_from_the_same_v():
    """Shares sent in float32 add up to a v of float32 precision; the certificate is that of float64 sums."""
    pool = make_pool(4)
    result = run_rounds(pool, *make_objective(pool, **CASES[0]), tol=1e-6, local_epochs=2, max_rounds=3000, solver="cocoa")
    best = dualgap.solve(dualgap.Problem(X, y, **CASES[0]), "sdca", tol=1e-8, max_epochs=20_000).certificate
    assert result.status == "converged"
    assert result.certificate.dual <= best.primal + 1e-12
    assert best.dual <= result.certificate.primal + 1e-12
    problem = dualgap.Problem(X, y, **CASES[0])
    assert problem.objective(result.coef, result.intercept) == pytest.approx(result.certificate.primal, rel=1e-12)


def test_lower_triangles_keep_symmetric_matrices():
    matrix = np.random.default_rng(0).normal(size=(7, 7))
    matrix += matrix.T
    np.testing.assert_array_equal(symmetric(lower_triangle(matrix), 7), matrix)
