"""Models on disk, in skops' format: plain arrays, text and numbers, so that opening a file of a stranger runs none of the stranger's code.

A file holds the fitted model, what was done to the columns, the proof of the fit and the number of the format.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dualgap import __version__
from dualgap.core import write_atomically
from dualgap.data import DataError, Encoder, Notes, Samples, Table, check_zip, frame_of, open_features
from dualgap.estimators import Fit, LinearSVC, LinearSVR, fit_of
from dualgap.proof import Ball, ProofError, Reference, Space
from dualgap.store import Store

__all__ = ["ModelError", "SavedModel", "check_place", "load_model", "save_model"]

FORMAT = "dualgap-model-1"
ESTIMATORS: dict[str, type] = {"LinearSVC": LinearSVC, "LinearSVR": LinearSVR}
ARRAYS = ("coef_", "intercept_", "classes_", "support_", "n_support_")
NUMBERS = ("n_iter_", "n_features_in_")


class ModelError(ValueError):
    """A file that is not a model of dualgap, or that holds other types than a model has."""


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A fitted classifier or regression with what turns rows into its features, and what is known of the fit.

    Attributes
    ----------
    estimator : LinearSVC or LinearSVR
    encoder : the preparation of a table's columns, or the scaler of an array's
    about : plain data on the fit: data, rows, status, certificates, accuracy or R²
    """

    estimator: Any
    encoder: Encoder = field(default_factory=Encoder)
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def feature_names(self) -> list[str]:
        """The name of each feature that the estimator sees."""
        if self.encoder.preparation is not None:
            return self.encoder.preparation.feature_names
        return [str(j) for j in range(self.estimator.n_features_in_)]

    def features(self, table: Any) -> Any:
        """Return the features of a file, a polars or a pandas data frame, or an array, as the estimator takes them."""
        width = self.estimator.n_features_in_
        if isinstance(table, str | os.PathLike):
            return open_features([os.fspath(table)], self.encoder, width, "", Notes())[0]
        if not hasattr(table, "columns"):
            X = table if sparse.issparse(table) else np.asarray(table, dtype=np.float64)
            return self.encoder.of_array("the array", X, width)
        return self.encoder.of_table(Table("the table", frame_of(table), True), width)

    def features_of(self, samples: Samples | Store) -> Any:
        """Return the features of labelled rows; a store is its own."""
        width = self.estimator.n_features_in_
        X: Any = samples if isinstance(samples, Store) else samples.features_for(self.encoder, width)
        if X.shape[1] != width:
            raise DataError(f"it has {X.shape[1]} columns, but the model was trained on {width}")
        return X

    def predict(self, table: Any) -> np.ndarray:
        """Return the labels or numbers for the rows of a table; its columns may be in any order."""
        return self.estimator.predict(self.features(table))

    def decision_function(self, table: Any) -> np.ndarray:
        """Return the scores of the rows of a table; a regression has none."""
        return np.asarray(self.estimator.decision_function(self.features(table)))

    def preparation_words(self) -> list[str]:
        """Return what is done to the data before the estimator, a step each, in words and numbers."""
        preparation, scaler = self.encoder.preparation, self.encoder.scaler
        if scaler is not None:
            words = "each column minus its centre, then divided by its scale, in float64"
            return [f"Scaler: {words}; centre {scaler.mean_.tolist()}, scale {scaler.scale_.tolist()}"]
        if preparation is None or preparation.leaves_numbers_alone():
            return []
        return [f"Preparation of a table by dualgap {__version__}: {json.dumps(preparation.to_dict(), sort_keys=True)}"]

    @property
    def target(self) -> str:
        """The label column of the training table; empty where there was none."""
        return "" if self.encoder.preparation is None else self.encoder.preparation.target


# ---------------------------------------------------------------------------------------------------------------------- writing


def save_model(model: SavedModel, path: Path) -> None:
    """Write a model. After a crash the file is the old one or the new one, never a part."""
    import skops.io

    content = {
        "format": FORMAT,
        "dualgap": __version__,
        "estimator": _estimator_to_dict(model.estimator),
        **model.encoder.to_dict(),
        "about": model.about,
    }
    check_place(path)
    write_atomically(path, skops.io.dumps(content))


