"""Blocks: dual coordinate ascent a block of rows at a time, for data that are read from disk.

Block minimisation (Yu et al. 2010, docs/references.md) keeps the same blocks, and takes many times the epochs: steps on one block undo part
of those on the last. Here every epoch has new blocks, so that an epoch is worth as much as one in a fresh random order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dualgap.core import Block, fresh_seed, natural_order, rows_ahead, shuffle, whole_number
from dualgap.core import rows as storage
from dualgap.problem import Problem
from dualgap.solvers.base import Solver, State, Support, Warm, no, register
from dualgap.solvers.coordinate.ascent import NoSums, ascend, coordinates, first_beta, needs_l2
from dualgap.solvers.coordinate.bias import BiasColumn

__all__ = ["Blocks"]


@dataclass(kw_only=True)
class BlocksState(State):
    """β and what belongs to it; all but `bias.scale` is changed by every epoch."""

    beta: np.ndarray
    v: np.ndarray  # u(β)/l2; the bias column's coefficient is last where there is an intercept
    bias: BiasColumn
    epochs: int = 0


@register
@dataclass(frozen=True)
class Blocks(Solver):
    """Dual coordinate ascent block by block: the rows of a block are visited a few times before the next block takes their place.

    On a store, the blocks of the first epoch are its parts; later epochs put theirs together from short runs of rows all over the
    store. The next block is read while this one is worked on. On a problem in memory, a block is a copy of rows drawn at random.

    Parameters
    ----------
    inner : int
        Visits to each block's rows, in a fresh random order each time, before the next block. More of them make up for slow reading.
    block_rows : int
        Rows a block where the problem is in memory; a store has blocks of its own.

    Examples
    --------
    >>> import dualgap
    >>> from sklearn.datasets import make_classification
    >>> problem = dualgap.Problem(*make_classification(500, random_state=0), l2=1e-2)
    >>> dualgap.solve(problem, dualgap.Blocks(inner=3, block_rows=100)).status
    'converged'
    """

    inner: int = 2
    block_rows: int = 65_536

    name: ClassVar[str] = "blocks"
    takes_bounds: ClassVar[bool] = True
    summary: ClassVar[str] = "dual coordinate ascent block by block, for stores"
    takes_streams: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("inner", "block_rows"):
            whole_number(name, getattr(self, name))

    def supports(self, problem: Problem) -> Support:
        if problem.kernel is not None:
            return no(
                "blocks does not support kernels: a kernel row has n entries, so a block of rows is as large as the data. Use 'dca'."
            )
        return needs_l2(problem)

    def start(self, problem: Problem, rng: np.random.Generator, warm: Warm | None = None) -> BlocksState:
        dual, centre = (None, None) if warm is None else (warm.dual, warm.intercept)
        beta = first_beta(problem, dual)
        bias = BiasColumn.of(problem, centre)
        a = problem.c * problem.y * beta / problem.l2
        v = problem.combine(a)
        return BlocksState(beta=beta, v=np.append(v, bias.scale * a.sum()) if bias.width else v, bias=bias)

    def epoch(self, problem: Problem, state: BlocksState, rng: np.random.Generator) -> None:
        for block in self._blocks(problem, state, rng):
            self._work(problem, state, block, rng)
        state.bias.move_centre(float(state.v[-1]))
        state.passes += self.inner
        state.epochs += 1

    def _blocks(self, problem: Any, state: BlocksState, rng: np.random.Generator) -> Iterator[Block]:
        if problem.streaming:
            return problem.blocks(rng, mixed=state.epochs > 0)  # type: ignore[no-any-return]
        order = rng.permutation(problem.n)
        pieces = (np.sort(order[k : k + self.block_rows]) for k in range(0, problem.n, self.block_rows))
        return (Block(piece, storage.take(problem.rows, piece)) for piece in pieces)

    def _work(self, problem: Problem, state: BlocksState, block: Block, rng: np.random.Generator) -> None:
        """Take steps on the rows of one block; β of the others, and their part of v, stay as they are."""
        here = block.index
        rows, beta = state.bias.rows(block.rows), state.beta[here]
        at = coordinates(problem.some_samples(here), state.bias.squares(problem.sqnorms[here]), problem.l2)
        ahead, order = rows_ahead(rows), natural_order(len(beta))
        for _ in range(self.inner):
            shuffle(order, fresh_seed(rng))
            ascend(rows, problem.loss, problem.penalty, at, beta, state.v, order, ahead, NoSums(), 0)
        state.beta[here] = beta

    def model(self, problem: Any, state: BlocksState) -> tuple[np.ndarray, None]:
        return problem.penalty.primal(state.v[: problem.d]).copy(), None

    def dual(self, problem: Any, state: BlocksState) -> np.ndarray:
        if problem.streaming:
            problem.foresee(self.model(problem, state)[0])
        return state.beta.copy()
