"""The commands `convert`, `fit`, `predict` and `certify`: files to stores, data to models, models to labels and certificates."""

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
    Prepare,
    Seed,
    Standardise,
    Target,
    kinds_of,
    loss_called,
)

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
    above: Above = None,
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

    \b
    Examples:
      dualgap convert data.libsvm.bz2 store/
      dualgap convert day-1.csv day-2.csv store/ --target label --dtype float32
      dualgap convert s3://bucket/2024.parquet store/ --target label
    """
    from dualgap.app.fit_display import print_preparation
    from dualgap.app.json_output import columns_of, print_json
    from dualgap.app.terminal import console
    from dualgap.data import TableOptions, is_url, named_files
    from dualgap.store import convert as convert_files

    if len(data) < 2:
        raise ValueError("give at least one file and, last, the folder that the store goes to")

    def say(stage: str, rows: int) -> None:
        print(f"{'read' if stage == 'read' else 'mixed'} {rows:,} rows", file=sys.stderr)

    options: dict[str, Any] = {"dtype": dtype, "block_bytes": int(block_mb * 1e6), "n_features": n_features}
    table = TableOptions(target, drop, kinds_of(as_), prepare, standardise, header, above)
    # convert copies files at an address to where it can go on with them after a stop
    opened: list[Any] = [nullcontext([word]) if is_url(word) else named_files([word]) for word in data[:-1]]
    with ExitStack() as stack:
        files = [file for each in opened for file in stack.enter_context(each)]
        store = convert_files(
            files, data[-1], target=target or None, shuffle=shuffle, seed=seed, progress=say, tables=table, **options
        )
    preparation = store.preparation
    if json_:
        kept = {"rows": store.shape[0], "features": store.shape[1], "classes": store.classes, "counts": store.manifest.counts}
        print_json({"store": data[-1], **kept, "bytes": store.nbytes, "prepared": columns_of(preparation)})
        return OK
    if preparation is not None:
        print_preparation(preparation, store.shape[0], console())
    print(f"{store}, {store.nbytes / 1e6:,.1f} MB")
    print(data[-1])
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
    loss: Annotated[str, typer.Option(help="hinge, smooth_hinge, squared_hinge or logistic.")] = "squared_hinge",
    c: Annotated[float, typer.Option("--C", help="Inverse strength of the penalty, as in scikit-learn.")] = 1.0,
    l2: Annotated[float | None, typer.Option(help="Strength of the penalty instead of C: l2 = 1 / (C · rows).")] = None,
    intercept: Annotated[str, typer.Option(help="free, penalised or none.")] = "free",
    balanced: Annotated[bool, typer.Option("--balanced", help="Let every class weigh alike.")] = False,
    positive: Annotated[
        bool,
        typer.Option(
            "--positive",
            help="Keep all coefficients at 0 or above: the score of the second class, in alphabetical order, never falls with a feature.",
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
        float, typer.Option(min=0.0, help="With --scheduler: seconds to wait for a worker once none is left.")
    ] = 60.0,
    json_: Json = False,
) -> int:
    """Train a classifier, and prove how good it is.

    All rows are trained on. The linear classifier is written to a file with its proof.

    Text, categories, dates and missing values of a table are turned into numbers; the output says how, and the model file keeps it. The
    file is of skops' format: opening it runs no code. Exit code 1 when the gap was not reached.

    \b
    Examples:
      dualgap fit mydata.csv --target label
      dualgap fit mydata.csv --target label --drop name --as zip=category --balanced
      dualgap fit a9a --model a9a.skops --l2 1e-4 --tol 1e-6 --proof a9a.proof
      dualgap fit store/ --model big.skops --tol 1e-2
      dualgap fit /shared/store --scheduler tcp://10.0.0.1:8786 --checkpoint /shared/run
    """
    from dualgap.app.inputs import open_samples
    from dualgap.app.model_file import check_place
    from dualgap.app.store_training import ClusterOptions, fit_store
    from dualgap.data import TableOptions
    from dualgap.store import Store

    chosen = loss_called(loss)
    if intercept not in ("free", "penalised", "none"):
        raise ValueError(f"--intercept {intercept}: choose free, penalised or none")
    table = TableOptions(target, drop, kinds_of(as_), prepare, standardise, header, above)
    samples = open_samples(data, table)
    if scheduler is not None and not isinstance(samples, Store):
        raise ValueError(
            f"--scheduler trains on a store, and {data[0]} is none: make one with `dualgap convert {data[0]} FOLDER` first"
        )
    if scheduler is None and (checkpoint is not None or partitions is not None):
        option = "--checkpoint" if checkpoint is not None else "--partitions"
        raise ValueError(
            f"{option} goes with --scheduler; a fit here keeps its own checkpoint beside the model, and has no partitions"
        )
    parameters: dict[str, Any] = {
        "loss": "log_loss" if chosen == "logistic" else chosen,
        "C": c if l2 is None else 1.0 / (l2 * samples.shape[0]),
        "fit_intercept": intercept != "none",
        "intercept": "penalised" if intercept == "penalised" else "free",
        "class_weight": "balanced" if balanced else None,
        "positive": positive,
        "solver": solver,
        "tol": tol,
        "max_time": max_seconds,
        "random_state": seed,
    }
    out = model or Path(f"{'model' if data[0] == '-' else _plain_name(data[0])}.skops")
    check_place(out)
    if isinstance(samples, Store) and proof is not None:
        raise ValueError("--proof needs the rows in memory; it cannot be written for a store")
    if isinstance(samples, Store):
        _refuse_table_options(table)
        cluster = None if scheduler is None else ClusterOptions(scheduler, checkpoint, partitions, patience)
        return fit_store(samples, cluster, out, json_, **parameters)
    return _fit_rows(samples, out, proof, cv, json_, parameters)


def _plain_name(name: str) -> str:
    """Return the name of a file without its folder and endings."""
    return Path(name).name.split(".")[0] or "model"


def _refuse_table_options(table: Any) -> None:
    given = {
        "--target": table.target,
        "--drop": table.drop,
        "--as": table.kinds,
        "--above": table.above,
        "--standardise": table.standardise,
    }
    for option, value in given.items():
        if value:
            raise ValueError(
                f"{option} with a store: a store keeps the columns as `dualgap convert` made them; give the option there"
            )


def _fit_rows(samples: Any, out: Path, proof: Path | None, cv: int | None, as_json: bool, parameters: dict[str, Any]) -> int:
    """Train on rows in memory, measure, save, show."""
    import numpy as np

    from dualgap.app import fit_display as show
    from dualgap.app.json_output import columns_of, print_json
    from dualgap.app.model_file import save_model
    from dualgap.app.proven import proven_labels
    from dualgap.app.terminal import console
    from dualgap.app.training import CV_SECONDS, confusion, cross_validate, fit_samples, important_features
    from dualgap.estimators import ConvergenceWarning

    classes, counts = np.unique(samples.y, return_counts=True)
    problems = 1 if len(classes) == 2 else len(classes)
    screen = console()
    if not as_json:
        shares = ", ".join(f"{label} {count:,}" for label, count in zip(classes.tolist()[:8], counts.tolist(), strict=False))
        more = ", …" if len(classes) > 8 else ""
        kinds = "1 class" if len(classes) == 1 else f"{len(classes)} classes"
        print(f"{samples.name}: {samples.shape[0]:,} rows × {samples.shape[1]:,} columns, {kinds} ({shares}{more})")
        if samples.without:
            print(f"{samples.without:,} rows without a label in {samples.target!r} are left out")
    with warnings.catch_warnings(), show.live_gap(problems, quiet=as_json) as listen:
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status is printed below
        made, X = fit_samples(samples, listen, **parameters)
        save_model(made, out)  # before anything else that may be stopped
        about = made.about
        svc = made.estimator
        about["training"] = confusion(classes, samples.y, svc.predict(X)).to_dict()
        proven = proven_labels(svc, X)
        if proven is not None:
            about["training"]["proven"] = float(proven.mean())
        validated = None
        folds = 5 if cv is None else cv
        if folds and about["status"] != "interrupted" and (cv is not None or about["seconds"] * folds < CV_SECONDS):
            validated = cross_validate(samples, folds, None if cv is not None else CV_SECONDS, **parameters)
    if validated is not None:
        about["cross_validation"] = validated.to_dict()
    if samples.test is not None:
        X_test = samples.test[0] if made.encoder.scaler is None else made.encoder.scaler.apply(samples.test[0])
        about["test"] = confusion(classes, samples.test[1], svc.predict(X_test)).to_dict()
    about["features"] = important_features(made, X)
    save_model(made, out)
    if as_json:
        told = {"prepared": columns_of(made.encoder.preparation), "model": out, **({"proof": proof} if proof else {})}
        print_json({**about, **told})
    else:
        _show_fit(made, float(counts.max() / counts.sum()), str(classes.tolist()[int(counts.argmax())]), cv, screen)
        print(out)
    if proof is not None:
        svc.save_proof(proof, preparation=made.preparation_words())
        if not as_json:
            print(proof)
    return show.exit_code(about["status"], out)


def _show_fit(made: Any, majority: float, commonest: str, cv: int | None, screen: Any) -> None:
    from dualgap.app import fit_display as show
    from dualgap.app.proven import share_words

    about, encoder = made.about, made.encoder
    if encoder.preparation is not None:
        print()
        show.print_preparation(encoder.preparation, about["rows"], screen)
    print(f"\n{made.estimator.n_features_in_:,} features; {_fit_words(about)}")
    show.print_proof(about["certificates"], screen)
    print()
    training, validated = about["training"], about.get("cross_validation")
    print(f"Accuracy on the training rows: {training['accuracy']:.4f} (mean over classes {training['balanced_accuracy']:.4f})")
    if training.get("proven") is not None:
        print(share_words(training["proven"]))
    if validated is not None:
        folds = validated["folds"]
        spread = f" (mean over classes {validated['balanced_accuracy']:.4f}; folds from {min(folds):.4f} to {max(folds):.4f})"
        print(f"Accuracy in {len(folds)}-fold cross-validation: {validated['accuracy']:.4f}{spread}")
        if validated.get("proven") is not None:
            print(share_words(validated["proven"]))
    elif cv is None and about["status"] != "interrupted":
        print("Cross-validation is left out, as it would take more than a minute; --cv 5 does it")
    if "test" in about:
        print(f"Accuracy on the test part of the data set: {about['test']['accuracy']:.4f}")
    print(f"Always saying {commonest!r} would have: {majority:.4f}\n")
    shown, title = (
        (training, "Confusion on the training rows") if validated is None else (validated, "Confusion in cross-validation")
    )
    import numpy as np

    show.print_confusion(about["classes"], np.array(shown["confusion"]), title, screen)
    print()
    show.print_features(about["features"], screen)
    print()


def _fit_words(about: dict[str, Any]) -> str:
    """Return how a fit ended."""
    ended = {"converged": "converged"}.get(about["status"], f"did not converge ({about['status']})")
    epochs = f"{about['epochs']} epoch" + "s" * (about["epochs"] != 1)
    return f"{ended} after {epochs} in {about['seconds']:.2f} s, relative gap asked for {about['tol']:g}"


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
    """Predict the labels of new rows.

    The answer is a CSV with a label and a score a row, or the scores of each class where there are more than two.

    The column `proven` says whether the label cannot change at the optimum: True where no model with a lower objective gives another one.

    Columns are found by name, in any order; a label column is optional, and where there is one, the accuracy is told.

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
    from dualgap.app.proven import proven_labels
    from dualgap.app.training import score_labels, scores_of
    from dualgap.data import Notes, open_features
    from dualgap.lab import TableData, write_atomically
    from dualgap.store import Store

    made, notes = load_model(model), Notes()
    svc = made.estimator
    if len(data) == 1 and is_store_folder(data[0]):
        X: Any = Store(data[0])
        truth: Any = X.labels()[np.argsort(X.origin())]
    else:
        X, truth = open_features(data, made.encoder, svc.n_features_in_, target, notes)
    scores = scores_of(svc, X)
    labels = score_labels(svc, scores)
    proven = None if isinstance(X, Store) else proven_labels(svc, X)
    accuracy = _accuracy(svc.classes_, labels, truth, made.about.get("above"))
    for line in [*notes.lines, *([accuracy[1]] if accuracy else [])]:
        print(f"dualgap: {line}", file=sys.stderr)
    if json_:
        told: dict[str, Any] = {"accuracy": accuracy[0]} if accuracy else {}
        told |= {} if proven is None else {"proven": proven}
        text = json_text({"classes": svc.classes_, "labels": labels, "scores": scores, **told, "notes": notes.lines}) + "\n"
    else:
        heads = ("label", "score") if scores.shape[1] == 1 else ("label", *(f"score {name}" for name in svc.classes_))
        rows = tuple((label, *map(float, row)) for label, row in zip(labels.tolist(), scores, strict=True))
        if proven is not None:
            heads, rows = (*heads, "proven"), tuple((*row, sure) for row, sure in zip(rows, proven.tolist(), strict=True))
        text = TableData("predictions", "", "", heads, rows).to_csv()
    if out is None:
        print(text, end="")
    else:
        write_atomically(out, text)
        print(out)
    return OK


