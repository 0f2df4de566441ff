"""The commands `compare`, `reproduce`, `explain` and `report`: race solvers, run studies, write reports."""

from __future__ import annotations

import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dualgap.app.options import INCOMPLETE, OK, Json, Seed, loss_called, takes_table
from dualgap.app.terminal import print_json, print_table, say, screen, warn

if TYPE_CHECKING:
    from dualgap.data import TableOptions
    from dualgap.lab import Report

__all__ = ["compare", "explain", "report", "reproduce"]

Runs = Annotated[int | None, typer.Option("--runs", min=1, help="Runs of each solver on each problem.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Runs at a time. [default: all cores]", show_default=False)]
CpuSeconds = Annotated[float | None, typer.Option(min=0.001, help="Most processor seconds of updates that one run may take.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for results and report.", show_default=False)]
Positive = Annotated[list[str], typer.Option(help="Of more than two classes, one that counts as positive; may be repeated.")]


@takes_table
def compare(
    data: Annotated[
        list[str] | None, typer.Argument(help="Files, or names of data sets. [default: data that ship]", show_default=False)
    ] = None,
    *,
    table: TableOptions,
    positive: Positive = [],  # noqa: B006
    solvers: Annotated[
        str, typer.Option(help="Solvers, with commas between. [default: all that support the problem]", show_default=False)
    ] = "",
    loss: Annotated[str, typer.Option(help="Losses, with commas between.")] = "hinge,smooth_hinge",
    delta: Annotated[
        float | None, typer.Option(help="Width of the smooth hinge's bend. [default: 0.5]", show_default=False)
    ] = None,
    l2: Annotated[str, typer.Option(help="Strength of the l2 penalty; several with commas between.")] = "1e-3",
    l1: Annotated[float, typer.Option(min=0, help="Strength of the l1 penalty.")] = 0.0,
    intercept: Annotated[
        str,
        typer.Option(
            help="none, penalised or free. [default: penalised, which every solver can; with a kernel free]", show_default=False
        ),
    ] = "",
    kernel: Annotated[str, typer.Option(help="linear, rbf, poly or sigmoid. [default: no kernel]", show_default=False)] = "",
    gamma: Annotated[
        str, typer.Option(help="The kernel's gamma: a number, scale or auto. [default: scale]", show_default=False)
    ] = "",
    balance: Annotated[str, typer.Option(help="none, class_weight, undersample or both.")] = "none",
    test_size: Annotated[float, typer.Option(help="Share of the rows held out, where the source sets none apart.")] = 0.333,
    tol: Annotated[float, typer.Option(help="Relative gap at which a run has converged.")] = 1e-6,
    epochs: Annotated[int, typer.Option(min=1, help="Most epochs of a run.")] = 1000,
    max_seconds: CpuSeconds = 2.0,
    runs: Runs = 3,
    seed: Seed = 0,
    jobs: Jobs = None,
    out: Out = None,
    json_: Json = False,
) -> int:
    """Race solvers on your data, and write a report.

    Rows are split into training and test rows (stratified); dense data are standardised. LIBLINEAR, SGDClassifier and libsvm race along
    through scikit-learn where they support the problem; their models are certified like the rest. Results are kept in the folder as each
    run ends: give the same command again to go on after a stop.

    \b
    Examples:
      dualgap compare
      dualgap compare mydata.csv --target label
      dualgap compare a9a --solvers sdca,pegasos --l2 1e-4,1e-5 --runs 10 --out races/a9a
      dualgap compare creditcard --balance class_weight --loss smooth_hinge --max-seconds 10
    """
    from dualgap.app.inputs import is_store_folder
    from dualgap.data import spooled_input
    from dualgap.lab import Comparison, Report

    folder, losses = out or Path("dualgap-report"), [loss_called(word) for word in _words(loss)]
    if delta is not None and "smooth_hinge" not in losses:
        raise ValueError(f"--delta {delta:g} is the width of smooth_hinge, and --loss is {loss}; leave one of them out")
    if gamma and kernel not in ("rbf", "poly", "sigmoid"):
        raise ValueError(f"--gamma {gamma} belongs to --kernel rbf, poly or sigmoid, and --kernel is {kernel or 'not given'}")
    with ExitStack() as stack:
        words = [str(stack.enter_context(spooled_input())) if word == "-" else word for word in data or ()]
        for word in filter(is_store_folder, words):
            raise ValueError(f"{word} is a store; compare needs the rows in memory: give the files that the store was made from")
        made = Comparison(
            words,
            table=table,
            positive=positive,
            solvers=_words(solvers),
            losses=losses,
            delta=0.5 if delta is None else delta,
            l2=[_number(word, "--l2") for word in _words(l2)],
            l1=l1,
            intercept=intercept,
            kernel=kernel,
            gamma=gamma or "scale" if gamma in ("", "scale", "auto") else _number(gamma, "--gamma"),
            balance=balance,
            test_size=test_size,
            tol=tol,
            epochs=epochs,
            seconds=max_seconds or 2.0,
            runs=runs or 3,
            seed=seed,
        )
        ran = _run(made.study(), folder, jobs, quiet=json_)
    if ran.missing and not ran.results.rows:
        raise ValueError("; ".join(ran.missing.values()))
    written = Report(ran.results, ran.missing)
    page = written.write(folder)
    if json_:
        print_json({"report": page, **_race_facts(written), **_faults(ran)})
    else:
        _show_race(written, folder)
        say(page)
    return _exit_code(ran)


