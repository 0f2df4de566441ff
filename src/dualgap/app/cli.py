"""The command line: `dualgap compare`, `reproduce`, `report`, `convert`, `fit`, `predict`, `certify`, `solvers`, `datasets`.

Each command is a few lines over the library. An error is one line on standard error; --debug adds the traceback.

Exit codes: 0 done; 1 an error, or a certificate that misses --tol; 2 a command that was not understood; 3 done, but some runs failed or
some data were missing; 130 stopped by Ctrl-C (the same command goes on from there).
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer

from dualgap.app.fitting import ERROR, OK, MaxSeconds, Seed, Target, convert, fit, samples_of

__all__ = ["app", "main"]

USAGE, INCOMPLETE, INTERRUPTED = 2, 3, 130

app = typer.Typer(
    name="dualgap",
    help="Train support vector machines and prove how good they are; race solvers; reproduce five studies.",
    epilog="Every command takes --help. With --debug, an error shows its traceback.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

Runs = Annotated[int | None, typer.Option("--runs", min=1, help="Runs of each solver on each problem.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Runs at a time. [default: all cores]", show_default=False)]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for results and report.", show_default=False)]
Positive = Annotated[list[str], typer.Option(help="Of more than two classes, one that counts as positive; may be repeated.")]


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        code = app(arguments, prog_name="dualgap", standalone_mode=False)
        return _stopped() if code == INTERRUPTED else code if isinstance(code, int) else OK
    except KeyboardInterrupt:  # which typer turns into an exit code, where it can
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
    """One line for an error; a command that was not understood has a code of its own."""
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
    pass  # --debug is taken out of the arguments by main, so that it may stand anywhere


@app.command()
def compare(
    data: Annotated[
        list[str] | None, typer.Argument(help="Files, or names of data sets. [default: data that ship]", show_default=False)
    ] = None,
    target: Target = "",
    positive: Positive = [],  # noqa: B006
    solvers: Annotated[
        str, typer.Option(help="Solvers, with commas between. [default: all that support the problem]", show_default=False)
    ] = "",
    loss: Annotated[str, typer.Option(help="Losses, with commas between.")] = "hinge,smooth_hinge",
    delta: Annotated[float, typer.Option(help="Width of the smooth hinge's bend.")] = 0.5,
    l2: Annotated[str, typer.Option(help="Strength of the l2 penalty; several with commas between.")] = "1e-3",
    l1: Annotated[float, typer.Option(min=0, help="Strength of the l1 penalty.")] = 0.0,
    intercept: Annotated[str, typer.Option(help="none, penalised or free.")] = "none",
    balance: Annotated[str, typer.Option(help="none, class_weight, undersample or both.")] = "none",
    standardise: Annotated[
        bool | None,
        typer.Option("--standardise/--no-standardise", help="[default: dense data yes, sparse data no]", show_default=False),
    ] = None,
    test_size: Annotated[float, typer.Option(help="Share of the rows held out, where the source sets none apart.")] = 0.333,
    tol: Annotated[float, typer.Option(help="Relative gap at which a run has converged.")] = 1e-6,
    epochs: Annotated[int, typer.Option(min=1, help="Most epochs of a run.")] = 1000,
    max_seconds: MaxSeconds = 2.0,
    runs: Runs = 3,
    seed: Seed = 0,
    jobs: Jobs = None,
    out: Out = None,
) -> int:
    """Race solvers on your data, or on data that ship, and write a report.

    Rows are split into training and test rows (stratified); dense data are standardised. Results are kept in the folder as each run ends:
    give the same command again to go on after a stop.

    **Examples**

        dualgap compare
        dualgap compare mydata.csv --target label
        dualgap compare a9a --solvers sdca,pegasos --l2 1e-4,1e-5 --runs 10 --out races/a9a
        dualgap compare creditcard --balance class_weight --loss smooth_hinge --max-seconds 10
    """
    from dualgap.lab import comparison

    study = comparison(
        data or (),
        target=target,
        positive=positive,
        solvers=_words(solvers),
        losses=_words(loss),
        delta=delta,
        l2=[_number(word, "--l2") for word in _words(l2)],
        l1=l1,
        intercept=intercept,
        balance=balance,
        standardise=standardise,
        test_size=test_size,
        tol=tol,
        epochs=epochs,
        seconds=max_seconds or 2.0,
        runs=runs or 3,
        seed=seed,
    )
    return _run(study, out or Path("dualgap-report"), jobs, tables=True)


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(help="A study that ships, a TOML file of yours, or `all`.")],
    runs: Runs = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    out: Out = None,
    max_seconds: MaxSeconds = None,
) -> int:
    """Run a study: its figures, its tables, and a verdict on each of its claims.

    The studies: blood-cells, convergence, credit-fraud, huberised, primal-dual. Two of them need data that are fetched by hand; the
    message says what, from where and where to put it (see `dualgap datasets`).

    **Examples**

        dualgap reproduce primal-dual
        dualgap reproduce all --runs 5 --out reproductions
        dualgap reproduce blood-cells --runs 100
        dualgap reproduce my-study.toml
    """
    from dualgap.app.terminal import console
    from dualgap.lab import load_study, study_names

    names = study_names() if name == "all" else [name]
    studies = [load_study(each) for each in names]
    folder = out or Path("dualgap-reproductions")
    codes = []
    for study in studies:
        changes: dict[str, Any] = {"seed": seed} | ({"runs": runs} if runs else {})
        if len(studies) > 1:
            console(stderr=True).rule(study.name)
        codes.append(_run(study.with_(**changes).limited(max_seconds), folder / study.name, jobs, lines=False))
    return max(codes)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A folder that compare or reproduce wrote.")],
) -> int:
    """Write the report of stored results again, without running anything.

    **Examples**

        dualgap report dualgap-report
        dualgap report dualgap-reproductions/convergence
    """
    from dualgap.lab import Results, Store, load_study, write_report

    if not (folder / "study.json").exists():
        raise ValueError(f"{folder} holds no results: there is no study.json in it; give a folder that compare or reproduce wrote")
    results = Results.load(load_study(folder / "study.json"), Store(folder / "results"))
    if not results.rows:
        raise ValueError(f"{folder} holds no results of this version of dualgap; give the command that made it again")
    print(write_report(results, folder))
    return OK


@app.command()
def solvers() -> int:
    """List the solvers and what each supports.

    **Example**

        dualgap solvers
    """
    from dualgap.solvers import solver_table

    print(solver_table())
    return OK


@app.command()
def datasets() -> int:
    """List the data sets, whether they are at hand, and where each comes from.

    **Example**

        dualgap datasets
    """
    from dualgap.app.terminal import print_datasets

    print_datasets()
    return OK


app.command()(convert)
app.command()(fit)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model that fit wrote.")],
    data: Annotated[str, typer.Argument(help="A file with the columns that the model was trained on.")],
    target: Target = "",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file to write. [default: standard output]", show_default=False)
    ] = None,
) -> int:
    """Predict the labels of new samples: a CSV with a label and a score a row (scores of each class where there are more than two).

    **Examples**

        dualgap predict model.skops new.csv
        dualgap predict model.skops new.csv --out predictions.csv
    """
    import numpy as np

    from dualgap.app.model_file import features_of, load_model
    from dualgap.lab import TableData, write_atomically

    made = load_model(model)
    X = features_of(made, data, target or None)
    scores = np.asarray(made.pipeline.decision_function(X)).reshape(X.shape[0], -1)
    labels = made.pipeline.predict(X)
    heads = ("label", "score") if scores.shape[1] == 1 else ("label", *(f"score {name}" for name in made.estimator.classes_))
    rows = tuple((label, *map(float, row)) for label, row in zip(labels.tolist(), scores, strict=True))
    text = TableData("predictions", "", "", heads, rows).to_csv()
    if out is None:
        print(text, end="")
    else:
        write_atomically(out, text)
        print(out)
    return OK


@app.command()
def certify(
    model: Annotated[Path, typer.Argument(help="A model that fit wrote.")],
    data: Annotated[str, typer.Argument(help="The data to judge it on: a file, or the name of a data set.")],
    target: Target = "",
    tol: Annotated[float | None, typer.Option(help="Exit with code 1 unless the relative gap is at most this.")] = None,
) -> int:
    """Prove how far a model is at most from the best one for its objective on some data.

    On the data it was trained on, that is how well training did; on other data, how far it is from a model trained there.

    **Examples**

        dualgap certify model.skops mydata.csv --target label
        dualgap certify model.skops mydata.csv --target label --tol 1e-3
    """
    from dualgap.app.model_file import certify_model, load_model

    worst = 0.0
    for name, certificate in certify_model(load_model(model), samples_of(data, target)):
        print(f"{name}: {certificate}" if name else certificate)
        worst = max(worst, certificate.relative_gap)
    print(f"relative gap {worst:.3g}")
    if tol is not None and worst > tol:
        print(f"dualgap: the certified relative gap {worst:.3g} is above --tol {tol:g}", file=sys.stderr)
        return ERROR
    return OK


def _run(study: Any, out: Path, jobs: int | None, lines: bool = True, tables: bool = False) -> int:
    """Run a study and write its report; the page's path is the last line."""
    from dualgap.app.terminal import console, print_claims, print_tables
    from dualgap.lab import Live, run_study, write_report

    ran = run_study(study, out, jobs, Live(console(stderr=True), lines=lines))
    page = write_report(ran.results, out, ran.missing)
    if tables:
        print_tables(ran.results)
    elif study.claims:
        print_claims(ran.results)
    for picture in sorted((out / "figures").glob("*.png")) if tables else []:
        print(f"figure {picture}")
    if ran.failed:
        print(
            f"dualgap: {len(ran.failed)} run(s) failed; the report lists them, and the same command tries them again",
            file=sys.stderr,
        )
    print(page)
    return INCOMPLETE if ran.failed or ran.missing else OK


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _number(word: str, option: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"{option}: {word!r} is not a number") from None
