"""The commands `convert`, `fit`, `predict` and `certify`: files to stores, data to models, models to predictions and certificates."""

from __future__ import annotations

import sys
import warnings
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from dualgap.app.options import (
    ERROR,
    OK,
    Above,
    As,
    Drop,
    Header,
    Json,
    MaxSeconds,
    Missing,
    Prepare,
    Seed,
    Standardise,
    Target,
    TaskName,
    is_given,
    loss_and_task,
    refuse_both,
    table_options,
)
from dualgap.app.terminal import say, shown, warn
from dualgap.core import counted, suggest, write_atomically

__all__ = ["certify", "convert", "fit", "predict"]

Data = Annotated[
    list[str],
    typer.Argument(
        help="Files (CSV, TSV, Parquet, Arrow, NPZ, MAT, LIBSVM; packed or not), - for standard input, or a data set's name."
    ),
]


def convert(
    data: Annotated[list[str], typer.Argument(help="Files (LIBSVM text, CSV, Parquet; compressed or not), then the folder.")],
    target: Target = "",
    dtype: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    block_mb: Annotated[float, typer.Option(min=0.001, help="Megabytes a block; training holds two blocks.")] = 64.0,
    n_features: Annotated[
        int | None, typer.Option(min=1, help="Number of columns. [default: the largest that occurs]", show_default=False)
    ] = None,
    shuffle: Annotated[bool, typer.Option("--shuffle/--no-shuffle", help="Put the rows in random order.")] = True,
    drop: Drop = [],  # noqa: B006
    as_: As = [],  # noqa: B006
    missing: Missing = [],  # noqa: B006
    above: Above = None,
    task: TaskName = "",
    prepare: Prepare = True,
    standardise: Standardise = None,
    header: Header = None,
    seed: Seed = 0,
    json_: Json = False,
) -> int:
    """Convert files to a store, for data larger than memory.

    A store is a folder of plain arrays that `fit` trains on without reading them into memory.

    The columns of tables are prepared as `fit` prepares them, by what a first pass learns from a random sample of the rows; the store
    keeps it, so that a model reads other tables by the names of their columns. Give the same command again after a stop, and it goes on.

    A target column of many different numbers is that of a regression, as in `fit`; for LIBSVM text, NPZ and MAT files say
    --task regression.

    \b
    Examples:
      dualgap convert data.libsvm.bz2 store/
      dualgap convert day-1.csv day-2.csv store/ --target label --dtype float32
      dualgap convert s3://bucket/2024.parquet store/ --target label
    """
    from dualgap.app.fit_display import print_preparation
    from dualgap.app.json_output import columns_of, print_json
    from dualgap.data import doubtful_labels, is_url, named_files
    from dualgap.store import convert as convert_files

    if len(data) < 2:
        raise ValueError("give at least one file and, last, the folder that the store goes to")

    def show_progress(stage: str, rows: int) -> None:
        say(f"{'read' if stage == 'read' else 'mixed'} {rows:,} rows", error=True)

    options: dict[str, Any] = {"dtype": dtype, "block_bytes": int(block_mb * 1e6), "n_features": n_features}
    table = table_options(target, drop, as_, missing, prepare, standardise, header, above, loss_and_task("", task)[1])
    # convert copies files at an address to where it can go on with them after a stop
    opened: list[Any] = [nullcontext([word]) if is_url(word) else named_files([word]) for word in data[:-1]]
    with ExitStack() as stack:
        files = [file for each in opened for file in stack.enter_context(each)]
        store = convert_files(
            files, data[-1], target=target or None, shuffle=shuffle, seed=seed, progress=show_progress, tables=table, **options
        )
    preparation = store.preparation
    if json_:
        kept = {
            "task": store.task,
            "rows": store.shape[0],
            "features": store.shape[1],
            "classes": store.classes,
            "counts": store.manifest.counts,
        }
        print_json({"store": data[-1], **kept, "bytes": store.nbytes, "prepared": columns_of(preparation)})
        return OK
    for line in doubtful_labels(store.classes):
        say(line)
    if preparation is not None:
        print_preparation(preparation, store.shape[0])
    say(f"{store}, {store.nbytes / 1e6:,.1f} MB")
    say(data[-1])
    return OK


