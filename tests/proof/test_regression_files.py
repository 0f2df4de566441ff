"""Proof files of regressions: what is written is verified, and what is changed is refused."""

import dataclasses
import hashlib
import pickle
import shutil
import subprocess
import sys
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import sparse

from dualgap import SVR, LinearSVR, Problem, ResidualLoss, solve
from dualgap.proof import ProofError, Table, TargetPart, canonical_text, exact_values, make_proof, verify
from dualgap.proof.files import rounded_up
from opinions import first_opinion, second_opinion

LOSSES = {
    "epsilon_insensitive": {"epsilon": 0.3},
    "squared_epsilon_insensitive": {"epsilon": 0.3},
    "huber": {"delta": 0.7},
    "absolute": {},
    "quantile": {"quantile": 0.8},
    "squared_error": {},
}
PENALTIES = {
    "l2": {"l2": 0.05},
    "elastic net": {"l2": 0.02, "l1": 0.03},
    "l1": {"l2": 0.0, "l1": 0.05},
    "bounds": {"l2": 0.05, "bounds": ([0.0, -np.inf, 0.25], [np.inf, -0.125, 0.25])},
}
KERNELS = {"linear": {}, "poly": {"degree": 2, "coef0": 1.0}, "rbf": {}, "precomputed": {}}


def made_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 3))
    return X, X @ [1.0, -2.0, 0.5] + 3.0 + 0.3 * rng.normal(size=24), rng.uniform(0.5, 2.0, 24)


@cache
def solved(loss, penalty="l2", intercept="free", kernel=None):
    X, y, weights = made_data()
    options = {**LOSSES[loss], **PENALTIES[penalty]}
    if kernel is not None:
        options |= {"kernel": kernel, **KERNELS[kernel]}
    if kernel == "precomputed":
        X = np.round(X, 6) @ np.round(X, 6).T
        X = (X + X.T) / 2 + 0.1 * np.eye(len(y))
    problem = Problem(X, y, loss, sample_weight=weights, intercept=intercept, intercept_scale=0.5, **options)
    return problem, solve(problem, tol=1e-2, max_epochs=2000, seed=0)


def proof_of(*case):
    problem, result = solved(*case)
    part = TargetPart(problem, result.coef, result.intercept, result.dual, result.certificate.gap)
    return make_proof(Table(problem.X, problem.targets[:, None], []), [part])


