"""Every registered solver, on every problem here that it supports, against an optimum that nothing of dualgap computed.

A new solver is tested without asking: it is held to 1e-2 until it is listed as linearly convergent below.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import dualgap
from conftest import make_data
from dualgap.solvers.base import can
from reference import REFERENCE_LOSSES, Model, optimum
from reference.own_loss import CubicHinge, UndeclaredCubicHinge

# Methods whose error shrinks by a factor an epoch, at least once they are near; the others are stochastic or subgradient methods.
LINEAR = {
    "apg",
    "asdca",
    "auto",
    "blocks",
    "dca",
    "dual_coordinate",
    "dual_gradient",
    "newton",
    "newton_cg",
    "prox_newton",
    "saga",
    "sdca",
    "ssnal",
    "svrg",
    "working_set",
}

X, y = make_data(60, 5, seed=3)
WEIGHTS = np.random.default_rng(4).uniform(0.2, 2.0, len(y))
BOUNDS = ([0.1, -np.inf, -0.05, -0.5, -np.inf], [0.6, -0.1, 0.05, np.inf, np.inf])  # zero is beyond two of them

PROBLEMS = {
    "hinge": {"loss": "hinge", "l2": 0.1},
    "hinge, penalised, weights": {"loss": "hinge", "l2": 0.1, "intercept": "penalised", "sample_weight": WEIGHTS},
    "hinge, free": {"loss": "hinge", "l2": 0.05, "intercept": "free"},
    "hinge, l1, free": {"loss": "hinge", "l2": 0.0, "l1": 0.02, "intercept": "free"},
    "hinge, rbf": {"loss": "hinge", "l2": 0.05, "kernel": "rbf", "gamma": 0.3},
    "hinge, rbf, free": {"loss": "hinge", "l2": 0.05, "kernel": "rbf", "gamma": 0.3, "intercept": "free"},
    "smooth hinge, sparse": {"loss": "smooth_hinge", "delta": 0.5, "l2": 0.1, "sparse": True},
    "smooth hinge, elastic net, free": {"loss": "smooth_hinge", "delta": 0.5, "l2": 0.05, "l1": 0.02, "intercept": "free"},
    "squared hinge, penalised": {"loss": "squared_hinge", "l2": 0.1, "intercept": "penalised"},
    "logistic, weights": {"loss": "logistic", "l2": 0.05, "sample_weight": WEIGHTS},
    "logistic, l1, free": {"loss": "logistic", "l2": 0.0, "l1": 0.02, "intercept": "free"},
    "hinge, positive, free": {"loss": "hinge", "l2": 0.05, "intercept": "free", "bounds": (0.0, None)},
    "hinge, elastic net, bounds": {"loss": "hinge", "l2": 0.05, "l1": 0.02, "bounds": BOUNDS},
    "squared hinge, bounds, weights": {"loss": "squared_hinge", "l2": 0.05, "bounds": BOUNDS, "sample_weight": WEIGHTS},
    "cubic hinge": {"loss": CubicHinge(), "l2": 0.1},
    "cubic hinge, free": {"loss": CubicHinge(), "l2": 0.02, "intercept": "free"},
    "cubic hinge, undeclared, free": {"loss": UndeclaredCubicHinge(), "l2": 0.02, "intercept": "free"},
    "cubic hinge, rbf, free": {"loss": CubicHinge(), "l2": 0.05, "kernel": "rbf", "gamma": 0.3, "intercept": "free"},
    "cubic hinge, elastic net, free": {"loss": CubicHinge(), "l2": 0.05, "l1": 0.02, "intercept": "free"},
    "cubic hinge, l1": {"loss": CubicHinge(), "l2": 0.0, "l1": 0.02},
    "logistic, elastic net, bounds, free": {"loss": "logistic", "l2": 0.05, "l1": 0.02, "intercept": "free", "bounds": BOUNDS},
}


def build(options):
    options = dict(options)
    return dualgap.Problem(sparse.csr_array(X) if options.pop("sparse", False) else X, y, **options)


def reference_optimum(name, cache={}):  # noqa: B006  (one computation a problem, whatever the order of the tests)
    if name not in cache:
        problem, options = build(PROBLEMS[name]), PROBLEMS[name]
        features = X
        if problem.kernel is not None:
            # Any Z with ZZᵀ = K makes it a problem without a kernel.
            values, vectors = np.linalg.eigh(np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2)))
            features = vectors * np.sqrt(np.maximum(values, 0.0))
        weights = np.asarray(options.get("sample_weight", np.ones(len(y))))
        loss = options["loss"] if isinstance(options["loss"], str) else "cubic_hinge"
        model = Model(features, y, weights / weights.sum(), REFERENCE_LOSSES[loss], problem.l2, problem.l1, problem.intercept)
        if problem.bounds is not None:
            model = replace(model, low=problem.bounds[0], high=problem.bounds[1])
        cache[name] = optimum(model, loss, delta=0.5)
    return cache[name]


def precision(solver, problem):
    if solver not in LINEAR:
        return 1e-2
    # APG descends on a smoothed stand-in for the hinge, whose width has to shrink; `auto` leaves l1 alone to it.
    smoothed = solver == "apg" or (solver == "auto" and problem.l2 == 0)
    return 1e-3 if smoothed and isinstance(problem.loss, dualgap.Hinge) else 1e-6


def cases():
    for solver in sorted(dualgap.solvers.REGISTRY):
        for name, options in PROBLEMS.items():
            if can(dualgap.solvers.get_solver(solver), build(options)):
                yield pytest.param(solver, name, id=f"{solver}: {name}")


@pytest.mark.parametrize(("solver", "name"), list(cases()))
def test_reaches_the_reference_optimum(solver, name):
    problem, best = build(PROBLEMS[name]), reference_optimum(name)
    wanted = precision(solver, problem)
    with warnings.catch_warnings():
        # A stochastic method may be as near as asked long before its certificate proves it.
        warnings.simplefilter("error" if solver in LINEAR else "ignore", dualgap.ConvergenceWarning)
        result = dualgap.solve(problem, solver, tol=wanted, max_epochs=5000, stall=False)
    certificate = result.certificate
    print(f"{result.epochs} epochs, {result.trace['passes'][-1]:.0f} passes to a relative gap of {certificate.relative_gap:.1e}")
    # The model as it is handed out, judged afresh; the reference is good to about 1e-10.
    primal = problem.objective(result.coef, result.intercept)
    assert primal == pytest.approx(certificate.primal, rel=1e-12)
    slack = 1e-9 * best
    assert -slack <= primal - best <= certificate.gap + slack
    assert certificate.dual <= best + slack
    assert primal - best <= wanted * best + slack


def test_each_solver_supports_something():
    covered = {case.values[0] for case in cases()}
    assert covered == set(dualgap.solvers.REGISTRY)


def test_table_says_what_supports_says():
    table = dualgap.solvers()
    assert table.names == sorted(dualgap.solvers.REGISTRY)
    for record in table:
        solver = dualgap.solvers.get_solver(record.name)
        for options in PROBLEMS.values():
            problem = build(options)
            if not isinstance(options["loss"], str):
                continue  # the table lists the losses of the package
            listed = (
                options["loss"] in record.losses
                and ("l1" if not problem.l2 else "elastic net" if problem.l1 else "l2") in record.penalties
                and problem.intercept in record.intercepts
                and (record.linear if problem.kernel is None else record.kernels)
            )
            if problem.bounds is not None:
                assert bool(can(solver, problem)) <= record.bounds
                continue
            assert bool(solver.supports(problem)) <= listed
            if record.every_combination:
                assert bool(solver.supports(problem)) == listed


def test_table_prints_and_exports():
    table = dualgap.solvers()
    frame = table.to_pandas()
    assert list(frame["name"]) == table.names
    text = repr(table)
    for record in table:
        assert record.name in text
        assert record.name in table.to_markdown()
    assert table["sdca"] is table[table.names.index("sdca")]
    with pytest.raises(KeyError, match="no solver is named 'nonesuch'"):
        table["nonesuch"]


def test_solvers_is_a_function_and_a_package():
    import dualgap.solvers.coordinate.sdca as module

    assert module.SDCA is dualgap.solvers.SDCA
    assert callable(dualgap.solvers)
    assert len(dualgap.solvers()) == len(dualgap.solvers.REGISTRY)


@pytest.mark.parametrize(
    ("solver", "options", "reason", "able"),
    [
        ("pegasos", {"loss": "logistic"}, "made for the hinge", "sdca"),
        ("sdca", {"l2": 0.0, "l1": 0.1}, "needs? l2 > 0", "apg"),
        ("asdca", {"loss": "hinge"}, "smooth loss", "sdca"),
        ("asdca", {"loss": "logistic", "l1": 0.1}, "l1 part", "apg"),
        ("asdca", {"loss": "logistic", "intercept": "free"}, "strongly convex", "apg"),
        ("apg", {"kernel": "rbf"}, "coordinates of w", "dual_gradient"),
        ("dual_gradient", {"l2": 0.0, "l1": 0.1}, "l2 > 0", "apg"),
        ("dual_coordinate", {"l1": 0.1}, "no coordinates", "sdca"),
        ("saga", {"loss": "logistic", "bounds": (0.0, None)}, "keep no bounds on coefficients", "prox_newton"),
        ("newton", {"l1": 0.1, "bounds": (0.0, None)}, "l2 penalty alone", "dca"),
    ],
)
def test_a_refusal_names_the_reason_and_a_solver_that_can(solver, options, reason, able):
    problem = dualgap.Problem(X, y, **options)
    with pytest.raises(dualgap.NotSupported, match=reason) as refusal:
        dualgap.solve(problem, solver)
    _, _, names = str(refusal.value).partition("these can: ")
    assert able in names.split(", ")
    for name in names.split(", "):
        assert can(dualgap.solvers.get_solver(name), problem)


def test_objects_that_are_completed_keep_their_own_attributes():
    class Plain:
        def __init__(self, size):
            self.size = size

        supports = start = epoch = model = dual = lambda self, *given: None

    one, same = Plain(1), Plain(2)
    assert dualgap.solvers.get_solver(one).size == 1
    assert dualgap.solvers.get_solver(one) == dualgap.solvers.get_solver(one) != dualgap.solvers.get_solver(same)
