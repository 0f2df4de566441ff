"""The commands `convert`, `fit`, `predict` and `certify`: files to stores, data to models, models to labels and certificates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dualgap.app.options import ERROR, OK, MaxSeconds, Seed, Standardise, Target

__all__ = ["certify", "convert", "fit", "predict"]


def convert(
    data: Annotated[list[str], typer.Argument(help="Files (LIBSVM text, CSV, Parquet; compressed or not), then the folder.")],
    target: Target = "",
    dtype: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    block_mb: Annotated[float, typer.Option(min=0.001, help="Megabytes a block; training holds two blocks.")] = 64.0,
    n_features: Annotated[
        int | None, typer.Option(min=1, help="Number of columns. [default: the largest that occurs]", show_default=False)
    ] = None,
    shuffle: Annotated[bool, typer.Option("--shuffle/--no-shuffle", help="Put the rows in random order.")] = True,
    seed: Seed = 0,
) -> int:
    """Convert files to a store: a folder of plain arrays that `fit` trains on without reading them into memory.

    Give the same command again after a stop, and it goes on from there.

    **Examples**

        dualgap convert data.libsvm.bz2 store/
        dualgap convert day-1.csv day-2.csv store/ --target label --dtype float32
    """
    from dualgap.store import convert as convert_files

    if len(data) < 2:
        raise ValueError("give at least one file and, last, the folder that the store goes to")

    def say(stage: str, rows: int) -> None:
        print(f"{'read' if stage == 'read' else 'mixed'} {rows:,} rows", file=sys.stderr)

    options: dict[str, Any] = {"dtype": dtype, "block_bytes": int(block_mb * 1e6), "n_features": n_features}
    store = convert_files(data[:-1], data[-1], target=target or None, shuffle=shuffle, seed=seed, progress=say, **options)
    print(f"{store}, {store.nbytes / 1e6:,.1f} MB")
    print(data[-1])
    return OK


def fit(
    data: Annotated[str, typer.Argument(help="A file, the name of a data set, or the folder of a store.")],
    model: Annotated[Path, typer.Option("--model", "-m", help="File to write the model to.")],
    proof: Annotated[
        Path | None, typer.Option(help="File to write a proof of the certificate to, for `verify`.", show_default=False)
    ] = None,
    target: Target = "",
    loss: Annotated[str, typer.Option(help="hinge, smooth_hinge, squared_hinge or log_loss.")] = "hinge",
    c: Annotated[float, typer.Option("--C", help="Inverse strength of the penalty, as in scikit-learn.")] = 1.0,
    l2: Annotated[float | None, typer.Option(help="Strength of the penalty instead of C: l2 = 1 / (C · rows).")] = None,
    balanced: Annotated[bool, typer.Option("--balanced", help="Let every class weigh alike.")] = False,
    solver: Annotated[str, typer.Option(help="A solver's name, or auto.")] = "auto",
    tol: Annotated[float, typer.Option(help="Certified relative gap to reach.")] = 1e-4,
    max_seconds: MaxSeconds = None,
    standardise: Standardise = None,
    seed: Seed = 0,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, whose workers train on a store.", show_default=False)
    ] = None,
) -> int:
    """Train a linear classifier on all rows and write it to a file, with its certificate.

    The file is of skops' format: opening it runs no code. Exit code 1 when the gap was not reached.

    **Examples**

        dualgap fit mydata.csv --target label --model model.skops
        dualgap fit a9a --model a9a.skops --l2 1e-4 --tol 1e-6 --proof a9a.proof
        dualgap fit store/ --model big.skops --tol 1e-2
        dualgap fit /shared/store --model big.skops --scheduler tcp://10.0.0.1:8786
    """
    import warnings

    from dualgap.app.model_file import fit_model, fit_store_model, preparation_of, save_model
    from dualgap.estimators import ConvergenceWarning

    on_disk = scheduler is not None or Path(data).is_dir()
    if on_disk and proof is not None:
        raise ValueError("--proof needs the rows in memory; it cannot be written for a store")
    samples = store_of(data, target, standardise) if on_disk else samples_of(data, target)
    options = {
        "loss": loss,
        "C": c if l2 is None else 1.0 / (l2 * samples.shape[0]),
        "class_weight": "balanced" if balanced else None,
        "solver": solver,
        "tol": tol,
        "max_time": max_seconds,
        "random_state": seed,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status is printed below
        made = fit_store_model(samples, scheduler, **options) if on_disk else fit_model(samples, standardise, **options)
    save_model(made, model)
    svc = made.estimator
    scaled = "columns standardised" if len(made.pipeline) > 1 else "columns as they are"
    print(
        f"{samples.folder if on_disk else samples.name}: {samples.shape[0]:,} × {samples.shape[1]:,}, {len(svc.classes_)} classes, {scaled}"
    )
    for certificate in svc.certificate_ if isinstance(svc.certificate_, list) else [svc.certificate_]:
        print(certificate)
    print(f"{svc.status_} after {svc.n_iter_} {'epochs' if scheduler is None else 'rounds'}, relative gap asked for {tol:g}")
    print(model)
    if proof is not None:
        svc.save_proof(proof, preparation=preparation_of(made))
        print(proof)
    return OK if svc.status_ == "converged" else ERROR


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


def samples_of(name: str, target: str) -> Any:
    """Return the data of a file, or of a data set by name."""
    from dualgap.data import load, read

    return read(name, target or None) if Path(name).exists() else load(name)


def store_of(folder: str, target: str, standardise: bool | None) -> Any:
    """Return the store in a folder; refuse options that only `convert` can take."""
    from dualgap.store import Store

    if target or standardise:
        option = "--target" if target else "--standardise"
        raise ValueError(f"{option} with a store: a store keeps the columns as they were converted; leave the option out")
    if not Path(folder).is_dir():
        raise ValueError(
            f"--scheduler trains on a store, and {folder} is none: make one with `dualgap convert {folder} FOLDER` first"
        )
    return Store(folder)
