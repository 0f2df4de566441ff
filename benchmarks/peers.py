"""The peers, each behind one small function: (X, y, l2, loss, setting) -> coef, for problems without an intercept.

A peer has settings from loose to tight; its time to a precision is that of the fastest setting that gets there, which is more than
a user could know beforehand. `check` trains each at two values of C and certifies both: a wrapper that forgets to pass C is found out.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

import dualgap

__all__ = ["PEERS", "Peer", "available", "check", "quiet", "warm_up"]


@dataclass(frozen=True)
class Peer:
    """A library's way to train the model; `losses` maps our names to what `train` needs."""

    name: str
    package: str
    losses: tuple[str, ...]
    settings: tuple[float, ...]
    train: Callable[..., np.ndarray]
    dense_only: bool = False
    most_features: int = 10**9  # beyond which it needs more memory or time than a race can give it
    most_rows: int = 10**9
    own_threads: bool = False  # whether it starts threads, which a child process would not have and would wait for

    def takes(self, X: Any) -> bool:
        dense = not (self.dense_only and sparse.issparse(X))
        return bool(dense and X.shape[0] <= self.most_rows and X.shape[1] <= self.most_features)


def _c(y: np.ndarray, l2: float) -> float:
    return 1.0 / (l2 * len(y))


def _liblinear(dual: bool) -> Callable[..., np.ndarray]:
    def train(X: Any, y: np.ndarray, l2: float, loss: str, tol: float) -> np.ndarray:
        from sklearn.linear_model import LogisticRegression
        from sklearn.svm import LinearSVC

        common = {"C": _c(y, l2), "fit_intercept": False, "tol": tol, "max_iter": 20_000, "dual": dual, "random_state": 0}
        model: Any
        if loss == "logistic":
            model = LogisticRegression(solver="liblinear", **common)
        else:
            model = LinearSVC(loss=loss, **common)
        return model.fit(X, y).coef_.ravel()

    return train


def _liblinear_official(X: Any, y: np.ndarray, l2: float, loss: str, tol: float) -> np.ndarray:
    from liblinear import liblinearutil

    kind = {"hinge": 3, "squared_hinge": 1, "logistic": 7}[loss]
    C = _c(y, l2)
    problem = liblinearutil.problem(y, sparse.csr_matrix(X))
    model = liblinearutil.train(problem, liblinearutil.parameter(f"-s {kind} -c {C!r} -e {tol!r} -B -1 -q"))
    sign = 1.0 if model.get_labels()[0] == 1 else -1.0
    return sign * np.array(model.get_decfun()[0][: X.shape[1]])


def _snap(threads: int) -> Callable[..., np.ndarray]:
    def train(X: Any, y: np.ndarray, l2: float, loss: str, tol: float) -> np.ndarray:
        import snapml

        kind = snapml.SupportVectorMachine if loss == "hinge" else snapml.LogisticRegression
        common = {"tol": tol, "max_iter": 2000, "fit_intercept": False, "n_jobs": threads, "random_state": 0}
        return kind(regularizer=l2 * len(y), **common).fit(X, y).coef_.ravel()

    return train


def _sgd(X: Any, y: np.ndarray, l2: float, loss: str, epochs: float) -> np.ndarray:
    from sklearn.linear_model import SGDClassifier

    name = {"hinge": "hinge", "squared_hinge": "squared_hinge", "logistic": "log_loss"}[loss]
    model = SGDClassifier(loss=name, alpha=l2, fit_intercept=False, max_iter=int(epochs), tol=None, average=True, random_state=0)
    return model.fit(X, y).coef_.ravel()


def _skglm(X: Any, y: np.ndarray, l2: float, loss: str, tol: float) -> np.ndarray:
    from skglm import LinearSVC

    return LinearSVC(C=_c(y, l2), tol=tol, max_iter=200, max_epochs=50_000).fit(X, y).coef_.ravel()


def _cyanure(X: Any, y: np.ndarray, l2: float, loss: str, tol: float) -> np.ndarray:
    from cyanure.estimators import Classifier

    # Its squared hinge is ½·max(0, 1−m)², half of ours.
    name, scale = ("sqhinge", 0.5) if loss == "squared_hinge" else ("logistic", 1.0)
    model = Classifier(loss=name, penalty="l2", lambda_1=l2 * scale, fit_intercept=False, tol=tol, max_iter=2000, verbose=False)
    return np.asarray(model.fit(X, y).coef_, dtype=np.float64).ravel()


