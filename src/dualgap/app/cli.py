"""The command line: `dualgap compare`, `reproduce`, `report`, `solvers`, `datasets`, `convert`, `fit`, `predict`, `certify`, `verify`.

This module runs a command and turns an error into one line on standard error; --debug adds the traceback. What the commands do is in
`race_commands`, `model_commands` and `verify_command`.

Exit codes: 0 done; 1 an error, a certificate that misses --tol, or a proof that is refused; 2 a command that was not understood; 3 done,
but some runs failed or some data were missing; 130 stopped by Ctrl-C (the same command goes on from there).
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated

import typer

from dualgap.app.model_commands import certify, convert, fit, predict
from dualgap.app.options import ERROR, INTERRUPTED, OK, USAGE
from dualgap.app.race_commands import compare, report, reproduce
from dualgap.app.verify_command import verify

__all__ = ["app", "main"]

app = typer.Typer(
    name="dualgap",
    help="Train support vector machines and prove how good they are; race solvers; reproduce five studies.",
    epilog="Every command takes --help. With --debug, an error shows its traceback.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        code = app(arguments, prog_name="dualgap", standalone_mode=False)
        return _stopped() if code == INTERRUPTED else code if isinstance(code, int) else OK
    except KeyboardInterrupt:  # typer turns most of them into an exit code
        return _stopped()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _explain(error, debug)


def _stopped() -> int:
    print("dualgap: stopped; what is done is kept, and the same command goes on from there", file=sys.stderr)
    return INTERRUPTED


def _explain(error: Exception, debug: bool) -> int:
    """Print an error in one line; return the exit code."""
    if hasattr(error, "format_message"):
        print(f"dualgap: {' '.join(error.format_message().split())} (see dualgap --help)", file=sys.stderr)
        return int(getattr(error, "exit_code", USAGE))
    if isinstance(error, ImportError):
        print(f"dualgap: {error}; the command line needs the extra 'lab': pip install 'dualgap[lab]'", file=sys.stderr)
        return ERROR
    expected = isinstance(error, ValueError | OSError | ArithmeticError)
    text = " ".join(str(error).split()) or type(error).__name__
    hint = "" if expected or debug else f" (unexpected {type(error).__name__}; --debug shows the traceback)"
    print(f"dualgap: {text}{hint}", file=sys.stderr)
    return ERROR


@app.callback()
def _options(debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False) -> None:
    pass  # `main` takes --debug out of the arguments, so it may stand anywhere; here it is listed by --help


def solvers() -> int:
    """List the solvers and what each supports.

    **Example**

        dualgap solvers
    """
    from dualgap.solvers import solver_table

    print(solver_table())
    return OK


def datasets() -> int:
    """List the data sets, whether they are at hand, and where each comes from.

    **Example**

        dualgap datasets
    """
    from dualgap.app.terminal import print_datasets

    print_datasets()
    return OK


for command in (compare, reproduce, report, solvers, datasets, convert, fit, predict, certify, verify):
    app.command()(command)
