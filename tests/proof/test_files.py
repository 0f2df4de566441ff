"""Proof files: what is written is verified by both checkers, and what is changed is refused by both."""

import hashlib
import pickle
import shutil
import subprocess
import sys
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conftest import make_data
from dualgap import SVC, Hinge, LinearSVC, LinearSVCPath, LinearSVCPathCV, Problem, solve
from dualgap.data import read
from dualgap.proof import BinaryPart, ProofError, Table, canonical_text, exact_values, make_proof, verify
from dualgap.proof.files import literals, rounded_up
from opinions import first_opinion, second_opinion

ROOT = Path(__file__).resolve().parents[2]
LOSSES = ["hinge", "smooth_hinge", "squared_hinge", "logistic"]
PENALTIES = {
    "l2": {"l2": 0.05},
    "elastic_net": {"l2": 0.02, "l1": 0.03},
    "l1": {"l2": 0.0, "l1": 0.05},
    "bounded": {"l2": 0.05, "bounds": ([0.0, -np.inf, 0.25], [np.inf, -0.125, 0.25])},
    "bounded_elastic_net": {"l2": 0.02, "l1": 0.03, "bounds": (-0.5, [0.25, 0.0, np.inf])},
}
INTERCEPTS = ["none", "penalised", "free"]
STORAGES = {"dense": np.asarray, "float32": np.float32, "sparse": sparse.csr_array}
KERNELS = {
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0},
    "rbf": {"kernel": "rbf"},
    "precomputed": {"kernel": "precomputed"},
}
# loss, penalty, intercept, kernel. A penalised intercept needs l2.
PROBLEMS = [
    (loss, penalty, intercept, None)
    for loss in LOSSES
    for penalty in ("l2", "elastic_net", "l1")
    for intercept in INTERCEPTS
    if (penalty, intercept) != ("l1", "penalised")
] + [(loss, "l2", intercept, kernel) for loss in ("hinge", "logistic") for intercept in INTERCEPTS for kernel in KERNELS]
PROBLEMS += [("squared_hinge", "bounded", "free", None), ("logistic", "bounded_elastic_net", "penalised", None)]


def name_of(case):
    return "-".join(part for part in case if part)


@cache
def solved(loss, penalty, intercept, kernel, storage="dense"):
    """A problem of 24 rows with weights, and its result."""
    X, y = make_data(n=24, d=3)
    if kernel == "precomputed":
        X = np.round(X, 6) @ np.round(X, 6).T
        X = (X + X.T) / 2 + 0.1 * np.eye(len(y))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    options = {**PENALTIES[penalty], **KERNELS.get(kernel, {})}
    problem = Problem(STORAGES[storage](X), y, loss, sample_weight=weights, intercept=intercept, intercept_scale=0.5, **options)
    return problem, solve(problem, tol=1e-2, max_epochs=2000, seed=0)


def table_of(problem):
    return Table(problem.X, (problem.y > 0).astype(int), problem.classes.tolist())


def part_of(problem, result, gap=None):
    return BinaryPart(problem, result.coef, result.intercept, result.dual, result.certificate.gap if gap is None else gap)


def proof_of(*case, gap=None, check=True):
    problem, result = solved(*case)
    return make_proof(table_of(problem), [part_of(problem, result, gap)], check=check)


def with_digest(head, body):
    return head + b"\nsha256 " + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def rewritten(proof, keyword, change):
    """The proof with the first line of a keyword changed, and the digest of the body renewed."""
    head, _, body = proof.split(b"\n", 2)
    lines = body.split(b"\n")
    place = next(i for i, line in enumerate(lines) if line.split(b" ")[0] == keyword)
    changed = change(lines[place])
    assert changed != lines[place]
    lines[place] = changed
    return with_digest(head, b"\n".join(lines))


