"""The command line: `dualgap compare`, `reproduce`, `explain`, `report`, `solvers`, `datasets`, `convert`, `fit`, `predict`, `certify`,
`verify`, `warm-up`.

This module runs a command and turns an error into one line on standard error; --debug adds the traceback. What the commands do is in
the modules of their names.

Exit codes: 0 done; 1 an error, a certificate that misses --tol, or a proof that is refused; 2 a command that was not understood; 3 done,
but some runs failed or some data were missing; 130 stopped by Ctrl-C (the message says what was kept).
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from dualgap import __version__
from dualgap.app.convert_command import convert
from dualgap.app.fit_command import fit
from dualgap.app.options import ERROR, INTERRUPTED, OK, USAGE, Json
from dualgap.app.predict_commands import certify, predict
from dualgap.app.race_commands import compare, explain, report, reproduce
from dualgap.app.terminal import print_json, print_table, say, warn
from dualgap.app.verify_command import verify

__all__ = ["app", "main"]

app = typer.Typer(
    name="dualgap",
    help="Train support vector machines and prove how good they are; race solvers; reproduce five studies.",
    epilog="Every command takes --help. With --debug, an error shows its traceback.",
    add_completion=True,
    rich_markup_mode=None,  # plain text: in a terminal of 80 columns the panels leave no room for the words
    pretty_exceptions_enable=False,
)


FOUND = {"yes": "at hand", "download": "fetched when asked for", "by hand": "fetch by hand"}

# What Ctrl-C leaves behind, where the command itself has not said it.
KEPT = {
    "compare": "the runs that ended are kept, and the same command goes on from there",
    "reproduce": "the runs that ended are kept, and the same command goes on from there",
    "convert": "the blocks that were written are kept, and the same command goes on from there",
    "fit": "before there was a model; nothing was written, but a checkpoint of a fit on a store stays",
}


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        code = app(arguments or ["--help"], prog_name="dualgap", standalone_mode=False)
        return code if isinstance(code, int) else OK
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if debug:
            import traceback

            traceback.print_exc()
        return _explain(error, debug)


def stoppable(command: Callable[..., int]) -> Callable[..., int]:
    """Return a command that says, when it is stopped by Ctrl-C, what it leaves behind."""

    @functools.wraps(command)
    def run(**words: Any) -> int:
        try:
            return command(**words)
        except KeyboardInterrupt:
            warn(f"stopped by Ctrl-C; {KEPT.get(command.__name__, 'nothing was written')}")
            return INTERRUPTED

    return run


def _explain(error: Exception, debug: bool) -> int:
    """Print an error in one line; return the exit code."""
    if hasattr(error, "format_message"):
        warn(f"{' '.join(error.format_message().split())} (see dualgap --help)")
        return int(getattr(error, "exit_code", USAGE))
    if isinstance(error, ImportError):
        from dualgap.core import missing_packages, needs

        lacking = missing_packages("lab")
        more = "; " + needs("the command line", *lacking) if lacking else ""
        warn(f"{error}{more}")
        return ERROR
    expected = isinstance(error, ValueError | OSError | ArithmeticError)
    text = " ".join(str(error).split()) or type(error).__name__
    hint = "" if expected or debug else f" (unexpected {type(error).__name__}; --debug shows the traceback)"
    warn(f"{text}{hint}")
    return ERROR


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"dualgap {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and end.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass  # `main` takes --debug out of the arguments, so it may stand anywhere; here it is listed by --help


def solvers(json_: Json = False) -> int:
    """List the solvers and what each supports.

    \b
    Example:
      dualgap solvers
    """
    from dualgap.solvers import solver_table

    found = solver_table()
    if json_:
        print_json({"solvers": list(found)})
    else:
        say(found)
    return OK


def datasets(json_: Json = False) -> int:
    """List the data sets, and which are at hand.

    \b
    Example:
      dualgap datasets
    """
    from dualgap.data import describe
    from dualgap.lab import catalogue

    found = describe(catalogue=catalogue())
    if json_:
        print_json({"datasets": found})
        return OK
    rows = [
        (
            each["name"],
            f"{each['rows']:,}",
            f"{each['columns']:,}",
            "generated" if each["generated"] else FOUND[each["found"]],
            f"{each['description']}; {each['notes']}" if each["notes"] else each["description"],
            each["licence"],
        )
        for each in found
    ]
    print_table(("name", "rows", "columns", "", "what it is", "licence"), rows, right=(1, 2))
    say("Files are looked for in the folder that DUALGAP_DATA names, then in the cache, then at their source.")
    return OK


def warm_up(
    jobs: Annotated[int | None, typer.Option(help="Processes side by side; by default one a processor.")] = None,
) -> int:
    """Compile the kernels of common fits ahead, so that no first fit waits for them: a minute or two, once.

    **Example**

        dualgap warm-up
    """
    from dualgap.estimators import warm_up as compile_ahead

    for ready in compile_ahead(jobs):
        say(ready)
    return OK


def example(
    folder: Annotated[Path, typer.Argument(help="Where to write the two files.")] = Path("."),
) -> int:
    """Write the example table of the tutorial.

    customers.csv is to train on, new-customers.csv to predict.

    \b
    Example:
      dualgap example
    """
    import shutil
    from tempfile import TemporaryDirectory

    from dualgap.data import write_example

    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as made:
        for new in write_example(made):
            path = folder / new.name
            if path.exists() and path.read_bytes() != new.read_bytes():
                raise ValueError(f"{path} exists already, with other contents; give another folder: dualgap example FOLDER")
        for new in sorted(Path(made).iterdir()):
            shutil.copyfile(new, folder / new.name)
            say(folder / new.name)
    return OK


for command in (example, fit, predict, certify, verify, convert, compare, reproduce, explain, report, solvers, datasets, warm_up):
    app.command()(stoppable(command))
