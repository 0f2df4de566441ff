"""Kernel machines: the solvers of linear problems on Gram rows, whole or in blocks, and kernels that are none."""

import pickle

import numpy as np
import pytest
from scipy import sparse

import dualgap
from conftest import make_data
from dualgap.kernels import rounding_of
from dualgap.kernels.gram_cache import BlockedGram, as_bytes, split_order

SOLVERS = ["pegasos", "sdca", "dual_gradient", "dual_coordinate"]


def parabola(n, seed):
    """Points of the plane, split by y = x² − 1, two in a hundred on the wrong side."""
    rng = np.random.default_rng(seed)
    X = rng.uniform([-2.0, -1.5], [2.0, 3.5], size=(n, 2))
    y = (X[:, 1] > X[:, 0] ** 2 - 1) ^ (rng.random(n) < 0.02)
    return X, y.astype(int)


def test_rbf_pegasos_learns_a_parabola_and_the_linear_kernel_does_not():
    X, y = parabola(600, 0)
    held_out = parabola(2000, 1)
    errors = {}
    for kernel in ("rbf", "linear"):
        problem = dualgap.Problem(X, y, l2=1e-3, kernel=kernel, gamma=1.0, intercept="penalised")
        result = dualgap.solve(problem, dualgap.Pegasos(), tol=0, max_epochs=100, watch=held_out)
        errors[kernel] = np.mean(result.predict(held_out[0]) != held_out[1])
        best = np.argmin(result.trace["primal"])  # the model that is handed out
        assert result.trace["test_error"][best] == errors[kernel]
    print(errors)
    assert errors["rbf"] <= 0.06
    assert errors["linear"] > 0.20


@pytest.mark.parametrize("solver", SOLVERS)
def test_linear_kernel_gives_the_linear_model(small, solver):
    """Same seed, same steps: w = Σ aᵢxᵢ to 1e-9."""
    X, y = small
    options = {"l2": 0.05, "intercept": "penalised", "intercept_scale": 0.8}
    plain, kernel = (
        dualgap.solve(dualgap.Problem(X, y, kernel=k, **options), solver, tol=0, max_epochs=30) for k in (None, "linear")
    )
    assert kernel.coef.shape == (60,)
    np.testing.assert_allclose(X.T @ kernel.coef, plain.coef, atol=1e-9)
    assert kernel.intercept == pytest.approx(plain.intercept, abs=1e-9)
    assert kernel.certificate.gap == pytest.approx(plain.certificate.gap, abs=1e-9)
    np.testing.assert_allclose(kernel.decision(X[:7] + 0.1), plain.decision(X[:7] + 0.1), atol=1e-9)


def rbf_by_hand(A, B):
    return np.exp(-0.4 * ((A[:, None] - B[None]) ** 2).sum(axis=2))


def test_every_way_of_giving_a_kernel_is_the_same_problem(small):
    X, y = small
    K = rbf_by_hand(X, X)
    problems = {
        "name": dualgap.Problem(X, y, l2=0.05, kernel="rbf", gamma=0.4),
        "sparse": dualgap.Problem(sparse.csr_array(X), y, l2=0.05, kernel="rbf", gamma=0.4),
        "callable": dualgap.Problem(X, y, l2=0.05, kernel=rbf_by_hand),
        "precomputed": dualgap.Problem(K, y, l2=0.05, kernel="precomputed"),
        "blocks": dualgap.Problem(X, y, l2=0.05, kernel="rbf", gamma=0.4, kernel_memory=8 * 60 * 20),
    }
    new = X[:9] + 0.2
    results = {name: dualgap.solve(problem, "dual_gradient", tol=1e-6, max_epochs=500) for name, problem in problems.items()}
    for name, result in results.items():
        given = rbf_by_hand(new, X) if name == "precomputed" else new
        np.testing.assert_allclose(result.decision(given), results["name"].decision(new), atol=1e-8, err_msg=name)
        assert result.certificate.primal == pytest.approx(results["name"].certificate.primal, abs=1e-10)


@pytest.mark.parametrize("name", ["poly", "linear"])
def test_poly_and_linear_kernels_train(small, name):
    X, y = small
    problem = dualgap.Problem(X, y, l2=0.1, kernel=name, degree=2, coef0=1.0, gamma=0.5, intercept="free")
    assert dualgap.solve(problem, "sdca", tol=1e-5, max_epochs=2000).status == "converged"


