"""Proof files: what is written is verified, and what is changed is refused. The second checker has tests of its own."""

import hashlib
import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from conftest import make_data
from scipy import sparse
from sklearn.datasets import load_iris

import dualgap
from dualgap import SVC, LinearSVC, LinearSVCPath, LinearSVCPathCV, Problem, solve
from dualgap.proof import BinaryPart, ProofError, Table, canonical_text, exact_values, make_proof, verify

ROOT = Path(__file__).resolve().parents[2]
LOSSES = ["hinge", "smooth_hinge", "squared_hinge", "logistic"]
PENALTIES = {"l2": {"l2": 0.05}, "elastic_net": {"l2": 0.02, "l1": 0.03}, "l1": {"l2": 0.0, "l1": 0.05}}
INTERCEPTS = ["none", "penalised", "free"]
STORAGES = {"dense": np.asarray, "float32": np.float32, "sparse": sparse.csr_array}
KERNELS = {
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0},
    "rbf": {"kernel": "rbf"},
}


def table_of(problem):
    return Table(problem.X, (problem.y > 0).astype(int), problem.classes.tolist())


def proof_of(problem, **options):
    result = solve(problem, tol=1e-3, seed=0, **options)
    return make_proof(table_of(problem), [BinaryPart(problem, result.coef, result.intercept, result.dual, result.certificate.gap)])


def rewritten(proof, old, new):
    """The proof with a part of its body replaced, and the digest of the body renewed."""
    head, digest, body = proof.split(b"\n", 2)
    assert old in body
    body = body.replace(old, new, 1)
    return b"\n".join([head, b"sha256 " + hashlib.sha256(body).hexdigest().encode(), body])


def line(proof, keyword):
    return next(each for each in proof.split(b"\n") if each.split(b" ")[0] == keyword)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_problem(loss, penalty, intercept, storage):
    if penalty == "l1" and intercept == "penalised":
        pytest.skip("a penalised intercept needs l2")
    X, y = make_data(n=30, d=4)
    problem = Problem(STORAGES[storage](X), y, loss, intercept=intercept, intercept_scale=0.5, **PENALTIES[penalty])
    text = proof_of(problem)
    proof, ((primal, dual),) = verify.verify(text.proof, text.data)
    assert primal - dual <= proof.claims[0].gap
    # The values are those that the package has, to rounding.
    result = solve(problem, tol=1e-3, seed=0)
    assert float(primal) == pytest.approx(result.certificate.primal, rel=1e-12)
    assert float(dual) == pytest.approx(result.certificate.dual, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_kernels(loss, kernel, intercept):
    X, y = make_data(n=24, d=3)
    problem = Problem(X, y, loss, l2=0.05, intercept=intercept, **KERNELS[kernel])
    text = proof_of(problem)
    _, ((primal, dual),) = verify.verify(text.proof, text.data)
    result = solve(problem, tol=1e-3, seed=0)
    assert float(primal) == pytest.approx(result.certificate.primal, rel=1e-12)
    assert float(dual) == pytest.approx(result.certificate.dual, rel=1e-9)
