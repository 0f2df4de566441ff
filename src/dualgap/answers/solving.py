"""solve: minimise a problem, and say what to try where the run ended early."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dualgap.answers.result import Result
from dualgap.core import counted, inner, kept
from dualgap.problem import Problem
from dualgap.run import SUCCESSES, Progress, Trained, minimise
from dualgap.solvers import Solver

__all__ = ["ConvergenceWarning", "solve", "strong_penalty"]


class ConvergenceWarning(UserWarning):
    """A run ended before its certified gap was as small as asked.

    Examples
    --------
    >>> import warnings, dualgap
    >>> problem = dualgap.Problem([[1.0], [2.0], [0.5]], [0, 1, 1], l2=1e-3)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     result = dualgap.solve(problem, "pegasos", tol=1e-9, max_epochs=2)
    >>> caught[0].category.__name__, result.status
    ('ConvergenceWarning', 'max_epochs')
    """


def solve(
    problem: Problem,
    solver: str | Solver = "auto",
    tol: float = 1e-4,
    max_epochs: int = 200,
    max_seconds: float | None = None,
    seed: int | np.random.Generator | None = 0,
    *,
    watch: object = None,
    evaluate: str | Callable[[int], bool] = "auto",
    callbacks: Iterable[Callable[[Progress], Any]] = (),
    warm_start: object = None,
    stall: bool = True,
    atol: float = 0.0,
    decide: object = None,
) -> Result:
    """Minimise a problem's objective until its certified relative gap is at most `tol`.

    Parameters
    ----------
    problem : Problem
    solver : str or solver object
        A name from `dualgap.solvers()`, or an object such as `dualgap.SDCA(order="cyclic")`. "auto" picks the method by the
        problem's shape.
    tol : float
        Bound on gap / primal, certified, rounding included. A regression whose objective float64 cannot tell from 0 ends with status
        "zero_optimum": nothing is relative to 0. 0 asks for as much as the budget gives: unless stall=False, the run ends
        earlier where the gap has stopped falling ("stalled") or is as small as float64 can tell ("rounding_limit"). It ends without a
        warning.
    max_epochs, max_seconds
        The budget. Seconds are of the wall clock and include evaluations; they are looked at between epochs. Ctrl-C ends a run as well:
        once the first epoch has begun, the best model so far is returned with its certificate and status "interrupted", whatever Ctrl-C
        met. Before that there is no model, and `KeyboardInterrupt` is raised. A second Ctrl-C while the certificate is computed is raised
        after that, without a result; a third one at once.
    seed : int or numpy Generator
        The same seed, data and thread count give the same trace.
    watch : (X, y), or a mapping of names to such pairs, optional
        Held-out data whose error and balanced accuracy are recorded.
    evaluate : {"auto", "geometric", "epoch"} or callable
        When to stop the clock and certify: "geometric" at epochs that grow by a quarter each time, "epoch" at every one, a callable
        where it says so for the epoch's number. "auto" is "geometric", except that a solver which estimates its gap is
        certified when its estimate reaches tol. The last epoch is always evaluated.
    callbacks : functions of a Progress
        Called after each evaluation; one that returns True ends the run with status "interrupted".
    warm_start : Result, or a tuple (coef, intercept, dual) with None for what is not known, optional
        Methods on the dual variables (SDCA, DCA, ASDCA, DualGradient, DualCoordinate) start from `dual` and do not look at `coef`;
        SGD, Subgradient, SAGA, SVRG, Newton and NewtonCG start from `coef`, without which they start from zero; APG takes either. Pegasos
        starts afresh: its first step forgets any w.
    stall : bool
        Whether a gap that has stopped falling ends the run with status "stalled" or "rounding_limit".
    atol : float
        Bound on the gap itself, certified. The run has converged if the relative gap is at most `tol` or the gap at most `atol`, and only
        then. For separable data and weak penalties, where the optimum tends to 0 and a relative gap asks for more digits than float64 has.
    decide : samples, optional
        End the run with status "decided" once the labels of these samples are proven to be those of the exact model, if that is
        earlier than `tol`. `Result.predict_proven` then proves them all. The trace has the share proven so far as column `decided`. With
        evaluate="auto" certificates are computed more often, as the gap falls.

    Returns
    -------
    Result

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> problem = dualgap.Problem(scale(X), y, loss="smooth_hinge", delta=0.5, l2=1e-3, intercept="free")
    >>> result = dualgap.solve(problem, "sdca", tol=1e-3)
    >>> result.status, result.certificate.relative_gap <= 1e-3
    ('converged', True)
    """
    with kept() as ctrl_c:
        result = minimise(
            problem,
            solver,
            tol,
            max_epochs,
            max_seconds,
            seed,
            watch=watch,
            evaluate=evaluate,
            callbacks=callbacks,
            warm_start=warm_start,
            stall=stall,
            atol=atol,
            decide=decide,
        )
        if result.status not in (*SUCCESSES, "interrupted") and (tol > 0 or atol > 0):
            warnings.warn(advice(result, tol), ConvergenceWarning, stacklevel=2)
        elif zero := of_zero(result):
            warnings.warn(f"{result.solver.label()} ended with status {result.status!r}.{zero}", ConvergenceWarning, stacklevel=2)
        return Result.of(result, status="interrupted" if ctrl_c.take() else result.status)


def advice(result: Trained, tol: float) -> str:
    """What to say of a run that ended above its tolerance: how far from optimal at most, and what to try."""
    c = result.certificate
    if result.status == "rounding_limit":
        return (
            f"{result.solver.label()} ended with status 'rounding_limit' after {counted(result.epochs, 'epoch')}: proven is a gap of "
            f"at most {c.gap:.3g} (relative {c.relative_gap:.1e}), above the tolerance {tol:.1e}, and float64 cannot tell better models "
            f"from this one. What to try: standardise or centre the features; {_other_penalty(result.problem)}; "
            "a larger tol; or, if the optimum is near 0, an absolute tolerance atol."
        )
    tried = {
        "max_epochs": "raise max_epochs",
        "max_seconds": "raise max_seconds",
        "stalled": "the gap has stopped falling: try another solver, or a larger tol",
        "diverged": "the objective blew up: scale the features, lower the step, or try another solver",
    }[result.status]
    return (
        f"{result.solver.label()} ended with status {result.status!r} after {counted(result.epochs, 'epoch')} at a relative gap of "
        f"{c.relative_gap:.1e} (gap {c.gap:.3g}), above the tolerance {tol:.1e}; the model is at most "
        f"{100 * c.gap / c.primal:.3g} % of its objective from optimal. "
        f"What to try: {tried}; standardise the features; or use {_other_penalty(result.problem)}.{of_zero(result)}"
    )


def _other_penalty(problem: Any) -> str:
    """Return which penalty is easier."""
    if strong_penalty(problem):
        return f"a smaller l2 ({problem.l2:g} now), that is a larger C: the penalty is so strong that w stays near 0"
    return f"a larger l2 ({problem.l2:g} now), that is a smaller C"


def strong_penalty(problem: Any) -> bool:
    """Return whether l2 exceeds the mean ‖x‖², so that w stays near 0: a smaller l2 is then the easier problem, else a larger one."""
    squares = getattr(problem, "sqnorms", None)
    return squares is not None and 0.0 < float(inner(problem.c, squares)) < problem.l2


def of_zero(result: Trained) -> str:
    """What to say of a run whose best model is w = 0 although it trained; nothing of other runs."""
    if result.status in (*SUCCESSES, "interrupted") or result.epochs == 0 or result.coef.any():
        return ""
    return " No model that the run found has a lower objective than w = 0, which is returned."