# -------------------------------------------------------------------------------------------------------------------- blocks


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_blocks_reach_the_same_optimum(small, solver, intercept):
    X, y = small
    whole = dualgap.Problem(X, y, l2=0.05, kernel="rbf", gamma=0.4, intercept=intercept)
    blocked = dualgap.Problem(X, y, l2=0.05, kernel="rbf", gamma=0.4, intercept=intercept, kernel_memory=8 * 60 * 4 * 7)
    if not dualgap.solvers.get_solver(solver).supports(whole):
        with pytest.raises(dualgap.NotSupported):
            dualgap.solve(blocked, solver)
        return
    assert blocked.blocked
    tol = 1e-2 if solver == "pegasos" else 1e-6
    results = [dualgap.solve(problem, solver, tol=tol, max_epochs=2000) for problem in (whole, blocked)]
    assert [result.status for result in results] == ["converged", "converged"]
    assert results[0].certificate.primal == pytest.approx(results[1].certificate.primal, rel=tol)
    # The blocked run's model, judged on the whole matrix.
    again = dualgap.certify(whole, results[1].coef, results[1].intercept, results[1].dual)
    assert again.primal == pytest.approx(results[1].certificate.primal, rel=1e-12)
    assert again.dual == pytest.approx(results[1].certificate.dual, rel=1e-12)


