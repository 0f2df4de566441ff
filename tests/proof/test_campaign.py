"""The campaign against false proofs: cases that once failed, and a judge that sees what is false. `make fuzz` draws new cases."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import dualgap
from campaign.attempts import attempt, reduced
from campaign.cases import draw, from_json
from campaign.judge import Claimed, violations
from campaign.kinds import claims
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


def test_a_case_is_the_same_again():
    for seed in range(300_000, 300_006):
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