def fit(
    data: Data,
    target: Target = "",
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
    drop: Drop = [],  # noqa: B006
    as_: As = [],  # noqa: B006
    missing: Missing = [],  # noqa: B006
    above: Above = None,
    prepare: Prepare = True,
    standardise: Standardise = None,
    header: Header = None,
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
    from dualgap.app.inputs import open_samples
    from dualgap.app.model_file import check_place
    from dualgap.app.store_training import ClusterOptions, fit_store
    from dualgap.app.tasks import TASKS
    from dualgap.solvers import REGISTRY
    from dualgap.store import Store

    chosen, asked = loss_and_task(loss, task)
    if intercept not in ("free", "penalised", "none"):
        raise ValueError(f"--intercept {intercept}: choose free, penalised or none")
    refuse_both(("--C", c), ("--l2", l2), "each sets the strength of the penalty")
    if solver != "auto" and solver not in REGISTRY:
        raise ValueError(f"--solver {solver}: there is no such solver; {suggest(solver, ['auto', *REGISTRY])}")
    if cv == 1:
        raise ValueError("--cv 1: with one fold no rows are left to train on; give at least 2, or 0 for no cross-validation")
    table = table_options(target, drop, as_, missing, prepare, standardise, header, above, asked)
    samples = open_samples(data, table)
    _check_scheduler(samples, data[0], scheduler, checkpoint, partitions, patience)
    common: dict[str, Any] = {
        "fit_intercept": intercept != "none",
        "intercept": "penalised" if intercept == "penalised" else "free",
        "positive": positive,
        "solver": solver,
        "tol": tol,
        "max_time": max_seconds,
        "random_state": seed,
    }
    C = c if l2 is None else 1.0 / (l2 * samples.shape[0])
    y = samples.labels() if isinstance(samples, Store) else samples.y
    own = TASKS[samples.task].parameters(y, chosen, C, balanced, delta, epsilon=epsilon, quantile=quantile)
    parameters = common | own
    out = model or Path(f"{'model' if data[0] == '-' else _plain_name(data[0])}.skops")
    check_place(out)
    if out == proof or any(Path(word) == out for word in data):
        raise ValueError(f"--model {out} is a file that this command reads or writes otherwise; give the model another name")
    if isinstance(samples, Store):
        for option, value in (("--proof", proof), ("--cv", cv)):
            if value:
                raise ValueError(f"{option} {value} needs the rows in memory, and {data[0]} is a store; leave it out")
        _refuse_table_options(table, samples)
        cluster = (
            None if scheduler is None else ClusterOptions(scheduler, checkpoint, partitions, 60.0 if patience is None else patience)
        )
        return fit_store(samples, cluster, out, json_, **parameters)
    return _fit_rows(samples, out, proof, cv, json_, parameters)


def _plain_name(name: str) -> str:
    """Return the name of a file without its folder and endings."""
    return Path(name).name.split(".")[0] or "model"


def _check_scheduler(
    samples: Any, name: str, scheduler: str | None, checkpoint: str | None, partitions: int | None, patience: float | None
) -> None:
    """Refuse a cluster without a store, and options of a cluster without one."""
    from dualgap.store import Store

    if scheduler is not None and not isinstance(samples, Store):
        raise ValueError(f"--scheduler trains on a store, and {name} is none: make one with `dualgap convert {name} FOLDER` first")
    for option, value in (("--checkpoint", checkpoint), ("--partitions", partitions), ("--patience", patience)):
        if scheduler is None and value is not None:
            raise ValueError(
                f"{option} goes with --scheduler; a fit here keeps its own checkpoint beside the model, and has no workers"
            )


def _refuse_table_options(table: Any, store: Any) -> None:
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


def _fit_rows(samples: Any, out: Path, proof: Path | None, cv: int | None, as_json: bool, parameters: dict[str, Any]) -> int:
    """Train on rows in memory, measure, save, show."""
    from dualgap.app import fit_display as show
    from dualgap.app.json_output import columns_of, print_json
    from dualgap.app.model_file import save_model
    from dualgap.app.tasks import TASKS
    from dualgap.app.training import CV_SECONDS, cross_validate, fit_samples, important_features
    from dualgap.data import doubtful_labels
    from dualgap.estimators import ConvergenceWarning

    task = TASKS[samples.task]
    if not as_json:
        kind, *more = task.described(samples)
        say(f"{samples.name}: {samples.shape[0]:,} rows × {samples.shape[1]:,} columns, {kind}")
        for line in more:
            say(line)
        if samples.without:
            say(f"{samples.without:,} rows without a label in {samples.target!r} are left out")
        for line in doubtful_labels(samples.y):
            say(line)
    with warnings.catch_warnings(), show.live_gap(task.problems(samples.y), quiet=as_json) as listen:
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status is printed below
        made, X = fit_samples(samples, listen, **parameters)
        save_model(made, out)  # before anything else that may be stopped
        about, estimator = made.about, made.estimator
        about["training"] = task.trained(estimator, X, samples.y)
        validated = None
        folds = 5 if cv is None else cv
        if folds and about["status"] != "interrupted" and (cv is not None or about["seconds"] * folds < CV_SECONDS):
            validated = cross_validate(samples, folds, None if cv is not None else CV_SECONDS, **parameters)
    if validated is not None:
        about["cross_validation"] = validated
    if samples.test is not None:
        X_test = samples.test[0] if made.encoder.scaler is None else made.encoder.scaler.apply(samples.test[0])
        about["test"] = task.trained(estimator, X_test, samples.test[1])
    about["features"] = important_features(made, X)
    save_model(made, out)
    if as_json:
        told = {"prepared": columns_of(made.encoder.preparation), "model": out, **({"proof": proof} if proof else {})}
        print_json({**about, **told})
    else:
        _show_fit(made, task, samples.y, cv)
        say(out)
    if proof is not None:
        estimator.proof_.save(proof, preparation=made.preparation_words())
        if not as_json:
            say(proof)
    return show.exit_code(about["status"], out)


def _show_fit(made: Any, task: Any, y: Any, cv: int | None) -> None:
    from dualgap.app import fit_display as show

    about, encoder = made.about, made.encoder
    if encoder.preparation is not None:
        say()
        show.print_preparation(encoder.preparation, about["rows"])
    say(f"\n{made.estimator.n_features_in_:,} features; {_fit_words(about)}")
    show.print_proof(about["certificates"])
    say()
    task.show(about, y)
    if "cross_validation" not in about and cv is None and about["status"] != "interrupted":
        say("Cross-validation is left out, as it would take more than a minute; --cv 5 does it")
    say()
    show.print_features(about["features"])
    say()


def _fit_words(about: dict[str, Any]) -> str:
    """Return how a fit ended."""
    from dualgap.app.fit_display import ended

    epochs = counted(about["epochs"], "epoch")
    return f"{ended(about['status'])} after {epochs} in {about['seconds']:.2f} s, relative gap asked for {about['tol']:g}"


def predict(
    model: Annotated[Path, typer.Argument(help="A model that fit wrote.")],
    data: Annotated[
        list[str], typer.Argument(help="Files with the columns that the model was trained on, - for standard input, or a store.")
    ],
    target: Target = "",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file to write. [default: standard output]", show_default=False)
    ] = None,
    json_: Json = False,
) -> int:
    """Predict the labels or numbers of new rows.

    The answer is a CSV with a label and a score a row, or the scores of each class where there are more than two. The column `proven` says
    whether the label cannot change at the optimum: True where no model with a lower objective gives another one.

    For a regression it has the prediction, and between which numbers, `low` and `high`, that of the exact model is.

    Columns are found by name, in any order; a target column is optional, and where there is one, the accuracy (or R²) is told.

    \b
    Examples:
      dualgap predict model.skops new.csv
      dualgap predict model.skops new.csv --out predictions.csv
      cat new.csv | dualgap predict model.skops -
    """
    import numpy as np

    from dualgap.app.inputs import is_store_folder
    from dualgap.app.json_output import json_text
    from dualgap.app.model_file import load_model
    from dualgap.app.tasks import task_of
    from dualgap.data import Notes, csv_text, open_features
    from dualgap.store import Store

    made, notes = load_model(model), Notes()
    if len(data) == 1 and is_store_folder(data[0]):
        X: Any = Store(data[0])
        truth: Any = X.labels()[np.argsort(X.origin())]
    else:
        X, truth = open_features(data, made.encoder, made.estimator.n_features_in_, target, notes)
    task = task_of(made.estimator)
    heads, rows, told, sentence = task.predictions(made, X, truth)
    if not {"proven", "low"} & set(heads):
        why = (
            "rows of a store are not proven one by one"
            if isinstance(X, Store)
            else "a model that was trained on a store has no bounds"
        )
        notes.lines.append(f"there is no {task.proves}: {why}")
    for line in [*notes.lines, *([sentence] if sentence else [])]:
        warn(line)
    if json_:
        text = json_text({**told, "notes": notes.lines}) + "\n"
    else:
        text = csv_text([heads, *rows])
    if out is None:
        print(shown(text) if sys.stdout.isatty() else text, end="")
    else:
        write_atomically(out, text)
        say(out)
    return OK


