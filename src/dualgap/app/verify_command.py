"""The command `verify`: a proof file checked against data, in exact arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dualgap.app.options import ERROR, OK, Json, Target
from dualgap.app.terminal import print_json, say

__all__ = ["verify"]


def verify(
    proof: Annotated[
        Path, typer.Argument(help="A proof that fit --proof, Result.save_proof or proof_.save of an estimator wrote.")
    ],
    data: Annotated[str, typer.Argument(help="The training data: a file, the name of a data set, or their canonical text.")],
    target: Target = "",
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", help="A model file whose preparation is applied to the data.", show_default=False),
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Write the canonical text of the data to this file.", show_default=False)
    ] = None,
    json_: Json = False,
) -> int:
    """Check a proof file in exact arithmetic.

    Exit code 0: every gap in the file is proven. Exit code 1: refused, with the reason. The same check in one file for plain Python is
    dualgap/proof/verify.py; --export writes the data in a form that it reads.

    \b
    Examples:
      dualgap verify a9a.proof a9a
      dualgap verify model.proof mydata.csv --target label --model model.skops
    """
    from dualgap.core import write_atomically
    from dualgap.proof import Refused, parse_proof, report, verify_proof

    try:
        content = proof.read_bytes()
        said = parse_proof(content)
        text = canonical_data(said, data, target, model)
        if export is not None:
            write_atomically(export, text)
            if not json_:
                say(export)
        said, values = verify_proof(content, text)
    except Refused as error:
        if json_:
            print_json({"proven": False, "reason": str(error)})
        else:
            say(f"refused: {error}")
        return ERROR
    if json_:
        print_json({"proven": True, **_proven(said, values), **({"export": export} if export else {})})
        return OK
    say("\n".join(report(said, values)))
    if said.preparation:
        say("what is proven concerns the data after this preparation")
    return OK


def _proven(said: Any, values: Any) -> dict[str, Any]:
    """Return what a checked proof says as plain data; the sums are rounded, the bound on the gap upwards."""
    claims = [
        {"title": claim.title, "primal": float(primal), "dual": float(dual), "gap": _at_least(claim.gap)}
        for claim, (primal, dual) in zip(said.claims, values, strict=True)
    ]
    return {"rows": said.rows, "columns": said.columns, "sha256": said.digest, "preparation": said.preparation, "claims": claims}


def _at_least(value: Any) -> float:
    """Return the smallest float64 number that is no less than a fraction."""
    import math

    near = float(value)
    return near if near >= value else math.nextafter(near, math.inf)


def canonical_data(said: Any, data: str, target: str, model: Path | None) -> bytes:
    """Return the canonical text of a file or data set, as far as it can be about the proof's data."""
    from dualgap.proof import Refused, Table, canonical_text

    path = Path(data)
    if path.is_file():
        with path.open("rb") as stream:
            if stream.read(15) == b"dualgap-data 1\n":
                return path.read_bytes()
    if model is None and said.preparation:
        raise Refused(
            "the proof is about prepared data, and these are not prepared: give --model with the model file, or the prepared data as "
            f"their canonical text. The preparation is {ascii('; '.join(said.preparation))[:200]}"
        )
    X, y = rows_of(said, data, target, model)
    if hasattr(X, "indptr") and X.shape[1] < said.columns:
        X = X.copy()
        X.resize(X.shape[0], said.columns)  # the last columns of LIBSVM text may be empty
    return canonical_text(Table(X, codes_of(y, said.classes) if said.classes else y[:, None], said.classes))


def rows_of(said: Any, data: str, target: str, model: Path | None) -> tuple[Any, Any]:
    """Return the features and labels of a file or data set: as a model prepares them, or as they are."""
    from dualgap.app.inputs import open_samples
    from dualgap.app.model_file import load_model
    from dualgap.data import TableOptions
    from dualgap.store import Store

    made = None if model is None else load_model(model)
    if made is not None:
        require_same_model(said, made.estimator)
    above = None if made is None else made.about.get("above")
    task = "classification" if said.classes else "regression"
    options = TableOptions(target, prepare=False, standardise=False, above=above, task=task)
    samples = open_samples([data], options, "" if made is None else made.target)
    if isinstance(samples, Store):
        raise ValueError("verify needs the rows in memory; give the files that the store was made from")
    X = samples.features(samples.learn()) if made is None else samples.features_for(made.encoder, made.estimator.n_features_in_)
    return X, samples.y


def require_same_model(said: Any, svc: Any) -> None:
    """Refuse a model file that does not hold the model of the proof, number by number."""
    from fractions import Fraction

    import numpy as np

    from dualgap.proof import Refused

    here = [
        ({j: Fraction(x) for j, x in enumerate(w) if x}, Fraction(b))
        for w, b in zip(np.atleast_2d(svc.coef_).tolist(), svc.intercept_.tolist(), strict=True)
    ]
    if [(claim.coef[0], claim.bias[0]) for claim in said.claims] != here:
        raise Refused("the model file holds another model than the proof")


def codes_of(y: Any, classes: list[Any]) -> Any:
    """Return the number of each label's class in the proof."""
    import numpy as np

    from dualgap.proof import Refused

    labels, places = np.unique(y, return_inverse=True)
    known = []
    for label in labels.tolist():
        if label not in classes:
            raise Refused(f"the label {label!r} of the data is not one of the proof's classes")
        known.append(classes.index(label))
    return np.array(known)[places]