def test_blocked_epoch_is_a_permutation_by_blocks(small):
    X, y = small
    problem = dualgap.Problem(X, y, l2=0.05, kernel="rbf", kernel_memory=8 * 60 * 4 * 7)
    order = np.random.default_rng(0).permutation(60).astype(np.uint32)
    pieces = split_order(problem.rows, order)
    assert len(pieces) == 9
    assert sorted(np.concatenate(pieces)) == list(range(60))
    for piece in pieces:
        assert len(set(piece // 7)) == 1
        places = [list(order).index(i) for i in piece]
        assert places == sorted(places)
    first_seen = [int(i) // 7 for i in order]
    assert [int(p[0]) // 7 for p in pieces] == sorted(set(first_seen), key=first_seen.index)
    assert split_order(problem.rows, order[:0]) == []


def test_cache_keeps_within_its_memory_and_drops_the_least_recent():
    X = np.random.default_rng(0).normal(size=(40, 2))
    asked = []

    def kernel(A, B):
        asked.append(len(A))
        return A @ B.T

    rows = BlockedGram(kernel, X, (X**2).sum(axis=1), memory=8 * 40 * 4 * 5 + 17)
    assert rows.height == 5
    for number in (0, 1, 2, 3, 0, 4, 0, 1):
        np.testing.assert_array_equal(rows.block(number).k, X[5 * number : 5 * number + 5] @ X.T)
        assert sum(block.k.nbytes for block in rows._kept.values()) <= rows.memory
    assert rows.computed == len(asked) == 6  # 4 came in place of 1, the least recently used; then 1 again
    np.testing.assert_allclose(rows.combine(np.arange(40.0)), X @ (X.T @ np.arange(40.0)), atol=1e-10)
    a = np.zeros(40)
    a[3] = 1.0
    before = len(asked)
    rows.combine(a)
    assert len(asked) <= before + 1  # one row needs one block


def test_blocked_problem_survives_pickling(small):
    X, y = small
    problem = dualgap.Problem(X, y, l2=0.05, kernel="rbf", kernel_memory="14 kB")
    again = pickle.loads(pickle.dumps(problem))
    np.testing.assert_array_equal(problem.combine(np.ones(60)), again.combine(np.ones(60)))


def test_memory_is_read_and_checked(small):
    X, y = small
    assert as_bytes("1.5 MB") == 1_500_000
    assert (as_bytes("2 GB"), as_bytes("500MB"), as_bytes(1e6), as_bytes("12")) == (2 * 10**9, 5 * 10**8, 10**6, 12)
    for bad in ("much", -1, 0, True, float("nan")):
        with pytest.raises(ValueError, match="kernel_memory"):
            as_bytes(bad)
    assert not dualgap.Problem(X, y, kernel="rbf", kernel_memory=8 * 60 * 60).blocked
    with pytest.raises(ValueError, match="kernel_memory=100 bytes is too little"):
        dualgap.Problem(X, y, kernel="rbf", kernel_memory=100)


def test_solvers_that_need_all_rows_refuse_blocks(small):
    X, y = small
    problem = dualgap.Problem(X, y, l2=0.05, kernel="rbf", kernel_memory="14 kB")
    with pytest.raises(dualgap.NotSupported, match=r"raise kernel_memory; these can: .*sdca"):
        dualgap.solve(problem, "dca")
    with pytest.raises(dualgap.NotSupported, match="first_epoch='sgd'"):
        dualgap.solve(problem, dualgap.SDCA(first_epoch="sgd"))


# ------------------------------------------------------------------------------------------------------- what is no kernel


def test_a_sigmoid_kernel_that_is_indefinite_is_not_certified():
    """Without the check the run below 'converges' on a problem that has no minimum."""
    X, y = make_data(60, 5)
    for memory in (None, "14 kB"):
        problem = dualgap.Problem(X, y, l2=0.05, kernel="sigmoid", gamma=0.5, coef0=-1.0, kernel_memory=memory)
        with pytest.raises(
            dualgap.CertificateError, match=r"'sigmoid': its matrix .* not positive semidefinite \(eigenvalues from -"
        ):
            dualgap.solve(problem, "sdca")
        with pytest.raises(dualgap.CertificateError, match="not positive semidefinite"):
            dualgap.certify(problem, np.zeros(60))
    K = np.tanh(0.5 * X @ X.T - 1.0)
    vectors = np.linalg.eigh(K)[1]
    problem = dualgap.Problem(X, y, l2=0.05, kernel="sigmoid", gamma=0.5, coef0=-1.0)
    assert problem.objective(1e4 * vectors[:, 0]) < 0  # below every "dual bound" of a β in the box that is worth the name


def test_an_indefinite_matrix_or_callable_is_not_certified(small):
    X, y = small
    K = X @ X.T
    K[0, 1] = K[1, 0] = 50.0
    for problem in (
        dualgap.Problem(K, y, l2=0.05, kernel="precomputed"),
        dualgap.Problem(X, y, l2=0.05, kernel=lambda A, B: -(A @ B.T)),
        dualgap.Problem(X, y, l2=0.05, kernel="poly", degree=2, coef0=-5.0, gamma=1.0),
    ):
        with pytest.raises(dualgap.CertificateError, match="not positive semidefinite"):
            dualgap.solve(problem, "dual_coordinate")


def low_rank(rounded):
    X, y = make_data(80, 5)
    return (X @ X.T).astype(np.float32) if rounded else X.astype(np.float32) @ X.T.astype(np.float32), y


@pytest.mark.parametrize("rounded", [True, False], ids=["rounded", "computed in float32"])
@pytest.mark.parametrize("solver", ["working_set", "dual_coordinate", "dca"])
def test_a_float32_matrix_of_low_rank_trains(rounded, solver):
    """Its 75 eigenvalues of 0 are rounded to either side of 0."""
    K, y = low_rank(rounded)
    low, high = np.linalg.eigvalsh(K.astype(np.float64))[[0, -1]]
    assert low < -1e-10 * high
    assert dualgap.solve(dualgap.Problem(K, y, l2=0.05, kernel="precomputed"), solver, tol=1e-3).status == "converged"


def test_svc_takes_float32_kernel_values():
    X, y = make_data(80, 5)
    X = X.astype(np.float32)
    for model, given in ((dualgap.SVC(kernel="precomputed"), X @ X.T), (dualgap.SVC(kernel=lambda A, B: A @ B.T), X)):
        assert model.fit(given, y).status_ == "converged"


def test_float32_excuses_no_more_than_its_rounding():
    """An eigenvalue ten times below what rounding explains is refused; so is the rounding of float32 in a matrix of float64."""
    K, y = low_rank(rounded=True)
    exact = K.astype(np.float64)
    values, vectors = np.linalg.eigh(exact)
    bound = float(np.finfo(np.float32).eps) * np.linalg.norm(exact)
    assert rounding_of(K) == pytest.approx(bound)
    wrong = (exact - (values[0] + 10 * bound) * np.outer(vectors[:, 0], vectors[:, 0])).astype(np.float32)
    for matrix in (np.tril(wrong) + np.tril(wrong, -1).T, exact):
        with pytest.raises(dualgap.CertificateError, match="not positive semidefinite"):
            dualgap.solve(dualgap.Problem(matrix, y, l2=0.05, kernel="precomputed"), "dual_coordinate")


def test_a_sigmoid_kernel_that_is_semidefinite_trains():
    y = np.array([0, 1, 0, 1])
    problem = dualgap.Problem(np.eye(4), y, l2=0.1, kernel="sigmoid", gamma=1.0, coef0=0.0)
    assert dualgap.solve(problem, "sdca", tol=1e-6).status == "converged"


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
def test_a_linear_kernel_is_solved_on_the_rows_of_X(small, loss, intercept):
    X, y = small[0], small[1]
    options = {"loss": loss, "l2": 1e-2, "intercept": intercept}
    machine = dualgap.solve(dualgap.Problem(X, y, kernel="linear", **options), tol=1e-9)
    plain = dualgap.solve(dualgap.Problem(X, y, **options), tol=1e-9)
    assert machine.converged
    assert not machine.problem.formed  # no kernel matrix
    assert machine.certificate.primal == pytest.approx(plain.certificate.primal, rel=1e-8)
    assert machine.coef.shape == (len(y),)
    np.testing.assert_allclose(X.T @ machine.coef, plain.coef, atol=1e-3)
    again = dualgap.solve(machine.problem, tol=1e-9, warm_start=machine)
    assert again.epochs <= machine.epochs
