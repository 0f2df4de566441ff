"""The campaign against false proofs: cases that once failed, and a judge that sees what is false. `make fuzz` draws new cases."""

import dataclasses
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dualgap
from campaign.attempts import attempt, reduced
from campaign.cases import LOSSES, MACHINES, REGRESSION, Case, draw, from_json, has_targets
from campaign.following import root
from campaign.judge import Claimed, false_words, violations
from campaign.kinds import RUNS, claims
from campaign.nu import Found
from conftest import make_data
from dualgap.proof import BinaryPart, Table

KEPT = (Path(__file__).parent / "false_proofs.jsonl").read_text().splitlines()


@pytest.mark.parametrize("line", KEPT, ids=[str(from_json(line)["seed"]) for line in KEPT])
def test_what_once_failed(line):
    judged, wrong = attempt(from_json(line))
    assert judged
    assert wrong == []


def solved(tol=1e-3):
    X = np.array([[0.0, 1.0], [1.0, 0.5], [-1.0, 0.25], [0.5, -2.0]])
    result = dualgap.solve(dualgap.Problem(X, [1, 1, 0, 0], l2=0.1), tol=tol)
    part = BinaryPart(result.problem, result.coef, result.intercept, result.dual, None)
    return Claimed(result.certificate, part, Table(X, np.array([1, 1, 0, 0]), [0, 1]), status=result.status, tol=tol)


def test_the_judge_finds_nothing_wrong_with_a_true_claim():
    assert violations(solved()) == []


FALSE = {
    "primal": lambda c: (c.primal * (1 - 1e-12), c.dual),
    "dual": lambda c: (c.primal, c.dual * (1 + 1e-9)),
    "gap": lambda c: (c.primal, c.primal),
    "number": lambda c: (np.nan, c.dual),
    "trivial": lambda c: (c.primal, -c.dual),
}


@pytest.mark.parametrize("word", FALSE)
def test_the_judge_sees_a_false_claim(word):
    claimed = solved(tol=1e-9)
    primal, dual = FALSE[word](claimed.certificate)
    false = dataclasses.replace(claimed.certificate, primal=primal, dual=dual)
    assert any(word in text for text in violations(dataclasses.replace(claimed, certificate=false)))


def test_the_judge_sees_a_run_that_has_not_converged():
    claimed = dataclasses.replace(solved(tol=0.5), status="converged", tol=0.0)
    assert any("converged" in text for text in violations(claimed))


def test_converged_means_that_the_certificate_is_within_the_tolerances_given():
    """Whatever the exact gap is: a tolerance that nobody gave is none."""
    claimed = solved(tol=1e-3)
    relative, gap = claimed.certificate.relative_gap, claimed.certificate.gap
    for tol, atol, wrong in ((relative, 0.0, 0), (0.0, gap, 0), (0.99 * relative, 0.0, 1), (0.0, 0.99 * gap, 1)):
        assert len(violations(dataclasses.replace(claimed, status="converged", tol=tol, atol=atol))) >= wrong
        assert len(false_words(claimed.certificate, "converged", tol, atol)) == wrong
        assert not false_words(claimed.certificate, "max_epochs", tol, atol)


def test_every_kind_is_drawn():
    cases = [draw(seed) for seed in range(0, 60_000, 37)]
    assert {case["kind"] for case in cases} == set(RUNS)
    assert {case["loss"] for case in cases} == {*LOSSES, *REGRESSION}
    assert {case["machine"] for case in cases if case["kind"] == "nu"} == set(MACHINES)
    assert {has_targets(case.settings) for case in cases if case.settings["bounds"]} == {True, False}