def check_place(path: Path) -> None:
    """Raise where no file of that name can be written; asked before a fit, which may take long."""
    if path.is_dir():
        raise OSError(f"{path} is a folder; give the model a file of its own (--model FILE)")
    above = next(each for each in (path.parent, *path.parent.parents) if each.exists())
    if not above.is_dir():
        raise OSError(f"{path} cannot be written: {above} is a file and no folder")
    if not os.access(above, os.W_OK):
        raise OSError(f"{path} cannot be written: the folder {above} is read-only")


def _estimator_to_dict(svc: Any) -> dict[str, Any]:
    fitted: dict[str, Any] = {name: np.asarray(getattr(svc, name)) for name in ARRAYS if hasattr(svc, name)}
    fitted |= {name: int(getattr(svc, name)) for name in NUMBERS if hasattr(svc, name)}
    fitted["rows"] = fit_of(svc).n_rows
    if hasattr(svc, "dual_coef_"):
        dual = sparse.csr_matrix(svc.dual_coef_)
        fitted["dual"] = {"data": dual.data, "indices": dual.indices, "indptr": dual.indptr, "shape": list(map(int, dual.shape))}
    parameters = {name: value for name, value in svc.get_params().items() if name != "callbacks"}
    strange = [name for name, value in parameters.items() if not isinstance(value, str | int | float | bool | None)]
    if strange:
        raise ModelError(f"{strange[0]}={parameters[strange[0]]!r} cannot be written to a model file; give a name or a number")
    balls = _balls_to_dict(svc)
    if balls is not None:
        fitted["balls"] = balls
    return {"type": type(svc).__name__, "parameters": parameters, "fitted": {**fitted, "status_": str(svc.status_)}}


# ---------------------------------------------------------------------------------------------------------------------- reading


def load_model(path: str | Path) -> SavedModel:
    """Return the model in a file; refuse a file with other types than a model has, before any object is built."""
    path = Path(path)
    if not path.exists():
        raise ModelError(f"{path}: there is no such file; `dualgap fit` writes models")
    import skops.io

    try:
        check_zip(path)
        strange = sorted(skops.io.get_untrusted_types(file=path))
        if strange:
            raise ModelError(f"{path} holds types that a model of dualgap does not have, so it is not opened: {', '.join(strange)}")
        content = skops.io.load(path)
    except (DataError, ModelError):
        raise
    except Exception as error:  # a file that was tampered with may raise anything
        raise ModelError(f"{path} is not a model that dualgap fit wrote: {' '.join(str(error).split())[:200]}") from None
    _check_format(path, content)
    try:
        return _from_plain(content)
    except Exception as error:
        raise ModelError(f"{path} is a damaged model file ({type(error).__name__}: {error}); train it again") from None


def _check_format(path: Path, content: Any) -> None:
    form = content.get("format") if isinstance(content, dict) else None
    if not isinstance(form, str) or not form.startswith("dualgap-model-"):
        raise ModelError(f"{path} is not a model that dualgap fit wrote")
    if form != FORMAT:
        raise ModelError(
            f"{path} has the format {form}, written by dualgap {content.get('dualgap', 'of another version')}; this is dualgap "
            f"{__version__}, which reads {FORMAT}. Install the version that wrote it, or train the model again"
        )


def _from_plain(content: dict[str, Any]) -> SavedModel:
    for name in ("preparation", "scaler"):
        _require_finite(name, content[name])
    encoder = Encoder.from_dict(content)
    preparation, scaler = encoder.preparation, encoder.scaler
    svc = _estimator_from_dict(content["estimator"])
    features = svc.n_features_in_
    for found, what in ((preparation and len(preparation.feature_names), "preparation"), (scaler and len(scaler.scale_), "scaler")):
        if found is not None and found != features:
            raise ValueError(f"its {what} makes {found} features, its estimator takes {features}")
    return SavedModel(svc, encoder, dict(content["about"]))


