"""LinearSVC and LinearSVR on the workers of a Dask cluster: what `dualgap.dask` lists. No other module imports this one."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from dualgap.cluster import (
    CHECKPOINT_SECONDS,
    Checkpoint,
    DaskPool,
    DataStatistics,
    RoundsResult,
    checkpoint_meta,
    current_client,
    has_words,
    make_objective,
    make_pool,
    prepare_frame,
    run_rounds,
    to_polars,
)
from dualgap.estimators import linear, linear_svr
from dualgap.estimators.fitting import TimeShare, keep, warn_unless_converged
from dualgap.estimators.model import Fit
from dualgap.estimators.parameters import Parameters, checked, coefficient_bounds
from dualgap.estimators.progress import log_to_screen, logged
from dualgap.estimators.samples import ClassWeight, is_store, weights_by_class
from dualgap.problem import is_dask

__all__ = ["LinearSVC", "LinearSVR"]

SOLVERS = ("auto", "newton", "newton_cg", "cocoa")
OWN = ("client", "partitions", "checkpoint", "patience")


class _OnCluster(linear.LinearModel):
    """What LinearSVC and LinearSVR on a cluster share. Stands before the plain class among the bases.

    Predictions on Dask arrays and data frames are as lazy as the data; on rows in memory they are those of the plain class.
    """

    client: Any
    partitions: int | None
    checkpoint: str | Path | None
    patience: float
    _plain: type

    def __init__(
        self,
        *,
        client: Any = None,
        partitions: int | None = None,
        checkpoint: str | Path | None = None,
        patience: float = 60.0,
        **parameters: Any,
    ) -> None:
        super().__init__(**parameters)
        self.client = client
        self.partitions = partitions
        self.checkpoint = checkpoint
        self.patience = patience

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted([*inspect.signature(cls._plain).parameters, *OWN])

    def __sklearn_clone__(self) -> Self:
        parameters: dict[str, Any] = self.get_params(deep=False)
        client = parameters.pop("client")  # a connection has no copy
        return type(self)(client=client, **{name: clone(value, safe=False) for name, value in parameters.items()})

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        assert isinstance(state, dict)
        return {**state, "client": self.client if isinstance(self.client, str) else None}

    def fit(self, X: object, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train on the workers of the cluster, in rounds; `n_iter_` counts them.

        Parameters
        ----------
        X : Dask array or data frame, list of delayed parts, or a Store
            Delayed parts give (X, y) or (X, y, sample_weight), X an array or a CSR matrix. A store must be on a disk that all workers
            see. Columns of a frame that are not numbers are prepared as those of table files are, and numbers beside them standardised.
        y, sample_weight : Dask array or series, or an array
            Left out for delayed parts and stores, which have their own.
        """
        parameters = checked(self)
        self._check(X, parameters)
        with log_to_screen(self.verbose):
            results = self._run(X, y, sample_weight, parameters)
        self.status_ = warn_unless_converged(type(self).__name__, results, parameters.budget.tol)
        return self

    def to_local(self) -> Any:
        """Return this model as an estimator of the plain class, which needs no Dask."""
        check_is_fitted(self)
        if hasattr(self, "preparation_"):
            raise ValueError("this model prepares the columns of a data frame, which the plain class does not: keep it as it is")
        parameters: dict[str, Any] = self.get_params(deep=False)
        local = self._plain(**{name: value for name, value in parameters.items() if name not in OWN})
        local.__dict__.update({name: value for name, value in self.__dict__.items() if name not in parameters})
        return local

    # ---------------------------------------------------------------------------------------------------------- predictions

    def predict(self, X: object) -> Any:
        """Return labels or predictions; lazy on Dask data."""
        dtype = self.classes_.dtype if is_classifier(self) else np.dtype(np.float64)
        return self._lazily("predict", X, dtype, None)

    def score(self, X: object, y: object, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy, or R² of a regression. On Dask data it is computed at once, block by block."""
        if not is_dask(X):
            return float(super().score(X, y, sample_weight))
        import dask

        found, true = self.predict(X), _as_array(y)
        weights = 1.0 if sample_weight is None else _as_array(sample_weight)
        if is_classifier(self):
            right = found == true
            top, total = dask.compute((weights * right).sum(), (weights + 0.0 * right).sum())
            return float(top / total)
        mean, total = dask.compute((weights * true).mean(), (weights + 0.0 * true).mean())
        left, spread = dask.compute((weights * (true - found) ** 2).sum(), (weights * (true - mean / total) ** 2).sum())
        return float(1.0 - left / spread)

    def _lazily(self, method: str, X: Any, dtype: np.dtype, columns: int | None) -> Any:
        """Return a Dask array of what `method` of the plain model makes of every block of rows: `columns` numbers a row, or one."""
        check_is_fitted(self)
        preparation = getattr(self, "preparation_", None)
        plain = getattr(super(), method)
        if not is_dask(X):
            return plain(preparation.transform(to_polars(X)) if preparation is not None and hasattr(X, "columns") else X)
        if isinstance(X, (list, tuple)):
            raise TypeError(f"X is a list of {len(X)} delayed parts: call {method} on each of them")
        if hasattr(X, "map_partitions"):
            meta = np.empty((0,) if columns is None else (0, columns), dtype=dtype)
            return X.map_partitions(_of_frame, plain, preparation, meta=meta)
        features = self.n_features_in_
        if X.shape[1] != features:
            raise ValueError(f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {features} features as input")
        whole = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
        if columns is None:
            return whole.map_blocks(plain, dtype=dtype, drop_axis=1, meta=np.empty(0, dtype))
        return whole.map_blocks(plain, dtype=dtype, chunks=(whole.chunks[0], (columns,)), meta=np.empty((0, 0), dtype))

    # -------------------------------------------------------------------------------------------------------------- fitting

    def _check(self, X: object, parameters: Parameters) -> None:
        name, solver = type(self).__name__, parameters.budget.solver
        if not (is_dask(X) or is_store(X)):
            raise TypeError(
                f"dualgap.dask.{name} takes Dask arrays, data frames, delayed parts or a Store; X is a {type(X).__name__}: use "
                f"dualgap.{name}, or dask.array.from_array"
            )
        if not (isinstance(solver, str) and solver in SOLVERS):
            raise ValueError(
                f"solver={solver!r} on a cluster: its solvers are 'newton', 'newton_cg' and 'cocoa'; leave solver='auto'"
            )
        if getattr(self, "multi_class", "ovr") != "ovr":
            raise ValueError(f"multi_class={self.multi_class!r} needs all rows in memory; a cluster takes 'ovr'")
        if getattr(self, "probability", False):
            raise ValueError("probability=True needs the rows in memory, for fits on parts of them; a cluster takes False")
        if self.warm_start:
            raise ValueError(
                "warm_start=True on a cluster: give checkpoint=FOLDER, from which a later fit of the same problem goes on"
            )

    def _run(self, X: object, y: object, sample_weight: ArrayLike | None, parameters: Parameters) -> list[RoundsResult]:
        client, preparation = current_client(self.client), None
        if has_words(X):
            task = "regression" if is_regressor(self) else "classification"
            X, preparation = prepare_frame(X, y, sample_weight, client, parameters.budget.seed, task)
            y = sample_weight = None
        with make_pool(X, y, sample_weight, client, self.partitions, self.patience) as pool:
            results = _solve(pool, self, parameters)
        if preparation is not None:
            self.preparation_ = preparation
        return results


class LinearSVC(_OnCluster, linear.LinearSVC):
    """`dualgap.LinearSVC` trained on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client or the address of a scheduler, optional
        The current client by default.
    partitions : int, optional
        Into how many partitions the rows are divided. By default one a thread of a worker.
    checkpoint : folder, optional
        Where the workers save their dual variables once a minute; all of them must see it. A fit of the same problem that finds a
        checkpoint there goes on from it, on any number of workers.
    patience : float
        Seconds to wait for a worker once none is left, before the fit gives up.
    **parameters
        Those of `dualgap.LinearSVC`, but for multi_class, probability and warm_start, which need the rows in memory.

    Attributes
    ----------
    preparation_ : Preparation
        After a fit on a data frame with columns that are not numbers: what became of each column. `coef_` is over
        `preparation_.feature_names`, and predictions take frames with the same columns.
    The others
        As in `dualgap.LinearSVC`, but for those that need single rows (`support_`, `n_support_`, `dual_coef_`).

    Examples
    --------
    >>> import dask.array
    >>> from distributed import Client
    >>> from sklearn.datasets import make_classification
    >>> from dualgap.dask import LinearSVC
    >>> X, y = make_classification(400, random_state=0)
    >>> rows = dask.array.from_array(X, chunks=(100, -1))
    >>> with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
    ...     model = LinearSVC(client=client, C=0.1).fit(rows, y)
    >>> model.status_, model.to_local().predict(X).shape
    ('converged', (400,))
    """

    _plain = linear.LinearSVC

    def decision_function(self, X: object) -> Any:
        """Return the scores of samples: for two classes one each, else one for each class. Lazy on Dask data."""
        models = len(self.intercept_)
        return self._lazily("decision_function", X, np.dtype(np.float64), None if models == 1 else models)


class LinearSVR(_OnCluster, linear_svr.LinearSVR):
    """`dualgap.LinearSVR` trained on the workers of a Dask cluster, for one target.

    Parameters
    ----------
    client, partitions, checkpoint, patience
        As in `dualgap.dask.LinearSVC`.
    **parameters
        Those of `dualgap.LinearSVR`, but for warm_start, which needs the rows in memory.

    Examples
    --------
    >>> import dask.array
    >>> from distributed import Client
    >>> from sklearn.datasets import make_regression
    >>> from dualgap.dask import LinearSVR
    >>> X, y = make_regression(400, 5, noise=1.0, random_state=0)
    >>> rows = dask.array.from_array(X, chunks=(100, -1))
    >>> with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
    ...     model = LinearSVR(client=client, epsilon=0.5).fit(rows, y)
    >>> model.status_
    'converged'
    """

    _plain = linear_svr.LinearSVR


def _as_array(vector: Any) -> Any:
    return vector.to_dask_array() if hasattr(vector, "to_dask_array") else vector


def _of_frame(part: Any, plain: Any, preparation: Any) -> np.ndarray:
    return plain(part.to_numpy() if preparation is None else preparation.transform(to_polars(part)))


def _solve(pool: DaskPool, model: _OnCluster, parameters: Parameters) -> list[RoundsResult]:
    """Run one problem for each class, or one for the targets, over the same partitions, and keep the fitted attributes."""
    budget, loss = parameters.budget, model._loss()
    assert isinstance(budget.solver, str)  # by _check
    statistics = DataStatistics(pool.call("describe", loss))
    labels = statistics.classes.tolist()
    if labels:
        model._check_bounds(False, len(labels))
    positives = [None] if not labels else labels[1:] if len(labels) == 2 else labels
    results: list[RoundsResult] = []
    seconds = TimeShare(budget.max_seconds, len(positives))
    bounds = coefficient_bounds(model, statistics.features)
    for label in positives:
        factors = _factors(getattr(model, "class_weight", None), statistics, label)
        l2, l1 = parameters.strengths(sum(factor * statistics.weights[each] for each, factor in factors.items()))
        objective, classes = make_objective(
            pool,
            loss,
            None,
            l2,
            l1,
            parameters.intercept,
            intercept_scale=parameters.scale,
            class_weight=factors,
            positive=label,
            statistics=statistics,
            bounds=bounds,
        )
        name = "fit" if len(positives) == 1 else f"class {label!r}"
        checkpoint = _checkpoint_of(model.checkpoint, len(results), len(positives))
        checkpoint.resume_or_begin(checkpoint_meta(statistics, objective, classes))
        pool.where = checkpoint.where
        results.append(
            run_rounds(
                pool,
                objective,
                classes,
                budget.tol,
                budget.max_epochs,
                seconds.next(),
                seed=budget.seed,
                solver=budget.solver,
                callbacks=[*(model.callbacks or ()), logged(name, model.verbose), pool.listener(name)],
                checkpoint=checkpoint,
                halt=lambda: any(r.status == "interrupted" for r in results),  # one round each for the classes that are left
            )
        )
    _keep(model, statistics, results)
    return results


def _keep(model: _OnCluster, statistics: DataStatistics, results: Sequence[RoundsResult]) -> None:
    model.__dict__.pop("feature_names_in_", None)  # of an earlier fit
    coef, rounds = np.stack([r.coef for r in results]), max(r.rounds for r in results)
    classes = statistics.classes if len(statistics.classes) else None
    found: dict[str, Any] = {"coef_": coef[0], "_flat": True} if classes is None else {"coef_": coef, "classes_": classes}
    keep(model, results, Fit(), n_iter_=rounds, n_features_in_=statistics.features, **found)


def _checkpoint_of(folder: str | Path | None, number: int, problems: int) -> Checkpoint:
    """Return the checkpoint of one of the problems of a fit, in a folder of its own where there are several."""
    if folder is None:
        return Checkpoint(None, math.inf)
    return Checkpoint(
        Path(folder) / f"class-{number:03d}" if problems > 1 else folder, CHECKPOINT_SECONDS, "fit again with the same folder"
    )


def _factors(class_weight: ClassWeight, statistics: DataStatistics, label: object) -> dict[Any, float]:
    """The weight of each label: with more than two classes the rest keeps weight 1, as LIBLINEAR has it."""
    labels = statistics.classes.tolist()
    if not labels:
        return dict.fromkeys(statistics.weights, 1.0)  # targets
    counts = np.array([statistics.weights[each] for each in labels])
    weights = weights_by_class(class_weight, statistics.classes, np.arange(len(labels)), counts)
    if weights is None:
        return dict.fromkeys(labels, 1.0)
    by_class = dict(zip(labels, weights.tolist(), strict=True))
    return by_class if len(labels) == 2 else {each: by_class[each] if each == label else 1.0 for each in labels}