@pytest.mark.parametrize("kind", ["answers", "forget", "guarantee", "certified_cv"])
def test_what_follows_is_judged(kind):
    X, y = make_data(n=24, d=2)
    settings = draw(0).settings | {
        "kind": kind,
        "loss": "hinge",
        "delta": None,
        "l2": 0.1,
        "l1": 0.0,
        "kernel": None,
        "bounds": None,
    }
    settings |= {"intercept": "none", "storage": "dense", "tol": 1e-3, "atol": 0.0, "max_epochs": 200}
    judged, wrong = attempt(Case(settings, X, (y > 0).astype(int), None))
    assert judged
    assert wrong == []


def test_a_ball_that_is_too_small_is_seen(monkeypatch):
    X, y = make_data(n=24, d=2)
    settings = draw(0).settings | {"kind": "answers", "loss": "hinge", "delta": None, "l2": 0.1, "l1": 0.0, "kernel": None}
    settings |= {"bounds": None, "intercept": "none", "storage": "dense", "tol": 0.1, "max_epochs": 1}
    case = Case(settings, X, (y > 0).astype(int), None)

    def narrow(self, X, diagonal=None):
        scores = self.decision(X)
        return scores - 1e-9, scores + 1e-9

    assert attempt(case)[1] == []
    monkeypatch.setattr(dualgap.Result, "decision_bounds", narrow)
    assert any("bounds of the score" in text for text in attempt(case)[1])


@pytest.mark.parametrize("machine", MACHINES)
def test_nu_machines_are_judged(machine):
    X = make_data(n=16, d=2)[0]
    settings = draw(0).settings | {"kind": "nu", "machine": machine, "nu": 0.2, "loss": "hinge", "storage": "dense", "tol": 1e-6}
    settings |= {"atol": 0.0, "max_epochs": 200, "l2": 0.1}
    X = X + 3.0  # the origin is outside
    case = Case(settings, X, X[:, 0] if machine == "NuSVR" else (X[:, 0] > np.median(X[:, 0])).astype(int), None)
    assert attempt(case) == ([machine], [])


def test_false_bounds_of_a_nu_machine_are_seen():
    found = Found(Fraction(1), Fraction(2), Fraction(3, 2), Fraction(2))
    assert found.contradictions(dualgap.Certificate(1.75, 1.25, "solver")) == []
    assert "dual" in found.contradictions(dualgap.Certificate(2.5, 2.25, "solver"))[0]
    assert "lower bound" in found.contradictions(dualgap.Certificate(0.5, 0.25, "solver"))[0]
    assert "objective" in found.contradictions(dualgap.Certificate(1.25, 0.25, "solver"))[0]


@pytest.mark.parametrize("x", [0, 1, 2, 10**40, Fraction(1, 10**40), Fraction(2, 3)])
def test_roots_are_bounded_from_above(x):
    assert Fraction(x) <= root(Fraction(x)) ** 2 <= Fraction(x) * (1 + Fraction(1, 10**12)) + Fraction(1, 10**30)


def test_a_case_is_the_same_again():
    for seed in [*range(300_000, 300_006), *(s for s in range(0, 9000, 37) if has_targets(draw(s).settings))][:20]:
        case, again = draw(seed), from_json(draw(seed).json())
        assert case.settings == again.settings
        np.testing.assert_array_equal(case.X, again.X)
        np.testing.assert_array_equal(case.y, again.y)
        assert (case.weights is None) == (again.weights is None)


def test_a_failure_is_reduced(monkeypatch):
    """A certificate that forgets a tenth of the gap: the case shrinks while it still fails."""
    line = next(line for line in KEPT if from_json(line)["kind"] == "certify")
    X = np.arange(24.0).reshape(12, 2) % 5
    case = from_json(line).change(kind="solve", X=X, y=np.arange(12) % 2, kernel=None, storage="dense", solver="sdca", l2=0.1)

    def false_claims(case):
        for claimed in claims(case):
            c = claimed.certificate
            yield dataclasses.replace(claimed, certificate=dataclasses.replace(c, primal=0.9 * c.primal))

    monkeypatch.setattr("campaign.attempts.claims", false_claims)
    _, wrong = attempt(case)
    assert wrong
    assert reduced(case, wrong).X.size < 6