# --------------------------------------------------------------------------------------------------------- what is written


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", PROBLEMS, ids=name_of)
def test_every_problem(case, storage):
    if storage == "sparse" and case[3] == "precomputed":
        storage = "dense"  # a matrix of kernel values is an array
    result = solved(*case, storage)[1]
    text = proof_of(*case, storage)
    proof, ((primal, dual),) = verify.verify(text.proof, text.data)
    assert primal - dual <= proof.claims[0].gap
    # The values are those that the package has, to rounding.
    tolerance = 1e-5 if storage == "float32" and case[3] else 1e-9
    assert float(primal) == pytest.approx(result.certificate.primal, rel=tolerance)
    assert float(dual) == pytest.approx(result.certificate.dual, rel=tolerance)
    assert float(proof.claims[0].gap) == pytest.approx(result.certificate.gap, rel=1e-3, abs=1e-9)


def test_values_against_plain_sums():
    """P and D of a hinge problem by the formulas, in fractions, without the checker's integers."""
    problem, result = solved("hinge", "elastic_net", "penalised", None)
    primal, dual = exact_values(part_of(problem, result), table_of(problem))
    X, y, c = (
        [[Fraction(x) for x in row] for row in problem.X.tolist()],
        problem.y.tolist(),
        list(map(Fraction, problem.c.tolist())),
    )
    w, b, beta = list(map(Fraction, result.coef.tolist())), Fraction(result.intercept), list(map(Fraction, result.dual.tolist()))
    l1, l2, scale = Fraction(problem.l1), Fraction(problem.l2), Fraction(problem.intercept_scale)
    margins = [int(yi) * (sum(x * z for x, z in zip(row, w, strict=True)) + b) for row, yi in zip(X, y, strict=True)]
    P = sum(ci * max(0, 1 - m) for ci, m in zip(c, margins, strict=True)) + l2 / 2 * (b / scale) ** 2
    P += sum(l1 * abs(z) + l2 / 2 * z * z for z in w)
    v = [ci * bi * int(yi) for ci, bi, yi in zip(c, beta, y, strict=True)]
    u = [sum(vi * row[j] for vi, row in zip(v, X, strict=True)) for j in range(len(w))]
    D = sum(ci * bi for ci, bi in zip(c, beta, strict=True)) - sum(max(0, abs(x) - l1) ** 2 for x in u) / (2 * l2)
    D -= (scale * sum(v)) ** 2 / (2 * l2)
    assert (primal, dual) == (P, D)


@pytest.mark.parametrize("value", [0.0, 1e-30, 1e-3, 0.4, 1.0, 7.5, 40.0, 700.0])
def test_logarithms_are_enclosed(value):
    """Against decimal arithmetic to sixty digits."""
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 60
        x, tiny = Decimal(value), Decimal(2) ** -120

        def decimal(fraction):
            return Decimal(fraction.numerator) / Decimal(fraction.denominator)

        for m in (x, -x):
            exact = (1 + (-m).exp()).ln() if m > -300 else -m
            assert exact <= decimal(verify.logistic(Fraction(str(m)))) <= exact + tiny
        if 0 < value < 1:
            exact = -x * x.ln() - (1 - x) * (1 - x).ln()
            assert exact - tiny <= decimal(verify.entropy(Fraction(value))) <= exact


def test_one_digest_for_all_storages():
    X = np.array([[0.5, 0.0, -2.0], [0.0, -0.0, 0.0], [1.0, 3.0, 0.25]])
    messy = sparse.csr_matrix(
        (np.array([-1.0, 0.5, 0.0, -1.0, 1.0, 0.25, 3.0]), np.array([2, 0, 1, 2, 0, 2, 1]), np.array([0, 4, 4, 7]))
    )
    texts = {canonical_text(Table(each, np.array([0, 1, 1]), [0, 1])) for each in (X, np.float32(X), np.asfortranarray(X), messy)}
    assert texts == {b"dualgap-data 1\n3 3 2\n0 0:1p-1 2:-1p1\n1\n1 0:1p0 1:3p0 2:1p-2\n"}


def test_numbers_are_exact():
    values = [0.0, -0.0, 1.0, -0.1, 1e308, 5e-324, 2.0**-1022, 1 / 3, np.nextafter(1.0, 2.0), np.finfo(float).max, 3e22]
    for value, text in zip(values, literals(values), strict=True):
        assert verify.number(text) == Fraction(value)
        assert verify.literal(*value.as_integer_ratio()) == text
    bad = "inf nan 2p0 0p0 -0 1p 1P0 1p00 1p-0 01p0 1p1024 1p-1075 3fffffffffffffp0 0x1p0 1.5 1e3 +1p0"
    for text in ["", *bad.split()]:
        with pytest.raises(verify.Refused):
            verify.number(text)