def certify(
    model: Annotated[Path, typer.Argument(help="A model that fit wrote.")],
    data: Annotated[list[str], typer.Argument(help="The data to judge it on: files, a store, or the name of a data set.")],
    target: Target = "",
    tol: Annotated[float | None, typer.Option(help="Exit with code 1 unless the relative gap is at most this.")] = None,
    json_: Json = False,
) -> int:
    """Prove how far a model is at most from the best one.

    The bound is for the model's own objective on the data given.

    On the data it was trained on, that is how well training did; on other data, how far it is from a model trained there. The label
    column is the one that the model was trained with, unless --target names another.

    \b
    Examples:
      dualgap certify model.skops mydata.csv
      dualgap certify model.skops mydata.csv --target label --tol 1e-3
    """
    from dualgap.app.inputs import open_samples
    from dualgap.app.json_output import print_json
    from dualgap.app.model_file import load_model
    from dualgap.app.tasks import task_of
    from dualgap.app.training import certificate_facts
    from dualgap.data import TableOptions

    made = load_model(model)
    prepared = made.encoder.preparation
    header = None if prepared is None or prepared.named else False
    above, task = made.about.get("above"), task_of(made.estimator)
    missing = () if prepared is None else prepared.missing
    samples = open_samples(data, TableOptions(target, header=header, above=above, task=task.name, missing=missing), made.target)
    found, sentence, told = task.certified(made, samples)
    worst = max(certificate.relative_gap for _, certificate in found)
    if json_:
        print_json({"relative_gap": worst, "certificates": [certificate_facts(*each) for each in found], **told})
    else:
        for name, certificate in found:
            say(f"{name}: {certificate}")
        if sentence:
            say(sentence)
        say(f"relative gap {worst:.3g}")
    if tol is not None and worst > tol:
        warn(f"the certified relative gap {worst:.3g} is above --tol {tol:g}")
        return ERROR
    return OK