def agrees(text, certificates):
    proof, values = verify.verify(text.proof, text.data)
    for claim, (primal, dual), certificate in zip(proof.claims, values, certificates, strict=True):
        assert primal - dual <= claim.gap
        assert float(primal) == pytest.approx(certificate.primal, rel=1e-9)
        assert float(dual) == pytest.approx(certificate.dual, rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("intercept", ["none", "penalised", "free"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_linear_problem(loss, penalty, intercept):
    if (penalty, intercept) == ("l1", "penalised"):
        pytest.skip("a penalised intercept needs l2")
    agrees(proof_of(loss, penalty, intercept), [solved(loss, penalty, intercept)[1].certificate])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_kernel(loss, kernel):
    agrees(proof_of(loss, "l2", "free", kernel), [solved(loss, "l2", "free", kernel)[1].certificate])


@pytest.mark.parametrize("loss", LOSSES)
def test_values_against_plain_sums(loss):
    """P and D by the formulas of the mathematics page, in fractions."""
    problem, result = solved(loss, "l2", "penalised")
    part = TargetPart(problem, result.coef, result.intercept, result.dual, None)
    table = Table(problem.X, problem.targets[:, None], [])
    primal, dual = exact_values(part, table)
    c, t, beta, w = (list(map(Fraction, a.tolist())) for a in (problem.c, problem.targets, result.dual, result.coef))
    X, b = [list(map(Fraction, row)) for row in problem.X.tolist()], Fraction(float(result.intercept))
    l2, scale = Fraction(problem.l2), Fraction(problem.intercept_scale)
    eps, delta = Fraction(problem.loss.epsilon), Fraction(problem.loss.delta)

    def phi(r):
        slope, over = (problem.loss.high if r < 0 else problem.loss.low), max(abs(r) - eps, 0)
        if over < (float("inf") if slope == float("inf") else delta * Fraction(slope)):
            return over**2 / (2 * delta) if over else Fraction(0)
        return Fraction(slope) * (over - delta * Fraction(slope) / 2)

    residuals = [sum(x * z for x, z in zip(row, w, strict=True)) + b - ti for row, ti in zip(X, t, strict=True)]
    P = sum(ci * phi(r) for ci, r in zip(c, residuals, strict=True)) + l2 / 2 * (sum(z * z for z in w) + (b / scale) ** 2)
    u = [sum(ci * bi * row[j] for ci, bi, row in zip(c, beta, X, strict=True)) for j in range(3)]
    total = sum(ci * bi for ci, bi in zip(c, beta, strict=True))
    D = sum(ci * (bi * ti - eps * abs(bi) - delta * bi * bi / 2) for ci, bi, ti in zip(c, beta, t, strict=True))
    D -= (sum(x * x for x in u) + (scale * total) ** 2) / (2 * l2)
    assert (primal, dual) == (P, D)


def test_estimators_with_several_targets(tmp_path):
    X, y, weights = made_data()
    Y = np.stack([y, y**2], axis=1)
    for model in (
        LinearSVR(C=0.3, tol=1e-5, random_state=0),
        LinearSVR(C=0.3, loss="huber", l1_ratio=0.5, random_state=0),
        SVR(C=3.0, epsilon=0.1),
    ):
        model.fit(X, Y, weights).proof_.save(tmp_path / "p", data=tmp_path / "d")
        proof, values = verify.verify((tmp_path / "p").read_bytes(), (tmp_path / "d").read_bytes())
        assert [claim.target for claim in proof.claims] == [0, 1]
        for (primal, dual), certificate in zip(values, model.certificate_, strict=True):
            assert float(primal - dual) <= certificate.gap * (1 + 1e-9)
        loaded = pickle.loads(pickle.dumps(model))
        with pytest.raises(ProofError, match="give X, y and sample_weight"):
            loaded.proof_.save(tmp_path / "p")
        loaded.proof_.save(tmp_path / "p", X, Y, weights)
        verify.verify((tmp_path / "p").read_bytes(), (tmp_path / "d").read_bytes())
        with pytest.raises(ProofError, match="are others now"):
            loaded.proof_.save(tmp_path / "p", X, Y + 1.0, weights)
    with pytest.raises(ProofError, match="a function as kernel"):
        SVR(kernel=lambda A, B: A @ B.T).fit(X, y).proof_.save(tmp_path / "p")


def test_one_digest_for_all_storages():
    X, y, _ = made_data()
    X, y = np.float32(X).astype(float), y[:, None]
    texts = {canonical_text(Table(each, y, [])) for each in (X, np.float32(X), sparse.csr_array(X), np.asfortranarray(X))}
    assert len(texts) == 1
    data, classes = verify.parse_data(texts.pop())
    assert classes == 0
    assert [row[0] for row in data.targets] == [Fraction(x) for x in y[:, 0].tolist()]


def test_the_plain_checker_reads_libsvm_text_and_csv(tmp_path):
    X, y, _ = made_data()
    loss = ResidualLoss(epsilon=0.25, low=0.5, high=2.0)
    solve(Problem(X, y, loss, l2=0.1, intercept="free"), tol=1e-3, seed=0).save_proof(tmp_path / "proof")
    checker = shutil.copy(verify.__file__, tmp_path)
    entries = [" ".join(f"{j + 1}:{x!r}" for j, x in enumerate(row)) for row in X.tolist()]
    (tmp_path / "data").write_text("".join(f"{t!r} {line}\n" for t, line in zip(y.tolist(), entries, strict=True)))
    table = [",".join(map(repr, [row[0], t, *row[1:]])) + "\n" for row, t in zip(X.tolist(), y.tolist(), strict=True)]
    (tmp_path / "data.csv").write_text("a,price,b,c\n" + "".join(table))
    (tmp_path / "other").write_text((tmp_path / "data").read_text().replace(repr(float(y[0])), repr(float(y[0]) + 1.0), 1))
    (tmp_path / "words").write_text("dear 1:1\n")
    for words, code, said in (
        (["data"], 0, "target 0"),
        (["data.csv", "--target", "price"], 0, "\nverified: "),
        (["other"], 1, "refused: the data are not those of the proof"),
        (["words"], 1, "refused: 'dear' in the data is not a finite number"),
    ):
        command = [sys.executable, "-I", "-S", checker, "proof", *words]
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert (run.returncode, said in run.stdout) == (code, True), run.stdout + run.stderr


# -------------------------------------------------------------------------------------------------------- what is refused


def rewritten(proof, keyword, change):
    """The proof with the first line of a keyword changed, and the digest of the body renewed."""
    head, _, body = proof.split(b"\n", 2)
    lines = body.split(b"\n")
    place = next(i for i, line in enumerate(lines) if line.split(b" ")[0] == keyword)
    changed = change(lines[place])
    assert changed != lines[place]
    body = b"\n".join([*lines[:place], changed, *lines[place + 1 :]])
    return head + b"\nsha256 " + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def to(text):
    return lambda line: text


def first_betas(number):
    """Change two entries: the value of a balance row is ignored."""

    def changed(line):
        _, first, second, *rest = line.split(b" ")
        return b" ".join([b"beta", *(each.split(b":")[0] + b":" + number for each in (first, second)), *rest])

    return changed


FORGED = {
    "gap of zero": (b"gap", to(b"gap 0"), "more than the gap"),
    "beta above its bound": (b"beta", first_betas(b"3p0"), "outside of its bounds"),
    "beta below its bound": (b"beta", first_betas(b"-3p0"), "outside of its bounds"),
    "no balance row": (b"balance", to(b"balance none"), "not zero"),
    "wider tube": (b"loss", to(b"loss residual 1p2 0 1p0 1p0"), "more than the gap"),
    "negative tube": (b"loss", to(b"loss residual -1p0 0 1p0 1p0"), "negative"),
    "negative slope": (b"loss", to(b"loss residual 1p-2 0 -1p0 1p0"), "a slope of the loss is negative"),
    "smaller slope": (b"loss", to(b"loss residual 1p-2 0 1p-9 1p-9"), "outside of its bounds"),
    "no limit and no delta": (b"loss", to(b"loss residual 1p-2 0 none none"), "needs a positive delta"),
    "three numbers": (b"loss", to(b"loss residual 1p-2 0 1p0"), "four words"),
    "no number": (b"loss", to(b"loss residual none 0 1p0 1p0"), "not a number"),
    "a loss of classes": (b"loss", to(b"loss hinge"), "class|whole number"),
    "several classes at once": (b"loss", to(b"loss crammer_singer"), "sides all"),
    "sides of classes": (b"sides", to(b"sides 1 0"), "belongs to residual"),
    "all classes": (b"sides", to(b"sides all"), "belongs to residual"),
    "a target that is not there": (b"sides", to(b"sides target 1"), "no target 1"),
    "a target that is no number": (b"sides", to(b"sides target x"), "whole number"),
    "one class": (b"classes", to(b"classes 1\nclass 1p0"), "belongs to residual|two different"),
    "two classes": (b"classes", to(b"classes 2\nclass 0\nclass 1p0"), "belongs to residual"),
    "other bias": (b"bias", to(b"bias 5p3"), "more than the gap"),
    "other model": (b"coef", to(b"coef 0:9p0"), "more than the gap"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_claims_are_refused(name):
    text = proof_of("epsilon_insensitive")
    keyword, change, reason = FORGED[name]
    with pytest.raises(verify.Refused, match=reason):
        verify.verify(rewritten(text.proof, keyword, change), text.data)


def test_every_changed_bit_is_refused():
    text = proof_of("huber")
    for place in range(len(text.proof)):
        changed = bytearray(text.proof)
        changed[place] ^= 1 << place % 7
        with pytest.raises(verify.Refused):
            verify.verify(bytes(changed), text.data)


def test_data_that_are_not_well_formed():
    for text, reason in (
        (b"dualgap-data 1\n2 1 0\n1p0 0:1p0\n1p0,1p1 0:1p0\n", "another number of targets"),
        (b"dualgap-data 1\n1 1 0\n2p0 0:1p0\n", "odd mantissa"),
        (b"dualgap-data 1\n1 1 0\n 0:1p0\n", "not a number"),
        (b"dualgap-data 1\n1 1 0\n1p0, 0:1p0\n", "not a number"),
        (b"dualgap-data 1\n1 1 2\n1p0 0:1p0\n", "whole number"),
    ):
        with pytest.raises(verify.Refused, match=reason):
            verify.parse_data(text)


# ------------------------------------------------------------------------------------------------------- the second checker


def tight(*case):
    """The proof of the least gap that is true, and of the next smaller float64, which is false."""
    problem, result = solved(*case)
    part, table = (
        TargetPart(problem, result.coef, result.intercept, result.dual, None),
        Table(problem.X, problem.targets[:, None], []),
    )
    primal, dual = exact_values(part, table)
    least = rounded_up(primal - dual)
    for gap in (least, float(np.nextafter(least, 0.0))):
        text = make_proof(table, [dataclasses.replace(part, gap=gap)], check=False)
        yield text.proof, text.data


def test_both_checkers_agree_to_the_last_bit(tmp_path):
    cases = [(loss, penalty, "free") for loss in LOSSES for penalty in PENALTIES]
    cases += [(loss, "l2", "penalised") for loss in LOSSES]
    cases += [(loss, "l2", "free", kernel) for loss in LOSSES for kernel in KERNELS]
    pairs = [pair for case in cases for pair in tight(*case)]
    expected = ["verified", "refused"] * len(cases)
    assert first_opinion(pairs) == expected
    assert second_opinion(tmp_path, pairs) == expected


def test_both_checkers_refuse_what_is_changed(tmp_path):
    text = proof_of("epsilon_insensitive")
    pairs = [(rewritten(text.proof, keyword, change), text.data) for keyword, change, _ in FORGED.values()]
    assert set(first_opinion(pairs)) == {"refused"}
    assert set(second_opinion(tmp_path, pairs)) == {"refused"}


def test_both_checkers_on_several_targets(tmp_path):
    X, y, weights = made_data()
    LinearSVR(C=0.3, loss="huber", random_state=0).fit(X, np.stack([y, y**2], axis=1), weights).proof_.save(
        tmp_path / "p", data=tmp_path / "d"
    )
    proof, data = (tmp_path / "p").read_bytes(), (tmp_path / "d").read_bytes()
    pairs = [(proof, data), (rewritten(proof, b"bias", to(b"bias 5p3")), data)]
    assert first_opinion(pairs) == second_opinion(tmp_path, pairs) == ["verified", "refused"]