def test_the_example_of_the_docs(tmp_path):
    blocks = (ROOT / "docs" / "proof-format.md").read_text(encoding="utf-8").split("\n\n")
    texts = [[line[4:] for line in block.split("\n")] for block in blocks if block.startswith("    dualgap-")]
    texts = {lines[0]: "\n".join([*lines, ""]).encode() for lines in texts if len(lines) > 2}
    proof, data = texts["dualgap-proof 1"], texts["dualgap-data 1"]
    _, values = verify.verify(proof, data)
    assert values == [(Fraction(5, 8), Fraction(247, 512))]


def test_the_checker_needs_the_standard_library_alone(tmp_path):
    """In a process without packages, from a copy of the file, on LIBSVM text and on CSV."""
    X, y = make_data(n=20, d=3)
    X[3, 1] = 0.0
    result = solve(Problem(X, y, l2=0.1, intercept="free"), tol=1e-3, seed=0)
    result.save_proof(tmp_path / "proof")
    checker = shutil.copy(verify.__file__, tmp_path)
    entries = [" ".join(f"{j + 1}:{x!r}" for j, x in enumerate(row) if x) for row in X.tolist()]
    (tmp_path / "data").write_text("".join(f"{label:+g} {line}\n" for label, line in zip(y, entries, strict=True)))
    rows = [[repr(x) for x in row] for row in X.tolist()]
    table = [f"{r[0]},{label:g},{r[1]},{r[2]}\n" for r, label in zip(rows, y, strict=True)]
    (tmp_path / "data.csv").write_text("a,label,b,c\n" + "".join(table))
    (tmp_path / "other").write_text(
        (tmp_path / "data").read_text().replace("1:", "2:", 1).replace("2:", "1:", 1).replace("+1", "-1", 1)
    )
    for data, code, said in (
        ("data", 0, "\nverified: "),
        ("data.csv", 0, "\nverified: "),
        ("other", 1, "refused: "),
        ("missing", 1, "refused: "),
    ):
        command = [sys.executable, "-I", "-S", checker, "proof", data]
        run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert (run.returncode, said in run.stdout) == (code, True), run.stdout + run.stderr


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_a9a(shared_data, tmp_path, loss):
    """32,561 rows of LIBSVM text as they come, read by the package and by the checker on its own."""
    path = shared_data("a9a")
    data = read(path)
    result = solve(Problem(data.X, data.y, loss, l2=1e-4, intercept="free"), tol=1e-5, seed=0)
    result.save_proof(tmp_path / "proof", check=False)
    content = (tmp_path / "proof").read_bytes()
    text = verify.read_data(str(path), verify.parse_proof(content))
    _, ((primal, dual),) = verify.verify(rewritten(content, b"gap", to(b"gap 1p-10")), text)
    assert float(primal - dual) == pytest.approx(result.certificate.gap, abs=1e-9)


# -------------------------------------------------------------------------------------------------------- what is refused


def test_every_changed_bit_is_refused():
    text = proof_of("hinge", "l2", "free", None)
    for place in range(len(text.proof)):
        for bit in range(8):
            changed = bytearray(text.proof)
            changed[place] ^= 1 << bit
            with pytest.raises(verify.Refused):
                verify.verify(bytes(changed), text.data)


def test_changed_data_are_refused():
    text = proof_of("hinge", "l2", "free", None)
    for place in np.random.default_rng(0).integers(len(text.data), size=50):
        changed = bytearray(text.data)
        changed[place] ^= 1
        with pytest.raises(verify.Refused, match="digest"):
            verify.verify(text.proof, bytes(changed))


def first_entry(number):
    """Change the first entry of a line."""
    return lambda line: b" ".join(
        [*line.split(b" ")[:1], line.split(b" ")[1].split(b":")[0] + b":" + number, *line.split(b" ")[2:]]
    )


def to(text):
    return lambda line: text


