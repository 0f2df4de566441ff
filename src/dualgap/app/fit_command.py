"""The command `fit`, from top to bottom: options, data, training, measures, the model's file, words."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dualgap import __version__
from dualgap.app import fit_display as show
from dualgap.app.inputs import open_samples
from dualgap.app.model_file import SavedModel, check_place, save_model
from dualgap.app.options import Json, MaxSeconds, Seed, TaskName, is_given, loss_and_task, refuse_both, takes_table
from dualgap.app.store_training import ClusterOptions, checkpoint_of, on_cluster, with_checkpoints
from dualgap.app.tasks import TASKS, cross_validate, fit_facts, important_features
from dualgap.app.terminal import columns_of, print_json, say
from dualgap.core import suggest
from dualgap.data import Samples, TableOptions, doubtful_labels
from dualgap.estimators import ConvergenceWarning
from dualgap.solvers import REGISTRY
from dualgap.store import Store

__all__ = ["fit"]

CV_SECONDS = 60.0  # a cross-validation that would take longer is left out unless it was asked for

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
    chosen, asked = loss_and_task(loss, task)
    if intercept not in ("free", "penalised", "none"):
        raise ValueError(f"--intercept {intercept}: choose free, penalised or none")
    refuse_both(("--C", c), ("--l2", l2), "each sets the strength of the penalty")
    if solver != "auto" and solver not in REGISTRY:
        raise ValueError(f"--solver {solver}: there is no such solver; {suggest(solver, ['auto', *REGISTRY])}")
    if cv == 1:
        raise ValueError("--cv 1: with one fold no rows are left to train on; give at least 2, or 0 for no cross-validation")
    table = replace(table, task=asked)
    samples = open_samples(data, table)
    cluster = _cluster(samples, data[0], scheduler, checkpoint, partitions, patience)
    if isinstance(samples, Store):
        _refuse_of_store(samples, table, {"--proof": proof, "--cv": cv})
    out = model or Path(f"{'model' if data[0] == '-' else Path(data[0]).name.split('.')[0] or 'model'}.skops")
    check_place(out)
    if out == proof or any(Path(word) == out for word in data):
        raise ValueError(f"--model {out} is a file that this command reads or writes otherwise; give the model another name")
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
        _introduce(samples)
    made = _train(samples, y, out, cluster, json_, cv, parameters)
    if json_:
        told = {"prepared": columns_of(made.encoder.preparation), "model": out, **({"proof": proof} if proof else {})}
        print_json({**made.about, **told})
    else:
        _show(made, None if isinstance(samples, Store) else y, cv, "epoch" if cluster is None else "round")
        say(out)
    if proof is not None:
        made.estimator.proof_.save(proof, preparation=made.preparation_words())
        if not json_:
            say(proof)
    return show.exit_code(made.about["status"], out)


def _cluster(
    samples: Samples | Store,
    name: str,
    scheduler: str | None,
    checkpoint: str | None,
    partitions: int | None,
    patience: float | None,
) -> ClusterOptions | None:
    """Return where a fit on a cluster runs; refuse a cluster without a store, and options of a cluster without one."""
    if scheduler is None:
        for option, value in (("--checkpoint", checkpoint), ("--partitions", partitions), ("--patience", patience)):
            if value is not None:
                raise ValueError(
                    f"{option} goes with --scheduler; a fit here keeps its own checkpoint beside the model, and has no workers"
                )
        return None
    if not isinstance(samples, Store):
        raise ValueError(f"--scheduler trains on a store, and {name} is none: make one with `dualgap convert {name} FOLDER` first")
    return ClusterOptions(scheduler, checkpoint, partitions, 60.0 if patience is None else patience)


def _refuse_of_store(store: Store, table: TableOptions, of_rows: dict[str, Any]) -> None:
    """Refuse options that need the rows in memory, and those that `convert` has decided."""
    for option, value in of_rows.items():
        if value:
            raise ValueError(f"{option} {value} needs the rows in memory, and {store.folder} is a store; leave it out")
    if table.task not in ("", store.task):
        raise ValueError(
            f"{store.folder} was converted for a {store.task}, and --task or --loss says {table.task}: convert the data again with "
            f"--task {table.task}"
        )
    given = {
        "--target": table.target,
        "--drop": table.drop,
        "--as": table.kinds,
        "--above": table.above,
        "--missing": table.missing,
        "--standardise": table.standardise,
        "--no-prepare": not table.prepare,
        "--header": table.header,
    }
    for option, value in given.items():
        if is_given(value):
            raise ValueError(
                f"{option} with a store: a store keeps the columns as `dualgap convert` made them; give the option there"
            )


def _introduce(samples: Samples | Store) -> None:
    """Print what the data are."""
    if isinstance(samples, Store):
        kind = "a regression" if samples.task == "regression" else f"{len(samples.classes)} classes"
        say(f"{samples.folder}: {samples.shape[0]:,} rows × {samples.shape[1]:,} features, {kind}")
        return
    kind, *more = TASKS[samples.task].described(samples)
    say(f"{samples.name}: {samples.shape[0]:,} rows × {samples.shape[1]:,} columns, {kind}")
    for line in more:
        say(line)
    if samples.without:
        say(f"{samples.without:,} rows without a label in {samples.target!r} are left out")
    for line in doubtful_labels(samples.y):
        say(line)


def _train(
    samples: Samples | Store,
    y: Any,
    out: Path,
    cluster: ClusterOptions | None,
    quiet: bool,
    cv: int | None,
    parameters: dict[str, Any],
) -> SavedModel:
    """Train a model on rows in memory, in a store or on the workers of a scheduler; measure it, and write its file."""
    task, began = TASKS[samples.task], time.perf_counter()
    with warnings.catch_warnings(), show.live_gap(task.problems(y), quiet) as listen:
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status is printed below
        X: Any = samples
        if not isinstance(samples, Store):
            encoder = samples.learn()
            X = samples.features(encoder)
            estimator = task.estimator(**parameters, callbacks=None if listen is None else [listen]).fit(X, y)
            known = {"data": samples.name, "above": samples.above}
        else:
            encoder, known = samples.encoder, {"data": str(samples.folder)}
            if cluster is None:
                estimator = with_checkpoints(samples, checkpoint_of(out), listen, parameters)
            else:
                estimator = on_cluster(samples, cluster, listen, parameters)
        estimator.callbacks = None
        about = {**known, "rows": samples.shape[0], "columns": samples.shape[1], "dualgap": __version__, **fit_facts(estimator)}
        made = SavedModel(estimator, encoder, about)
        save_model(made, out)  # before anything else that may be stopped
        about["training"] = task.measured(estimator, X, y)
        if isinstance(samples, Store):
            checkpoint_of(out).unlink(missing_ok=True)
            about["seconds"] = time.perf_counter() - began  # reading included
        else:
            about |= _tested(samples, made, cv, parameters)
    about["features"] = important_features(made, X.matrix(0) if isinstance(X, Store) else X)
    save_model(made, out)
    return made


def _tested(samples: Samples, made: SavedModel, cv: int | None, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return how good the model is on rows that it was not trained on: by cross-validation, and on a test part."""
    about, found, folds = made.about, {}, 5 if cv is None else cv
    if folds and about["status"] != "interrupted" and (cv is not None or about["seconds"] * folds < CV_SECONDS):
        validated = cross_validate(samples, folds, None if cv is not None else CV_SECONDS, **parameters)
        found = {} if validated is None else {"cross_validation": validated}
    if samples.test is not None:
        X, y = samples.test
        X = made.encoder.of_array(samples.name, X, made.estimator.n_features_in_)
        found["test"] = TASKS[samples.task].measured(made.estimator, X, y)
    return found


def _show(made: SavedModel, y: Any, cv: int | None, unit: str) -> None:
    """Print what is known of a fit; a store has no targets y at hand."""
    about = made.about
    if y is not None:
        if made.encoder.preparation is not None:
            say()
            show.print_preparation(made.encoder.preparation)
        say(f"\n{made.estimator.n_features_in_:,} features; {show.how_it_ended(about, unit)}")
    else:
        say(show.how_it_ended(about, unit))
    show.print_proof(about["certificates"])
    say()
    TASKS[about["task"]].show(about, y)
    if y is not None and "cross_validation" not in about and cv is None and about["status"] != "interrupted":
        say("Cross-validation is left out, as it would take more than a minute; --cv 5 does it")
    say()
    show.print_features(about["features"])
    say()
