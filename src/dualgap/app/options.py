"""What commands share: exit codes, and options of the same meaning.

`takes_table` gives a command the options of tables, declared once in `table_options`. The modules of commands import nothing but typer when
they are loaded, so that --help, --version and a word that is wrong are answered at once; each command imports what it works with.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from dualgap.data import TableOptions

__all__ = [
    "ERROR",
    "INCOMPLETE",
    "INTERRUPTED",
    "OK",
    "USAGE",
    "Json",
    "MaxSeconds",
    "Seed",
    "Target",
    "TaskName",
    "is_given",
    "loss_and_task",
    "loss_called",
    "refuse_both",
    "takes_table",
]

OK = 0
ERROR = 1  # an error, a certificate that misses --tol, or a proof that is refused
USAGE = 2  # a command that was not understood
INCOMPLETE = 3  # done, but some runs failed or some data were missing
INTERRUPTED = 130  # stopped by Ctrl-C; the message says what was kept

Seed = Annotated[int, typer.Option(min=0, help="Seed that every run's own seed is derived from.")]
MaxSeconds = Annotated[float | None, typer.Option(min=0.001, help="Most seconds that one run may take.")]
Target = Annotated[
    str,
    typer.Option(
        help="Target column of a table, by name or by number (from 0; -1 is the last). [default: one called target, label, class or y]",
        show_default=False,
    ),
]
TaskName = Annotated[
    str,
    typer.Option(
        "--task",
        metavar="TASK",
        help="classification or regression. [default: what the target's values and --loss say]",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


LOSSES = ("hinge", "smooth_hinge", "squared_hinge", "logistic")
OF_REGRESSION = ("epsilon_insensitive", "squared_epsilon_insensitive", "huber", "absolute", "quantile", "squared_error")


def loss_called(word: str) -> str:
    """Return the name of a loss of classification; log_loss is what scikit-learn calls logistic."""
    name = "logistic" if word == "log_loss" else word
    if name in OF_REGRESSION:
        raise ValueError(
            f"--loss {word} is a loss of regression, and this command races classifiers; `dualgap fit` trains regressions"
        )
    if name not in LOSSES:
        raise ValueError(f"--loss {word}: there is no such loss; choose hinge, smooth_hinge, squared_hinge or logistic")
    return name


def loss_and_task(loss: str, task: str) -> tuple[str | None, str]:
    """Return the name of the loss, or None without --loss, and the task, which is empty where neither option tells it."""
    if task not in ("", "classification", "regression"):
        raise ValueError(f"--task {task}: choose classification or regression")
    if not loss:
        return None, task
    name = "logistic" if loss == "log_loss" else loss
    if name not in (*LOSSES, *OF_REGRESSION):
        raise ValueError(
            f"--loss {loss}: there is no such loss; choose {', '.join(LOSSES)}, or for a regression {', '.join(OF_REGRESSION)}"
        )
    kind = "regression" if name in OF_REGRESSION else "classification"
    if task not in ("", kind):
        raise ValueError(f"--loss {loss} is a loss of {kind}, and --task says {task}; leave one of them out")
    return name, kind


def is_given(value: Any) -> bool:
    """Return whether an option was given: a flag that is set, a word, a number (0, too), or a list that is not empty."""
    return value is not None and value is not False and value not in ("", [], (), {})


def refuse_both(one: tuple[str, Any], other: tuple[str, Any], why: str) -> None:
    """Raise if two options that exclude each other are both given; each is a pair of its name and its value."""
    if is_given(one[1]) and is_given(other[1]):
        first, second = (name if value is True else f"{name} {value}" for name, value in (one, other))
        raise ValueError(f"{first} and {second} exclude each other: {why}; give one of them")


def table_options(
    target: Target = "",
    drop: Annotated[list[str], typer.Option("--drop", metavar="COLUMN", help="Leave a column out; may be repeated.")] = [],  # noqa: B006
    as_: Annotated[
        list[str],
        typer.Option("--as", metavar="COLUMN=KIND", help="Take a column as number, category, text or date; may be repeated."),
    ] = [],  # noqa: B006
    missing: Annotated[
        list[str],
        typer.Option(
            "--missing",
            metavar="WORD",
            help="A word that stands for nothing, in the target too; may be repeated. [more: ?, NA, nan, …]",
        ),
    ] = [],  # noqa: B006
    above: Annotated[
        str | None,
        typer.Option(metavar="NUMBER|median", help="Predict whether a measured target is above a number.", show_default=False),
    ] = None,
    prepare: Annotated[
        bool, typer.Option("--prepare/--no-prepare", help="Turn text, dates and missing values into numbers.")
    ] = True,
    standardise: Annotated[
        bool | None,
        typer.Option("--standardise/--no-standardise", help="[default: dense data yes, sparse data no]", show_default=False),
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option("--header/--no-header", help="Whether line 1 of CSV has names. [default: found out]", show_default=False),
    ] = None,
) -> TableOptions:
    """Return what the options of a command say about a table; --as names the kind of a column."""
    from dualgap.data import TableOptions

    kinds = {}
    for word in as_:
        name, equals, kind = word.rpartition("=")
        if not equals or not name:
            raise ValueError(f"--as {word}: give COLUMN=KIND, such as --as zip=category")
        refuse_both(("--as", word), ("--no-prepare", not prepare), "the one prepares a column, the other takes numbers alone")
        refuse_both(("--as", word), ("--drop", name if name in drop else ""), "the one prepares a column, the other leaves it out")
        kinds[name] = kind
    return TableOptions(target, drop, kinds, prepare, standardise, header, above, missing=missing)


def takes_table(command: Callable[..., int]) -> Callable[..., int]:
    """Replace a command's parameter `table` by the options of tables."""

    def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
        types = get_type_hints(function, localns={"TableOptions": object}, include_extras=True)
        found = inspect.signature(function).parameters
        return {name: one.replace(annotation=types[name], kind=one.KEYWORD_ONLY) for name, one in found.items()}

    shared, own = parameters(table_options), parameters(command)
    all_ = [each for name, one in own.items() for each in (shared.values() if name == "table" else [one])]

    @wraps(command)
    def run(**words: Any) -> int:
        table = table_options(**{name: words.pop(name) for name in shared})
        return command(**words, table=table)

    vars(run)["__signature__"] = inspect.Signature(all_)
    run.__annotations__ = {each.name: each.annotation for each in all_}
    return run
