"""What the commands do for a target of numbers: parameters, R² and mean absolute error, predictions and their bounds, certificates."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.app.model_file import SavedModel
from dualgap.app.terminal import say
from dualgap.data import DataError, Samples, learn_target
from dualgap.estimators import LinearSVR
from dualgap.proof import Certificate, ProofError, ball_of
from dualgap.run import certify_with_dual
from dualgap.store import Store

__all__ = ["Regression"]

DEFAULT_LOSS = "squared_error"  # the one whose C does not depend on the units of the target
LINEAR_TAILS = ("epsilon_insensitive", "huber", "absolute", "quantile")  # C goes with the units of the target
TAKES = {  # the losses that each option is for
    "epsilon": ("epsilon_insensitive", "squared_epsilon_insensitive"),
    "delta": ("huber",),
    "quantile": ("quantile",),
}
HUBER = 1.35  # delta of the Huber loss, in standard deviations of the target


class Regression:
    """LinearSVR on numbers."""

    name = "regression"
    proves = "column 'low' or 'high'"
    estimator = LinearSVR

    # ------------------------------------------------------------------------------------------------------------------ training

    def parameters(
        self, y: np.ndarray, loss: str | None, C: float | None, balanced: bool, delta: float | None, **others: float | None
    ) -> dict[str, Any]:
        """Return the parameters of the estimator that the options of `fit` say.

        Losses that grow linearly depend on the units of the target through C and delta. Their defaults are in standard deviations of it.
        """
        if balanced:
            raise ValueError("--balanced weighs classes, and a regression has none; leave it out")
        loss = loss or DEFAULT_LOSS
        for option, value in {"delta": delta, **others}.items():
            if value is not None and loss not in TAKES[option]:
                raise ValueError(f"--{option} {value:g} belongs to --loss {' or '.join(TAKES[option])}, and the loss is {loss}")
        deviation = float(np.std(y)) or 1.0
        given = {name: value for name, value in others.items() if value is not None}
        return {
            "loss": loss,
            "C": C if C is not None else deviation if loss in LINEAR_TAILS else 1.0,
            "delta": HUBER * deviation if loss == "huber" and delta is None else delta,
            **given,
        }

    def problems(self, y: np.ndarray) -> int:
        """Return how many problems a fit solves."""
        return 1

    def described(self, samples: Samples) -> list[str]:
        """Return the range of the target in words."""
        y = samples.y
        target = f" {samples.target!r}" if samples.target else ""
        return [f"a regression on{target or ' numbers'} from {y.min():g} to {y.max():g} (median {np.median(y):g})"]

    def certificate_names(self, svr: LinearSVR) -> list[str]:
        """Return what the problem of a fit is called."""
        return ["regression"]

    def facts(self, svr: LinearSVR) -> dict[str, Any]:
        """Return what is known of this kind of model alone."""
        own = {name: getattr(svr, name) for name, losses in TAKES.items() if svr.loss in losses}
        return {"loss": svr.loss, "C": float(svr.C), **own}

    def measured(self, svr: LinearSVR, X: Any, y: np.ndarray) -> dict[str, Any]:
        """Compare a model with the targets of rows, or of a store."""
        said = predictions_of(svr, X)
        if isinstance(X, Store):
            return _measures(y[np.argsort(X.origin())], said)
        return _measures(y, said) | _within(_distances(svr, X, said))

    def direction(self, svr: LinearSVR, k: int, weight: float) -> dict[str, str]:
        """Return where a feature of this weight takes the prediction."""
        return {"speaks": "raises" if weight > 0 else "lowers", "class": "the prediction"}

    # ---------------------------------------------------------------------------------------------------------- cross-validation

    def splits(self, y: np.ndarray, folds: int, seed: Any) -> Any:
        """Return (training rows, held-out rows) of each fold; None for too few rows."""
        from sklearn.model_selection import KFold

        return None if folds < 2 or len(y) < 2 * folds else KFold(folds, shuffle=True, random_state=seed).split(np.zeros(len(y)))

    def constant(self, y: np.ndarray) -> Any:
        """Return None: targets that are all the same have a model, too."""
        return None

    def fold(self, svr: LinearSVR, X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the predictions for held-out rows, how far each is at most from the exact model's, and R²."""
        said = svr.predict(X)
        distance = _distances(svr, X, said)
        return said, np.full(len(y), np.nan) if distance is None else distance, _measures(y, said)["r2"]

    def validated(self, y: np.ndarray, said: np.ndarray, proven: np.ndarray, folds: list[float]) -> dict[str, Any]:
        """Return the measures of a cross-validation."""
        return {**_measures(y, said), **_within(proven), "folds": folds}

    # ------------------------------------------------------------------------------------------------------------------- showing

    def show(self, about: dict[str, Any], counted: np.ndarray | None) -> None:
        """Print R² and the mean absolute error."""
        settings = ", ".join(
            f"{name} {about[name]:g}" for name in ("C", "epsilon", "delta", "quantile") if about.get(name) is not None
        )
        say(f"Loss {about['loss']}, {settings}")
        training, validated = about["training"], about.get("cross_validation")
        say(f"On the training rows: {_words(training)}")
        _print_within(training)
        if validated is not None:
            folds = validated["folds"]
            say(
                f"In {len(folds)}-fold cross-validation: {_words(validated)} (R² of the folds from {min(folds):.4f} to {max(folds):.4f})"
            )
            _print_within(validated)
        if "test" in about:
            say(f"On the test part of the data set: {_words(about['test'])}")
        if counted is not None:
            median = float(np.median(counted))
            say(f"Always saying the median, {median:g}, would have: {_words(_measures(counted, np.full(len(counted), median)))}")

    # ---------------------------------------------------------------------------------------------------------------- predicting

    def predictions(self, model: SavedModel, X: Any, truth: Any) -> tuple[tuple[Any, ...], list[Any], dict[str, Any], str]:
        """Return the heads and rows of the answer, the same as plain data, and a sentence on how good the predictions are."""
        said = predictions_of(model.estimator, X)
        bounds = None if isinstance(X, Store) else _bounds(model.estimator, X)
        columns = {"prediction": said, **({} if bounds is None else {"low": bounds[0], "high": bounds[1]})}
        told: dict[str, Any] = {"predictions": said, **{name: value for name, value in columns.items() if name != "prediction"}}
        found = _known_targets(truth)
        sentence = ""
        if found is not None and len(found[0]):
            measured = _measures(found[0], said[found[1]])
            told |= measured
            sentence = f"{_words(measured)} on {len(found[0]):,} rows with a target"
        return tuple(columns), list(zip(*(column.tolist() for column in columns.values()), strict=True)), told, sentence

    # ---------------------------------------------------------------------------------------------------------------- certifying

    def certified(self, model: SavedModel, samples: Samples | Store) -> tuple[list[tuple[str, Certificate]], str, dict[str, Any]]:
        """Return a certificate of the model's objective on some data, a sentence on what is proven of the predictions, and the same as
        plain data (nothing for a store)."""
        svr = model.estimator
        X = model.features_of(samples)
        y = samples.labels() if isinstance(samples, Store) else samples.y
        ((problem, kept),) = svr._objectives(X, y)
        certificate, dual = certify_with_dual(problem, svr.coef_, svr.intercept_, kept if isinstance(X, Store) else None)
        made = [(self.certificate_names(svr)[0], certificate)]
        if isinstance(X, Store):
            return made, "", {}
        ball = ball_of(problem, svr.coef_, float(svr.intercept_[0]), dual)
        low, high = ball.training_bounds()
        said = svr.predict(X)
        within = _within(np.maximum(high - said, said - low))
        return made, _within_words(within), within


