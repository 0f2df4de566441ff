"""Which solver an estimator's solver="auto" stands for. The rule itself lives with the solvers; this is where estimators ask."""

from __future__ import annotations

from typing import Any

from dualgap.problem import Problem
from dualgap.solvers.base import REGISTRY, NotSupported, can, get_solver

__all__ = ["choose_solver"]


def choose_solver(problem: Problem, solver: Any = "auto") -> Any:
    """The solver object for a problem: the one that was asked for, or for "auto" the best one known.

    Examples
    --------
    >>> import dualgap
    >>> from dualgap.estimators.choice import choose_solver
    >>> choose_solver(dualgap.Problem([[0.0], [1.0]], [0, 1], l2=0.1), "sdca")
    SDCA(order='permutation', output='last', first_epoch='sdca')
    """
    if not (isinstance(solver, str) and solver == "auto"):
        return get_solver(solver)
    if problem.streaming:
        return get_solver("blocks")
    # With an l1 part and a smooth loss second order on the few features in use is ahead of what `auto` knows: on l1 alone by a factor
    # of ten and more on text, and it reaches any tolerance.
    names = ("prox_newton", "auto") if problem.l1 > 0 else ("auto",)
    for name in names:
        found = get_solver(name)
        if can(found, problem):
            return found
    raise NotSupported(f"solver='auto': no registered solver takes {problem!r}; name one of {sorted(REGISTRY)}")