def _show_race(made: Report, folder: Path) -> None:
    """Print how each solver ended, problem by problem, which solver to use, and where the figures are."""
    from dualgap.lab import shown_number, summary_table

    for data in map(summary_table, made.rankings):
        last = len(data.columns) - 1
        print_table(
            data.columns, (tuple(map(shown_number, row)) for row in data.rows), right=range(1, last), title=data.title, fold=False
        )
        say()
    for line in made.advice:
        say(line)
    for picture in sorted((folder / "figures").glob("*.png")):
        say(f"figure {picture}")


def _race_facts(made: Report) -> dict[str, Any]:
    """Return the results of a race as plain data."""
    problems = [{"problem": each.title, "data": each.data, "runs": each.runs, "solvers": each.rows} for each in made.rankings]
    return {"problems": problems, "advice": made.advice}


def reproduce(
    name: Annotated[str, typer.Argument(help="A study that ships (`list` shows their names), a TOML file of yours, or `all`.")],
    runs: Runs = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    out: Out = None,
    max_seconds: CpuSeconds = None,
    json_: Json = False,
) -> int:
    """Run a study, and judge each statement of its text.

    With `all`, overview.html lists all statements of the texts and how they came out. Two of the studies that ship need data that are
    fetched by hand; the message says what, from where and where to put it (see `dualgap datasets`).

    Without --runs a study goes on with more draws until each statement is decided, or until it has taken the processor seconds that its
    settings allow.

    \b
    Examples:
      dualgap reproduce list
      dualgap reproduce all --out reproductions
      dualgap reproduce my-study.toml
    """
    from dualgap.lab import Report, counts_table, explain_number, load_study, study_names, write_overview

    if name == "list":
        say("\n".join(study_names()))
        return OK
    studies = [load_study(each) for each in (study_names() if name == "all" else [name])]
    folder = out or Path("dualgap-reproductions")
    done: dict[str, Any] = {}
    reports, pages = {}, {}
    for study in studies:
        changes: dict[str, Any] = {"seed": seed} | ({"runs": runs, "seconds": 0.0} if runs else {})
        if len(studies) > 1 and not json_:
            screen(stderr=True).rule(study.name)
        here = folder / study.name
        study = study.with_(**changes).limited(max_seconds)
        ran = done[study.name] = _run(study, here, jobs, lines=False, quiet=json_)
        for entry in study.explain:
            if entry.data not in ran.missing:
                ran.failed += explain_number(study, entry.id, here, jobs)[1].failed
        made = reports[study.name] = Report(ran.results, ran.missing)
        pages[study.name] = made.write(here)
        if not json_:
            _show_statements(made)
            say(pages[study.name])
    overview = write_overview(reports, folder) if len(studies) > 1 else None
    if json_:
        told = {
            each: {"report": pages[each], "statements": _statements(report), **_faults(done[each])}
            for each, report in reports.items()
        }
        print_json({"studies": told, **({"overview": overview} if overview else {})})
    elif overview:
        counts = counts_table({each: made.verdicts for each, made in reports.items()})
        print_table(counts.columns, counts.rows, right=range(1, len(counts.columns)))
        say(overview)
    return max(_exit_code(ran) for ran in done.values())