# ----------------------------------------------------------------------------------------------------------------------- numbers


def predictions_of(svr: LinearSVR, X: Any) -> np.ndarray:
    """Return the predictions for rows; rows of a store in the order of its input."""
    if not isinstance(X, Store):
        return np.asarray(svr.predict(X))
    return np.concatenate([svr.predict(X.matrix(k)) for k in range(len(X.parts))])[np.argsort(X.origin())]


def _measures(y: np.ndarray, said: np.ndarray) -> dict[str, float]:
    """Return R² (not a number where all targets are the same) and the mean absolute error."""
    off, spread = y - said, y - y.mean()
    total = float(spread @ spread)
    return {"r2": 1.0 - float(off @ off) / total if total > 0.0 else np.nan, "mae": float(np.abs(off).mean())}


def _words(measured: dict[str, float]) -> str:
    return f"R² {measured['r2']:.4f}, mean absolute error {measured['mae']:.6g}"


def _within(distances: np.ndarray | None) -> dict[str, Any]:
    """Return how far predictions are at most from those of the exact model, for half of them and for all; nothing where it is not known."""
    if distances is None or not np.isfinite(distances).all():
        return {}
    return {"within": {"half": float(np.median(distances)), "all": float(distances.max())}}


def _within_words(measured: dict[str, Any]) -> str:
    found = measured["within"]
    return f"  half of these predictions are proven to be within {found['half']:.3g} of the exact model's, all within {found['all']:.3g}"


def _print_within(measured: dict[str, Any]) -> None:
    if "within" in measured:
        say(_within_words(measured))


def _bounds(svr: LinearSVR, X: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return bounds of the exact model's predictions; None for a model that has none, such as one that was trained on a store."""
    try:
        return svr.prediction_bounds(X)
    except ProofError:
        return None


def _distances(svr: LinearSVR, X: Any, said: np.ndarray) -> np.ndarray | None:
    found = _bounds(svr, X)
    return None if found is None else np.maximum(found[1] - said, said - found[0])


def _known_targets(truth: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the targets of rows to predict and the rows that have one, or None if no row has a target."""
    if truth is None:
        return None
    if isinstance(truth, np.ndarray):
        return (truth.astype(float), np.arange(len(truth))) if truth.dtype.kind in "iufb" else None
    try:
        return learn_target(truth, "targets", task="regression").apply(truth)
    except DataError:
        return None