def _rehline(X: Any, y: np.ndarray, l2: float, loss: str, tol: float) -> np.ndarray:
    from rehline import plqERM_Ridge

    model = plqERM_Ridge(loss={"name": "svm"}, C=_c(y, l2), tol=tol, max_iter=1_000_000)
    return np.asarray(model.fit(X, y).coef_, dtype=np.float64).ravel()


def _scikit_logistic(solver: str) -> Callable[..., np.ndarray]:
    def train(X: Any, y: np.ndarray, l2: float, loss: str, tol: float) -> np.ndarray:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=_c(y, l2), solver=solver, fit_intercept=False, tol=tol, max_iter=20_000)
        return model.fit(X, y).coef_.ravel()

    return train


TOLERANCES = (1.0, 0.3, 0.1, 0.03, 1e-2, 1e-3, 1e-4, 1e-6)
PEERS = (
    Peer("LIBLINEAR", "sklearn", ("hinge", "squared_hinge", "logistic"), TOLERANCES, _liblinear(dual=True)),
    Peer("LIBLINEAR primal", "sklearn", ("squared_hinge", "logistic"), TOLERANCES, _liblinear(dual=False)),
    Peer("liblinear-official", "liblinear", ("hinge", "squared_hinge", "logistic"), TOLERANCES, _liblinear_official),
    Peer("Snap ML", "snapml", ("hinge", "logistic"), (1e-1, 1e-2, 1e-3, 1e-4, 1e-5), _snap(1), own_threads=True),
    Peer("Snap ML (2 threads)", "snapml", ("hinge", "logistic"), (1e-1, 1e-2, 1e-3, 1e-4, 1e-5), _snap(2), own_threads=True),
    Peer("scikit-learn SGD", "sklearn", ("hinge", "squared_hinge", "logistic"), (5, 20, 80, 320), _sgd),
    Peer("skglm", "skglm", ("hinge",), (1e-2, 1e-4, 1e-6), _skglm, most_rows=50_000),
    Peer("ReHLine", "rehline", ("hinge",), TOLERANCES, _rehline, dense_only=True),
    Peer("cyanure", "cyanure", ("squared_hinge", "logistic"), (1e-2, 1e-3, 1e-4, 1e-6), _cyanure, own_threads=True),
    Peer(
        "newton-cholesky",
        "sklearn",
        ("logistic",),
        (1e-1, 1e-2, 1e-4, 1e-6),
        _scikit_logistic("newton-cholesky"),
        most_features=5_000,
    ),
    Peer("lbfgs", "sklearn", ("logistic",), (1e-1, 1e-2, 1e-4, 1e-6), _scikit_logistic("lbfgs")),
)


def warm_up(peer: Peer, X: Any, y: np.ndarray, loss: str) -> None:
    """Train on a few rows of each class: what a peer imports, compiles and starts is then there."""
    few = np.sort(np.concatenate([np.flatnonzero(y == sign)[:100] for sign in (1.0, -1.0)]))
    with quiet(), contextlib.suppress(Exception):  # what is wrong with it, the race will tell
        peer.train(X[few], y[few], 1e-2, loss, peer.settings[0])


def available(loss: str) -> list[Peer]:
    """Return the peers that are installed and know the loss."""
    return [peer for peer in PEERS if loss in peer.losses and importlib.util.find_spec(peer.package) is not None]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence a peer: its warnings and its output, compiled code included."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, "w") as nowhere, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)


def check(peer: Peer, loss: str) -> str:
    """'' if the wrapper solves our problem at two values of C, else what is wrong."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 8))
    y = np.where(X @ rng.standard_normal(8) + rng.standard_normal(400) > 0, 1.0, -1.0)
    found = []
    for l2 in (1e-1, 1e-3):
        with quiet():
            coef = peer.train(X, y, l2, loss, peer.settings[-1])
        gap = dualgap.certify(dualgap.Problem(X, y, loss=loss, l2=l2), coef, epochs=200).relative_gap
        if gap > 0.05:
            return f"certified only to a relative gap of {gap:.1e} at l2 = {l2:g}: it solves another problem"
        found.append(coef)
    return "" if not np.allclose(found[0], found[1], rtol=1e-2) else "the same model at two values of C"