def _accuracy(classes: Any, labels: Any, truth: Any, above: float | None) -> tuple[float, str] | None:
    """Return the share of right labels with a sentence, where the true ones are known; None for an unknown or an empty label."""
    import numpy as np

    from dualgap.data import DataError, labels_of

    if truth is None:
        return None
    if not isinstance(truth, np.ndarray):
        try:
            found = labels_of(truth, "labels", above)
        except DataError:
            return None
        truth, labels = found.y, labels[found.rows]
    known = np.isin(truth.astype(str), classes.astype(str))
    if not known.any():
        return None
    share = float(np.mean(truth.astype(str)[known] == labels.astype(str)[known]))
    strange = "" if known.all() else f"; {int((~known).sum()):,} rows have a label that the model does not know"
    return share, f"accuracy {share:.4f} on {int(known.sum()):,} rows with a label{strange}"


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
    from dualgap.app.proven import share_words
    from dualgap.app.training import certificate_facts, certify_model
    from dualgap.data import TableOptions

    made = load_model(model)
    prepared = made.encoder.preparation
    header = None if prepared is None or prepared.named else False
    above = made.about.get("above")
    samples = open_samples(data, TableOptions(target, header=header, above=above), made.target)
    found, proven = certify_model(made, samples)
    worst = max(certificate.relative_gap for _, certificate in found)
    if json_:
        told = {} if proven is None else {"proven": proven}
        print_json({"relative_gap": worst, "certificates": [certificate_facts(*each) for each in found], **told})
    else:
        for name, certificate in found:
            print(f"{name}: {certificate}")
        if proven is not None:
            print(share_words(proven))
        print(f"relative gap {worst:.3g}")
    if tol is not None and worst > tol:
        print(f"dualgap: the certified relative gap {worst:.3g} is above --tol {tol:g}", file=sys.stderr)
        return ERROR
    return OK