def explain(
    study: Annotated[str, typer.Argument(help="A study that ships, or a TOML file of yours.")],
    statement: Annotated[str, typer.Argument(help="The id of a statement whose number the study explains, or `list`.")],
    seed: Seed = 0,
    jobs: Jobs = None,
    out: Out = None,
    json_: Json = False,
) -> int:
    """Search what a text leaves unsaid for settings that give its number.

    The settings are shown, with how far each comes from the number. The study uses none of them.

    \b
    Examples:
      dualgap explain credit-fraud list
      dualgap explain credit-fraud fraud-065
    """
    from dualgap.lab import explain_number, load_study, shown_number

    found = load_study(study).with_(seed=seed)
    if statement == "list":
        ids = [entry.id for entry in found.explain]
        print_json({"statements": ids}) if json_ else say("\n".join(ids))
        return OK
    table, ran = explain_number(found, statement, (out or Path("dualgap-reproductions")) / found.name, jobs)
    if json_:
        told = {"columns": table.columns, "rows": table.rows, "near": len(table.best), "about": table.caption}
        print_json({**told, "failed": _faults(ran)["failed"]})
        return _exit_code(ran)
    rows = (tuple(map(shown_number, row)) for row in table.rows)
    print_table(table.columns, rows, right=range(len(table.columns)), title=table.title, fold=False)
    say(table.caption)
    if ran.failed:
        warn(f"{len(ran.failed)} run(s) failed, the first with {ran.failed[0].error}; the same command tries them again")
    return _exit_code(ran)


def _show_statements(made: Report) -> None:
    """Print the verdict on each statement of a study's text, and why."""
    from dualgap.lab import SIGNS

    for verdict in made.verdicts:
        screen().print(f"{SIGNS[verdict.verdict]} {verdict.verdict}: {verdict.claim.says}", style="bold", markup=False)
        for line in verdict.why.splitlines():
            say(f"  {line}")


def _statements(made: Report) -> list[dict[str, Any]]:
    """Return the verdict on each statement of a study's text as plain data."""
    return [
        {"id": each.claim.id, "says": each.claim.says, "verdict": each.verdict, "why": each.why, "numbers": each.numbers}
        for each in made.verdicts
    ]


def report(
    folder: Annotated[Path, typer.Argument(help="A folder that compare or reproduce wrote.")],
    json_: Json = False,
) -> int:
    """Write the report of stored results again.

    Nothing is run, and the data are not needed.

    \b
    Examples:
      dualgap report dualgap-report
      dualgap report dualgap-reproductions/convergence
    """
    from dualgap.lab import Report, Results, ResultStore, load_study

    if not (folder / "study.json").exists():
        raise ValueError(f"{folder} holds no results: there is no study.json in it; give a folder that compare or reproduce wrote")
    results = Results.load(load_study(folder / "study.json"), ResultStore(folder / "results"))
    if not results.rows:
        raise ValueError(f"{folder} holds no results yet; give the command that made it again")
    made = Report(results)
    page = made.write(folder)
    if json_:
        print_json({"report": page, **_race_facts(made), "statements": _statements(made)})
    else:
        say(page)
    return OK


def _run(study: Any, out: Path, jobs: int | None, lines: bool = True, quiet: bool = False) -> Any:
    """Run a study and return what ran; its progress goes to standard error."""
    from dualgap.lab import Display, Live, run_study

    command = shlex.join(["dualgap", *sys.argv[1:]])
    ran = run_study(study, out, jobs, Display() if quiet else Live(screen(stderr=True), lines=lines), command)
    if ran.failed:
        warn(f"{len(ran.failed)} run(s) failed; the report lists them, and the same command tries them again")
    return ran


def _exit_code(ran: Any) -> int:
    return INCOMPLETE if ran.failed or ran.missing else OK


def _faults(ran: Any) -> dict[str, Any]:
    """Return what did not run as plain data."""
    return {"failed": [{"run": each.what, "error": each.error} for each in ran.failed], "missing": ran.missing}


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _number(word: str, option: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"{option}: {word!r} is not a number") from None