# What a forger may try, with a renewed digest: the line, its change, and what the reason says.
FORGED = {
    "gap of zero": (b"gap", to(b"gap 0"), "more than the gap"),
    "negative gap": (b"gap", to(b"gap -1p0"), "negative"),
    "gap that is no number": (b"gap", to(b"gap nan"), "not a number"),
    "infinite gap": (b"gap", to(b"gap inf"), "not a number"),
    "beta above its bound": (b"beta", first_entry(b"3p-1"), "bounds|not zero"),
    "negative beta": (b"beta", first_entry(b"-1p-1"), "bounds|not zero"),
    "no balance row": (b"balance", to(b"balance none"), "not zero"),
    "balance row that is not there": (b"balance", to(b"balance 24"), "balance row"),
    "two balance rows": (b"balance", to(b"balance 1 2"), "balance row"),
    "empty balance": (b"balance", to(b"balance"), "balance row"),
    "beta of a row that is not there": (b"beta", lambda line: line + b" 24:1p0", "place 24"),
    "beta twice": (b"beta", lambda line: line + b" " + line.split(b" ")[1], "out of order"),
    "zero entry": (b"coef", to(b"coef 0:0"), "zero"),
    "even mantissa": (b"bias", to(b"bias 2p0"), "odd"),
    "other bias": (b"bias", to(b"bias 5p1"), "more than the gap"),
    "other model": (b"coef", to(b"coef 0:9p0"), "more than the gap"),
    "other l2": (b"l2", to(b"l2 1p-20"), "more than the gap"),
    "no penalty": (b"l2", to(b"l2 0"), "penalty"),
    "negative l1": (b"l1", to(b"l1 -1p0"), "penalty"),
    "unknown loss": (b"loss", to(b"loss square"), "loss"),
    "loss with a number": (b"loss", to(b"loss hinge 1p0"), "loss"),
    "unknown kernel": (b"kernel", to(b"kernel sigmoid"), "kernel"),
    "intercept left out": (b"intercept", to(b"intercept none"), "bias|balance"),
    "negative weight": (b"weights", lambda line: b"weights -" + line.split(b" ", 1)[1], "negative"),
    "too few weights": (b"weights", to(b"weights 23*1p-5"), "weights"),
    "too many weights": (b"weights", to(b"weights 999999999999999999*1p-5"), "weights"),
    "one side": (b"sides", to(b"sides 1 1"), "same class"),
    "class that is not there": (b"sides", to(b"sides 2 0"), "not there"),
    "other size": (b"columns", to(b"columns 4"), "size"),
    "more problems": (b"problems", to(b"problems 2"), "problem"),
    "no problem": (b"problems", to(b"problems 0"), "end"),
    "lines after the end": (b"end", to(b"end\nend"), "after"),
    "label twice": (b"class", to(b"class 1p0"), "different"),
    "space at the end": (b"coef", lambda line: b"coef ", "coef"),
    "star without a count": (b"weights", lambda line: b"weights *" + line.split(b" ", 1)[1], "whole number"),
    "two spaces": (b"gap", lambda line: line.replace(b" ", b"  "), "one word"),
    "bad string": (b"maker", to(b'maker "x'), "string"),
}


def forged(name):
    text = proof_of("hinge", "l2", "free", None)
    keyword, change, _ = FORGED[name]
    return rewritten(text.proof, keyword, change), text.data


@pytest.mark.parametrize("name", FORGED)
def test_forged_claims_are_refused(name):
    proof, data = forged(name)
    with pytest.raises(verify.Refused, match=FORGED[name][2]):
        verify.verify(proof, data)


def test_cut_short():
    text = proof_of("hinge", "l2", "free", None)
    head, _, body = text.proof.split(b"\n", 2)
    for length in range(0, len(text.proof), 7):
        with pytest.raises(verify.Refused):
            verify.verify(text.proof[:length], text.data)
    for end in [i + 1 for i, byte in enumerate(body[:-1]) if byte == 10]:  # whole lines, with the digest renewed
        with pytest.raises(verify.Refused):
            verify.verify(with_digest(head, body[:end]), text.data)


