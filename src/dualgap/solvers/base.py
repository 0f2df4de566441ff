"""The contract of a solver, and the registry. No clock, tolerance, print or plot in this package: those are the driver's."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dualgap.problem import Problem
from dualgap.proof import require_semidefinite

__all__ = ["REGISTRY", "NotSupported", "Solver", "State", "Support", "Warm", "get_solver", "label_of", "register"]


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

    `passes` counts rows touched / n. A solver whose epoch costs other than one pass (a snapshot, a line search) adds it up itself.
    `tol` is the relative gap that the driver was asked for, written by it, for methods whose plans depend on it.
    """

    passes: float = 0.0
    tol: float = 0.0


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

    def scores(self, problem: Problem, state: Any) -> np.ndarray | None:
        """xᵢ·w of that coef for every row, where the method has just computed them, exactly; the certificate then need not."""
        return None

    def combine(self, problem: Problem, state: Any, a: np.ndarray) -> np.ndarray:
        """Σ aᵢ xᵢ for the certificate of `dual`. A kernel method without a model of its own may leave inexact the scores of rows that have
        no weight in a and, surely, no loss at the best intercept."""
        return problem.combine(a)

    def hint(self, problem: Problem, state: Any) -> float | None:
        """The relative gap as far as the method knows it for free; the driver then certifies when it is worth it. None: no idea."""
        return None

    def plan(self, problem: Problem) -> str:
        """What `rehearse` depends on besides the solver and the types of the data: nothing, unless a method chooses among others."""
        return ""

    def rehearse(self, problem: Problem, rng: np.random.Generator) -> tuple[Problem, Any]:
        """A short run on a few rows of the same types, by which the driver has all kernels compiled before its clock starts."""
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


def get_solver(solver: Any) -> Any:
    """A solver object from a registered name, a class or an object."""
    if isinstance(solver, str):
        if solver not in REGISTRY:
            raise ValueError(f"solver={solver!r} is unknown; choose one of {sorted(REGISTRY)} or pass a solver object")
        return REGISTRY[solver]()
    if isinstance(solver, type):
        solver = solver()
    missing = [m for m in ("supports", "start", "epoch", "model", "dual") if not callable(getattr(solver, m, None))]
    if missing:
        raise TypeError(f"solver={solver!r} is neither a name from {sorted(REGISTRY)} nor a solver object (it lacks {missing})")
    return solver


def label_of(solver: Any) -> str:
    """A solver's name for people. One that is no subclass of Solver need not have a `label`."""
    label = getattr(solver, "label", None)
    return str(label()) if callable(label) else type(solver).__name__


def can(solver: Any, problem: Problem) -> Support:
    """What `supports` says, with what no solver has to say for itself: most cannot work on rows that come in blocks."""
    if problem.streaming and not getattr(solver, "takes_streams", False):
        return no("the rows of a store are read block by block, and it needs all of them at hand")
    if problem.blocked and not getattr(solver, "takes_blocks", False):
        return no("the kernel matrix exceeds kernel_memory, and it needs all rows at hand; raise kernel_memory")
    return solver.supports(problem)  # type: ignore[no-any-return]


def require(solver: Any, problem: Problem) -> None:
    """Raise NotSupported, naming solvers that can, unless the solver takes the problem; CertificateError where none could prove it."""
    require_semidefinite(problem)
    answer = can(solver, problem)
    if not answer:
        able = [name for name, cls in REGISTRY.items() if can(cls(), problem)]
        hint = f"; these can: {', '.join(able)}" if able else ""
        raise NotSupported(f"{label_of(solver)} cannot solve {problem!r}: {answer.reason}{hint}")
