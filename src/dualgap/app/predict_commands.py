"""The commands `predict` and `certify`: a model and data to predictions, and to a proof."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dualgap.app.options import ERROR, OK, Json, Target
from dualgap.app.terminal import json_text, print_json, say, shown, warn

__all__ = ["certify", "predict"]


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
    from dualgap.app.inputs import is_store_folder
    from dualgap.app.model_file import load_model
    from dualgap.app.tasks import task_of
    from dualgap.core import write_atomically
    from dualgap.data import Notes, csv_text, open_features
    from dualgap.store import Store

    made, notes = load_model(model), Notes()
    if len(data) == 1 and is_store_folder(data[0]):
        X: Any = Store(data[0])
        truth: Any = X.labels()[X.origin().argsort()]
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
    from dualgap.app.model_file import load_model
    from dualgap.app.tasks import certificate_facts, task_of
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
