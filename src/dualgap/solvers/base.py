"""The contract of a solver, and the registry. No clock, tolerance, print or plot in this package: those are the driver's."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.problem import Problem
from dualgap.proof import require_semidefinite

__all__ = ["REGISTRY", "NotSupported", "Solver", "State", "Support", "Warm", "get_solver", "register"]


class NotSupported(ValueError):
    """A solver was asked for what it cannot do; the message says why and which solver can.

    Examples
    --------
    >>> import dualgap
    >>> problem = dualgap.Problem([[1.0], [-1.0]], [1, 0], loss="logistic", l2=0.1)
    >>> try:
    ...     dualgap.solve(problem, "pegasos")
    ... except dualgap.NotSupported as refusal:
    ...     print("sdca" in str(refusal))
    True
    """


@dataclass(frozen=True)
class Support:
    """Whether a solver can take a problem; where not, the reason that a user reads. True or false as it stands."""

    ok: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.ok


YES = Support(True)


def no(reason: str) -> Support:
    """A refusal with its reason."""
    return Support(False, reason)


@dataclass
class State:
    """What a solver carries from epoch to epoch; each solver adds its arrays.

    `passes` counts rows touched / n; the solver's `start` and `epoch` add to it.
    `tol` is the relative gap that the driver was asked for; the driver sets it after `start`, for methods whose plans depend on it.
    `gap` is the relative gap over the active rows, for methods that follow it; `auto` tells by it whether a method has stalled.
    `handovers` has the epoch and the reason of each change of method, for a method that changes among others.
    """

    passes: float = 0.0
    tol: float = 0.0
    gap: float = math.inf
    handovers: list[tuple[int, str]] = field(default_factory=list)


class Warm(NamedTuple):
    """Where to start from: an earlier model, its dual variables, or both. A method takes what it moves, and leaves the rest."""

    coef: np.ndarray | None = None
    intercept: float = 0.0
    dual: np.ndarray | None = None


@dataclass(frozen=True)
class Solver:
    """Base of all solvers: parameters are the dataclass's fields, state lives in what `start` returns.

    A subclass sets `name`, and implements `supports`, `start`, `epoch`, and `model` or `dual` or both. `sparse_cost` says what one
    update costs on sparse rows: "row's non-zeros", "d", or "all rows" for a method that reads them all in every step.

    Examples
    --------
    >>> import dualgap
    >>> isinstance(dualgap.SDCA(), dualgap.Solver), dualgap.SDCA(order="cyclic").label()
    (True, "sdca(order='cyclic')")
    """

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    sparse_cost: ClassVar[str] = "row's non-zeros"
    takes_blocks: ClassVar[bool] = False  # whether it works on kernel rows that come in blocks
    takes_streams: ClassVar[bool] = False  # whether it works on rows that are read from disk block by block
    takes_bounds: ClassVar[bool] = False  # whether it keeps bounds on coefficients
    stall_steps: ClassVar[float] = math.inf  # epochs without halving `State.gap` after which `auto` changes the method

    def chosen(self, problem: Problem) -> Solver:
        """Return the solver that runs on this problem: itself, unless it only chooses another."""
        return self

    def supports(self, problem: Problem) -> Support:
        """Yes, or no with the reason."""
        return YES

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> Any:
        """The first state: arrays only."""
        raise NotImplementedError

    def epoch(self, problem: Problem, state: Any, rng: np.random.Generator) -> None:
        """About one pass over the data. The only method that is timed."""
        raise NotImplementedError

    def model(self, problem: Problem, state: Any) -> tuple[np.ndarray | None, float | None]:
        """(coef, intercept), copied. None for coef: the w(β) of `dual`. None for the intercept: the best one for that coef."""
        return None, None

    def dual(self, problem: Problem, state: Any) -> np.ndarray | None:
        """Dual variables where the method has them, copied or not; the certificate makes them feasible."""
        return None

    def gap_estimate(self, problem: Problem, state: Any) -> float | None:
        """The relative gap as the method estimates it for free; the driver then certifies when that is small enough. None: no estimate."""
        return None

    def intercept(self, problem: Problem, state: Any) -> float:
        """The intercept that the method has arrived at, for a method that goes on from here. 0 where it keeps none."""
        return 0.0

    def change_method(self, problem: Problem, state: Any, rng: np.random.Generator) -> bool:
        """Go on with another method because the present one is stalled; return whether there was one. False: the run ends."""
        return False

    def plan(self, problem: Problem) -> str:
        """Say what `warm_up` depends on besides the solver and the types of the data: nothing, unless a method chooses among others."""
        return ""

    def warm_up(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, Any]:
        """Run two epochs on a few rows of the same types: the driver has all kernels compiled before its clock starts."""
        small = problem.head(4)
        state = self.start(small, rng, None)
        for _ in range(2):
            self.epoch(small, state, rng)
        return small, state

    def label(self) -> str:
        """The name, with the parameters that differ from their defaults."""
        changed = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name) != f.default]
        return f"{self.name}({', '.join(changed)})" if changed else self.name


REGISTRY: dict[str, type[Solver]] = {}


def register(cls: type[Solver]) -> type[Solver]:
    """Make a solver known by its name: `solve(problem, name)`, the table of solvers, the tests and the lab all read the registry."""
    if not cls.name:
        raise TypeError(f"{cls.__name__} needs a class attribute `name`")
    other = REGISTRY.get(cls.name)
    if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(f"a solver named {cls.name!r} is registered already: {other.__module__}.{other.__qualname__}")
    REGISTRY[cls.name] = cls
    return cls


class Completed(Solver):
    """An object with the five methods that a solver must have, and the defaults of `Solver` for the rest."""

    solver: Any

    def __init__(self, solver: Any) -> None:
        own = {name: getattr(solver, name, None) for name in dir(Solver) if not name.startswith("_")}
        self.__dict__.update({name: value for name, value in own.items() if value is not None}, solver=solver)

    def label(self) -> str:
        return type(self.solver).__name__

    def __getattr__(self, name: str) -> Any:
        if name == "solver":  # not there yet, while a copy is being made
            raise AttributeError(name)
        return getattr(self.solver, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Completed) and self.solver == other.solver

    def __hash__(self) -> int:
        return hash(self.solver)

    def __repr__(self) -> str:
        return repr(self.solver)


def get_solver(solver: Any) -> Solver:
    """A solver object from a registered name, a class or an object."""
    if isinstance(solver, str):
        if solver not in REGISTRY:
            raise ValueError(f"solver={solver!r} is unknown; choose one of {sorted(REGISTRY)} or pass a solver object")
        return REGISTRY[solver]()
    if isinstance(solver, type):
        solver = solver()
    if isinstance(solver, Solver):
        return solver
    missing = [m for m in ("supports", "start", "epoch", "model", "dual") if not callable(getattr(solver, m, None))]
    if missing:
        raise TypeError(f"solver={solver!r} is neither a name from {sorted(REGISTRY)} nor a solver object (it lacks {missing})")
    return Completed(solver)


def can(solver: Solver, problem: Problem) -> Support:
    """What `supports` says, with what no solver has to say for itself: most cannot work on rows that come in blocks."""
    if problem.streaming and not solver.takes_streams:
        return no("the rows of a store are read block by block, and it needs all of them at hand")
    if problem.blocked and not solver.takes_blocks:
        return no("the kernel matrix exceeds kernel_memory, and it needs all rows at hand; raise kernel_memory")
    if problem.bounds is not None and not solver.takes_bounds:
        return no("its steps keep no bounds on coefficients")
    return solver.supports(problem)


def require(solver: Solver, problem: Problem) -> None:
    """Raise NotSupported, naming solvers that can, unless the solver takes the problem; CertificateError where none could prove it."""
    require_semidefinite(problem)
    answer = can(solver, problem)
    if not answer:
        able = [name for name, cls in REGISTRY.items() if can(cls(), problem)]
        others = f"; these can: {', '.join(able)}" if able else ""
        raise NotSupported(f"{solver.label()} cannot solve {problem!r}: {answer.reason}{others}")