def _estimator_from_dict(content: dict[str, Any]) -> Any:
    kind = ESTIMATORS.get(content["type"])
    if kind is None:
        raise ValueError(f"its estimator is of the unknown type {content['type']!r}")
    known = kind().get_params()
    parameters = {name: value for name, value in content["parameters"].items() if name in known}
    svc, fitted = kind(**parameters), content["fitted"]
    for name in (*ARRAYS, *NUMBERS, "status_"):
        if name in fitted:
            setattr(svc, name, fitted[name])
    _check_numbers(svc)
    if "dual" in fitted:
        dual = fitted["dual"]
        matrix = sparse.csr_matrix((dual["data"], dual["indices"], dual["indptr"]), shape=tuple(dual["shape"]))
        svc.dual_coef_ = matrix if matrix.shape[0] > 1 else matrix.toarray()
    balls = _balls_from_dict(fitted["balls"], svc) if "balls" in fitted else None
    svc._fit = Fit(fitted["rows"], balls=balls)
    return svc


def _check_numbers(estimator: Any) -> None:
    """Refuse coefficients that are not finite, or do not belong to the features and classes, or to one target."""
    d, coef, b = estimator.n_features_in_, estimator.coef_, estimator.intercept_
    if isinstance(estimator, LinearSVR):
        estimator._flat = True
        expected: tuple[Any, Any, str] = ((d,), (1,), "one target")
    else:
        rows = 1 if len(estimator.classes_) == 2 else len(estimator.classes_)
        expected = ((rows, d), (rows,), f"{len(estimator.classes_)} classes")
    if (coef.shape, b.shape) != expected[:2] or coef.dtype.kind != "f" or b.dtype.kind != "f":
        raise ValueError(f"coefficients of shape {coef.shape} for {expected[2]} and {d} features")
    _require_finite("coef", coef.ravel())
    _require_finite("intercept", b)


def _require_finite(name: str, content: Any) -> None:
    """Refuse plain data with a number in it that is not finite, and say which."""
    if isinstance(content, np.ndarray):
        content = content.tolist()
    if isinstance(content, float) and not math.isfinite(content):
        raise ValueError(f"{name} is {content}")
    if isinstance(content, dict | list | tuple):
        for place, value in content.items() if isinstance(content, dict) else enumerate(content):
            _require_finite(f"{name}[{place}]", value)


# ---------------------------------------------------------------------------------------------------------------------------- balls

OF_REFERENCE = ("side", "length", "score", "radius", "level", "drift")  # numbers of a mean row


def _balls_to_dict(svc: Any) -> dict[str, Any] | None:
    """Return the balls of a model as arrays and text; None for a model that has none."""
    try:
        balls = svc.proof_.balls()
    except ProofError:
        return None
    space = balls[0].problem
    content = {
        "space": [space.d, space.intercept, space.intercept_scale],
        "centre": np.stack([ball.centre for ball in balls]),
        "numbers": np.array([[ball.radius, *ball.intercept, ball.gap] for ball in balls]),
    }
    if balls[0].references:
        content["rows"] = np.stack([[at.vector for at in ball.references] for ball in balls])
        content["references"] = np.array(
            [[[getattr(at, name) for name in OF_REFERENCE] for at in ball.references] for ball in balls]
        )
    return content


def _balls_from_dict(content: dict[str, Any], svc: Any) -> list[Ball]:
    """Return the balls that a file has for a model; a file that does not fit the model is an error."""
    d, kind, scale = content["space"]
    space, K = Space(int(d), str(kind), float(scale)), len(np.atleast_2d(svc.coef_))
    centre, numbers = np.asarray(content["centre"], dtype=float), np.asarray(content["numbers"], dtype=float)
    free = space.intercept == "free"
    rows = np.asarray(content["rows"], dtype=float) if free else np.zeros((K, 0, space.d))
    facts = np.asarray(content["references"], dtype=float) if free else np.zeros((K, 0, len(OF_REFERENCE)))
    sides = 2 if free else 0
    shapes = (centre.shape, numbers.shape, rows.shape, facts.shape)
    if space.d != svc.n_features_in_ or shapes != ((K, space.d), (K, 4), (K, sides, space.d), (K, sides, len(OF_REFERENCE))):
        raise ValueError(f"bounds of the exact model of shapes {shapes} for {K} models of {svc.n_features_in_} features")
    found = []
    for k in range(K):
        references = tuple(
            Reference(vector=row, **dict(zip(OF_REFERENCE, values.tolist(), strict=True)))
            for row, values in zip(rows[k], facts[k], strict=True)
        )
        radius, low, high, gap = numbers[k].tolist()
        found.append(Ball(space, centre[k], radius, (low, high), gap, references))
    return found