def test_indefinite_and_asymmetric_kernels_are_refused():
    text = proof_of("hinge", "l2", "none", "poly")
    with pytest.raises(verify.Refused, match="coef0"):
        verify.verify(rewritten(text.proof, b"kernel", lambda line: line.replace(b" 1p0 ", b" -1p0 ")), text.data)
    problem, result = solved("hinge", "l2", "none", "precomputed")
    crooked = problem.X.copy()
    crooked[1, 0] += 1e-9
    with pytest.raises(ProofError, match="symmetric"):
        make_proof(Table(crooked, (problem.y > 0).astype(int), [-1, 1]), [part_of(problem, result)])


def test_what_no_checker_knows_is_refused(tmp_path):
    class Mine(Hinge):
        pass

    X, y = make_data(n=20, d=3)
    result = solve(Problem(X, y, l2=0.1), tol=1e-3, seed=0)
    with pytest.raises(ProofError, match="loss object Mine"):
        BinaryPart(result.problem.replace(loss=Mine()), result.coef, 0.0, result.dual, 0.1).claim(None)
    with pytest.raises(ProofError, match="precomputed"):
        SVC(kernel=lambda A, B: np.asarray(A) @ np.asarray(B).T).fit(X, y).proof_.save(tmp_path / "proof")
    with pytest.raises(ProofError, match="gap is inf"):
        make_proof(table_of(result.problem), [part_of(result.problem, result, np.inf)])
    with pytest.raises(ProofError, match="exact arithmetic"):
        make_proof(table_of(result.problem), [BinaryPart(result.problem, result.coef, 0.0, 0 * result.dual, 0.0)])
    assert not list(tmp_path.iterdir())


def test_beta_without_balance():
    """Where no row can take up the difference, β = 0 is written, whose D is 0."""
    X, y = make_data(n=20, d=3)
    problem = Problem(X, y, l2=0.1, intercept="free")
    result = solve(problem, tol=1e-3, seed=0)
    primal, dual = exact_values(BinaryPart(problem, result.coef, result.intercept, (y > 0).astype(float), 1.0), table_of(problem))
    assert primal > 0
    assert dual == 0


# ------------------------------------------------------------------------------------------------------------- estimators

IRIS = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
JOINT = {"multi_class": "crammer_singer", "C": 0.02, "tol": 1e-3, "random_state": 0}
MODELS = {
    "rest": (LinearSVC(random_state=0, tol=1e-3, class_weight="balanced"), 3, 3),
    "two": (LinearSVC(random_state=0, loss="log_loss", C=0.1), 2, 1),
    "joint": (LinearSVC(**JOINT), 3, 1),
    "joint, none": (LinearSVC(**JOINT, fit_intercept=False), 3, 1),
    "joint, penalised": (LinearSVC(**JOINT, intercept="penalised"), 3, 1),
    "joint, two": (LinearSVC(**JOINT), 2, 1),
    "pairs": (SVC(random_state=0), 3, 3),
    "path": (LinearSVCPath(Cs=2, l1_ratios=[0.5, 1.0], random_state=0), 2, 4),
    "path_cv": (LinearSVCPathCV(Cs=2, l1_ratios=0.5, cv=2, random_state=0), 2, 2),
}


@cache
def fitted(name):
    """A fitted estimator, and its data: every second row of iris, with weights."""
    model, classes, _ = MODELS[name]
    X, codes = (part[IRIS[1] >= 3 - classes][::2] for part in IRIS)
    X, labels, weights = X - X.mean(axis=0), NAMES[codes], np.random.default_rng(0).uniform(0.5, 2.0, len(codes))
    return model.fit(X, labels, sample_weight=weights), (X, labels, weights)


