"""The command `fit`, from top to bottom: options, data, training, measures, the model's file, words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dualgap.app.options import Json, MaxSeconds, Seed, TaskName, loss_and_task, refuse_both, takes_table

if TYPE_CHECKING:
    from dualgap.data import TableOptions

__all__ = ["fit"]

Data = Annotated[
    list[str],
    typer.Argument(
        help="Files (CSV, TSV, Parquet, Arrow, NPZ, MAT, LIBSVM; packed or not), - for standard input, or a data set's name."
    ),
]


@takes_table
def fit(
    data: Data,
    table: TableOptions,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model", "-m", help="File to write the model to. [default: the data's name with .skops]", show_default=False
        ),
    ] = None,
    proof: Annotated[
        Path | None, typer.Option(help="File to write a proof of the certificate to, for `verify`.", show_default=False)
    ] = None,
    task: TaskName = "",
    loss: Annotated[
        str,
        typer.Option(
            help="Of classes: hinge, smooth_hinge, squared_hinge (default) or logistic. Of a regression: squared_error (default), "
            "epsilon_insensitive, squared_epsilon_insensitive, huber, absolute or quantile.",
            show_default=False,
        ),
    ] = "",
    c: Annotated[
        float | None,
        typer.Option(
            "--C",
            help="Inverse strength of the penalty, as in scikit-learn. [default: 1; if a loss of regression grows linearly, the standard "
            "deviation of the target]",
            show_default=False,
        ),
    ] = None,
    l2: Annotated[float | None, typer.Option(help="Strength of the penalty instead of C: l2 = 1 / (C · rows).")] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Residual up to which an epsilon-insensitive loss is 0, in units of the target. [default: 0]", show_default=False
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            help="Width of smooth_hinge [default: 1], or residual at which huber becomes linear [default: 1.35 standard deviations of the "
            "target].",
            show_default=False,
        ),
    ] = None,
    quantile: Annotated[
        float | None, typer.Option(help="The quantile that --loss quantile predicts. [default: 0.5]", show_default=False)
    ] = None,
    intercept: Annotated[str, typer.Option(help="free, penalised or none.")] = "free",
    balanced: Annotated[bool, typer.Option("--balanced", help="Let every class weigh alike.")] = False,
    positive: Annotated[
        bool,
        typer.Option(
            "--positive",
            help="Keep all coefficients at 0 or above: the prediction, or the score of the second class in alphabetical order, never falls "
            "with a feature.",
        ),
    ] = False,
    solver: Annotated[str, typer.Option(help="A solver's name, or auto.")] = "auto",
    tol: Annotated[float, typer.Option(help="Certified relative gap to reach.")] = 1e-4,
    max_seconds: MaxSeconds = None,
    cv: Annotated[
        int | None,
        typer.Option(min=0, help="Folds of cross-validation; 0 for none. [default: 5, if it is quick]", show_default=False),
    ] = None,
    seed: Seed = 0,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, whose workers train on a store.", show_default=False)
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="With --scheduler: folder for checkpoints, which all workers see; the same command goes on from it."),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help="With --scheduler: partitions of the rows. [default: one a thread]", show_default=False),
    ] = None,
    patience: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="With --scheduler: seconds to wait for a worker once none is left. [default: 60]", show_default=False
        ),
    ] = None,
    json_: Json = False,
) -> int:
    """Train a classifier or a regression, and prove how good it is.

    All rows are trained on. The linear model is written to a file with its proof. Words and a few different numbers in the target column
    are classes, many different numbers are the targets of a regression; --task says it where both are possible.

    Text, categories, dates and missing values of a table are turned into numbers; the output says how, and the model file keeps it. The
    file is of skops' format: opening it runs no code. Exit code 1 when the gap was not reached.

    \b
    Examples:
      dualgap fit mydata.csv --target label
      dualgap fit mydata.csv --target label --drop name --as zip=category --balanced
      dualgap fit houses.csv --target price --loss huber
      dualgap fit a9a --model a9a.skops --l2 1e-4 --tol 1e-6 --proof a9a.proof
      dualgap fit store/ --model big.skops --tol 1e-2
      dualgap fit /shared/store --scheduler tcp://10.0.0.1:8786 --checkpoint /shared/run
    """
    from dualgap.app import fit_display as show
    from dualgap.app.inputs import open_samples
    from dualgap.app.model_file import check_place
    from dualgap.app.tasks import TASKS
    from dualgap.app.terminal import columns_of, print_json, say
    from dualgap.app.training import checked_cluster, refuse_of_store, train
    from dualgap.core import suggest
    from dualgap.solvers import REGISTRY
    from dualgap.store import Store

    # 1) what is asked for
    chosen, asked = loss_and_task(loss, task)
    if intercept not in ("free", "penalised", "none"):
        raise ValueError(f"--intercept {intercept}: choose free, penalised or none")
    refuse_both(("--C", c), ("--l2", l2), "each sets the strength of the penalty")
    if solver != "auto" and solver not in REGISTRY:
        raise ValueError(f"--solver {solver}: there is no such solver; {suggest(solver, ['auto', *REGISTRY])}")
    if cv == 1:
        raise ValueError("--cv 1: with one fold no rows are left to train on; give at least 2, or 0 for no cross-validation")
    # 2) the data, and where the model goes
    table = replace(table, task=asked)
    samples = open_samples(data, table)
    cluster = checked_cluster(samples, data[0], scheduler, checkpoint, partitions, patience)
    if isinstance(samples, Store):
        refuse_of_store(samples, table, {"--proof": proof, "--cv": cv})
    out = model or Path(f"{'model' if data[0] == '-' else Path(data[0]).name.split('.')[0] or 'model'}.skops")
    check_place(out)
    if out == proof or any(Path(word) == out for word in data):
        raise ValueError(f"--model {out} is a file that this command reads or writes otherwise; give the model another name")
    # 3) training, measures, the file
    parameters: dict[str, Any] = {
        "fit_intercept": intercept != "none",
        "intercept": "penalised" if intercept == "penalised" else "free",
        "positive": positive,
        "solver": solver,
        "tol": tol,
        "max_time": max_seconds,
        "random_state": seed,
    }
    y = samples.labels() if isinstance(samples, Store) else samples.y
    C = c if l2 is None else 1.0 / (l2 * samples.shape[0])
    parameters |= TASKS[samples.task].parameters(y, chosen, C, balanced, delta, epsilon=epsilon, quantile=quantile)
    if not json_:
        show.introduce(samples)
    made = train(samples, y, out, cluster, json_, cv, parameters)
    # 4) what came of it
    if json_:
        told = {"prepared": columns_of(made.encoder.preparation), "model": out, **({"proof": proof} if proof else {})}
        print_json({**made.about, **told})
    else:
        show.show_fit(made, None if isinstance(samples, Store) else y, cv, "epoch" if cluster is None else "round")
        say(out)
    if proof is not None:
        made.estimator.proof_.save(proof, preparation=made.preparation_words())
        if not json_:
            say(proof)
    return show.exit_code(made.about["status"], out)
