"""The commands `compare`, `reproduce` and `report`: race solvers, run studies, write reports."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dualgap.app.options import INCOMPLETE, OK, Seed, Standardise, Target

__all__ = ["compare", "report", "reproduce"]

Runs = Annotated[int | None, typer.Option("--runs", min=1, help="Runs of each solver on each problem.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Runs at a time. [default: all cores]", show_default=False)]
CpuSeconds = Annotated[float | None, typer.Option(min=0.001, help="Most processor seconds of updates that one run may take.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for results and report.", show_default=False)]
Positive = Annotated[list[str], typer.Option(help="Of more than two classes, one that counts as positive; may be repeated.")]


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
    intercept: Annotated[str, typer.Option(help="none, penalised or free.")] = "free",
    kernel: Annotated[str, typer.Option(help="linear, rbf, poly or sigmoid. [default: no kernel]", show_default=False)] = "",
    gamma: Annotated[str, typer.Option(help="The kernel's gamma: a number, scale or auto.")] = "scale",
    balance: Annotated[str, typer.Option(help="none, class_weight, undersample or both.")] = "none",
    standardise: Standardise = None,
    test_size: Annotated[float, typer.Option(help="Share of the rows held out, where the source sets none apart.")] = 0.333,
    tol: Annotated[float, typer.Option(help="Relative gap at which a run has converged.")] = 1e-6,
    epochs: Annotated[int, typer.Option(min=1, help="Most epochs of a run.")] = 1000,
    max_seconds: CpuSeconds = 2.0,
    runs: Runs = 3,
    seed: Seed = 0,
    jobs: Jobs = None,
    out: Out = None,
) -> int:
    """Race solvers on your data, or on data that ship, and write a report.

    Rows are split into training and test rows (stratified); dense data are standardised. LIBLINEAR, SGDClassifier and libsvm race along
    through scikit-learn where they support the problem; their models are certified like the rest. Results are kept in the folder as each
    run ends: give the same command again to go on after a stop.

    **Examples**

        dualgap compare
        dualgap compare mydata.csv --target label
        dualgap compare a9a --solvers sdca,pegasos --l2 1e-4,1e-5 --runs 10 --out races/a9a
        dualgap compare creditcard --balance class_weight --loss smooth_hinge --max-seconds 10
    """
    from dualgap.lab import Comparison

    made = Comparison(
        data or (),
        target=target,
        positive=positive,
        solvers=_words(solvers),
        losses=_words(loss),
        delta=delta,
        l2=[_number(word, "--l2") for word in _words(l2)],
        l1=l1,
        intercept=intercept,
        kernel=kernel,
        gamma=gamma if gamma in ("scale", "auto") else _number(gamma, "--gamma"),
        balance=balance,
        standardise=standardise,
        test_size=test_size,
        tol=tol,
        epochs=epochs,
        seconds=max_seconds or 2.0,
        runs=runs or 3,
        seed=seed,
    )
    return _run(made.study(), out or Path("dualgap-report"), jobs, tables=True)[0]


def reproduce(
    name: Annotated[str, typer.Argument(help="A study that ships, a TOML file of yours, or `all`.")],
    runs: Runs = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    out: Out = None,
    max_seconds: CpuSeconds = None,
) -> int:
    """Run a study: its figures, its tables, and a verdict on each statement of its text.

    With `all`, overview.html lists all statements of the five texts and how they came out. The studies: blood-cells, convergence,
    credit-fraud, huberised, primal-dual. Two of them need data that are fetched by hand; the message says what, from where and where to put
    it (see `dualgap datasets`).

    **Examples**

        dualgap reproduce primal-dual
        dualgap reproduce all --runs 5 --out reproductions
        dualgap reproduce blood-cells --runs 100
        dualgap reproduce my-study.toml
    """
    from dualgap.app.terminal import console, print_counts
    from dualgap.lab import judge, load_study, study_names, write_overview

    names = study_names() if name == "all" else [name]
    studies = [load_study(each) for each in names]
    folder = out or Path("dualgap-reproductions")
    codes, results = [], {}
    for study in studies:
        changes: dict[str, Any] = {"seed": seed} | ({"runs": runs} if runs else {})
        if len(studies) > 1:
            console(stderr=True).rule(study.name)
        code, results[study.name] = _run(study.with_(**changes).limited(max_seconds), folder / study.name, jobs, lines=False)
        codes.append(code)
    if len(studies) > 1:
        page = write_overview(results, folder)
        print_counts({name: [judge(found, claim) for claim in found.study.claims] for name, found in results.items()})
        print(page)
    return max(codes)


def report(
    folder: Annotated[Path, typer.Argument(help="A folder that compare or reproduce wrote.")],
) -> int:
    """Write the report of stored results again, without running anything and without the data.

    **Examples**

        dualgap report dualgap-report
        dualgap report dualgap-reproductions/convergence
    """
    from dualgap.lab import Results, ResultStore, load_study, write_report

    if not (folder / "study.json").exists():
        raise ValueError(f"{folder} holds no results: there is no study.json in it; give a folder that compare or reproduce wrote")
    results = Results.load(load_study(folder / "study.json"), ResultStore(folder / "results"))
    if not results.rows:
        raise ValueError(f"{folder} holds no results yet; give the command that made it again")
    print(write_report(results, folder))
    return OK


def _run(study: Any, out: Path, jobs: int | None, lines: bool = True, tables: bool = False) -> tuple[int, Any]:
    """Run a study and write its report; the page's path is the last line. Return the exit code and the results."""
    from dualgap.app.terminal import console, print_advice, print_claims, print_tables
    from dualgap.lab import Live, run_study, write_report

    command = shlex.join(["dualgap", *sys.argv[1:]])
    ran = run_study(study, out, jobs, Live(console(stderr=True), lines=lines), command)
    page = write_report(ran.results, out, ran.missing)
    if tables:
        print_tables(ran.results)
        print_advice(ran.results)
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
    return (INCOMPLETE if ran.failed or ran.missing else OK), ran.results


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _number(word: str, option: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"{option}: {word!r} is not a number") from None