@pytest.mark.parametrize("name", MODELS)
def test_estimators(name, tmp_path):
    model, given = fitted(name)
    model.proof_.save(tmp_path / "proof", data=tmp_path / "data", preparation=["centred"])
    proof, values = verify.verify((tmp_path / "proof").read_bytes(), (tmp_path / "data").read_bytes())
    assert len(values) == MODELS[name][2]
    assert proof.preparation == ["centred"]
    assert proof.classes == list(NAMES[-MODELS[name][1] :])
    again = pickle.loads(pickle.dumps(model))
    with pytest.raises(ProofError, match="give X, y"):
        again.proof_.save(tmp_path / "again")
    again.proof_.save(tmp_path / "again", *given)
    proof, values = verify.verify((tmp_path / "again").read_bytes(), (tmp_path / "data").read_bytes())
    assert len(values) == MODELS[name][2]
    for claim, (primal, _) in zip(proof.claims, values, strict=True):
        assert claim.gap <= primal / 500


def test_other_data_than_those_of_fit(tmp_path):
    model, (X, labels, weights) = fitted("rest")
    for other in ((2 * X, labels, weights), (X, labels, None), (X[:-1], labels[:-1], weights[:-1]), (X, labels[::-1], weights)):
        with pytest.raises(ProofError):
            model.proof_.save(tmp_path / "proof", *other)
    assert not list(tmp_path.iterdir())


def test_in_a_pipeline(tmp_path):
    """The proof is about the data after the preparation."""
    X, codes = IRIS
    pipeline = make_pipeline(StandardScaler(), LinearSVC(random_state=0, tol=1e-3)).fit(X, codes)
    pipeline[-1].proof_.save(tmp_path / "proof", preparation=["StandardScaler"])
    data = canonical_text(Table(pipeline[:-1].transform(X), codes, [0, 1, 2]))
    assert len(verify.verify((tmp_path / "proof").read_bytes(), data)[1]) == 3


def test_streams_have_no_proof(tmp_path):
    model = LinearSVC(random_state=0).partial_fit(*IRIS, classes=[0, 1, 2])
    with pytest.raises(ProofError, match="give X"):
        model.proof_.save(tmp_path / "proof")
    with pytest.raises(ProofError, match="partial_fit"):
        model.proof_.save(tmp_path / "proof", *IRIS)


# ------------------------------------------------------------------------------------------------------- the second checker


def tight(*case):
    """The proof of the least gap that is true, and of the next smaller float64, which is false."""
    problem, result = solved(*case)
    primal, dual = exact_values(part_of(problem, result), table_of(problem))
    least = rounded_up(primal - dual)
    for gap in (least, np.nextafter(least, 0.0)):
        text = make_proof(table_of(problem), [part_of(problem, result, float(gap))], check=False)
        yield text.proof, text.data


def test_both_checkers_agree_to_the_last_bit(tmp_path):
    pairs = [pair for case in PROBLEMS for pair in tight(*case)]
    assert len(pairs) >= 100
    expected = ["verified", "refused"] * len(PROBLEMS)
    assert first_opinion(pairs) == expected
    assert second_opinion(tmp_path, pairs) == expected


def test_both_checkers_on_estimators(tmp_path):
    pairs = []
    for name in MODELS:
        fitted(name)[0].proof_.save(tmp_path / "proof", data=tmp_path / "data")
        proof, data = (tmp_path / "proof").read_bytes(), (tmp_path / "data").read_bytes()
        pairs += [(proof, data), (rewritten(proof, b"gap", to(b"gap 1p-90")), data)]
        if b"\nbalance none" not in proof:
            pairs.append((rewritten(proof, b"balance", to(b"balance none")), data))
    expected = first_opinion(pairs)
    assert expected.count("verified") >= len(MODELS)
    assert expected.count("refused") >= len(MODELS)
    assert second_opinion(tmp_path, pairs) == expected


def test_both_checkers_refuse_what_is_changed(tmp_path):
    text = proof_of("hinge", "l2", "free", None)
    pairs = [forged(name) for name in FORGED]
    rng = np.random.default_rng(0)
    for _ in range(60):
        changed = bytearray(text.proof)
        changed[rng.integers(len(changed))] ^= 1 << rng.integers(8)
        pairs.append((bytes(changed), text.data))
    pairs += [(text.proof[:length], text.data) for length in range(0, len(text.proof), 100)]
    pairs.append((text.proof, text.data.replace(b"dualgap-data 1", b"dualgap-data 2")))
    assert set(first_opinion(pairs)) == {"refused"}
    assert set(second_opinion(tmp_path, pairs)) == {"refused"}
