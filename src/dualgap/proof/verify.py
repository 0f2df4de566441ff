"""Check a proof file of dualgap in exact arithmetic. This one file needs nothing but Python 3.11.

    python verify.py PROOF DATA [--target COLUMN]

A proof claims for a model (w, b) and a dual point β that P(w, b) − D(β) ≤ gap: the model's objective is at most `gap` above the least
possible one. The formulas and the format are in proof-format.md. Here P and D are computed again from the data, with integers and
fractions. No float is added, multiplied or compared: a decimal number in DATA means the nearest float64, and float(text) is used to find
that number and for nothing else. Exponentials and logarithms are enclosed by rational bounds.

Exit code 0: verified. Exit code 1: refused, with the reason.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import re
import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import cached_property
from itertools import chain, pairwise, repeat
from operator import mul
from pathlib import Path
from typing import Generic, TypeVar

__all__ = [
    "Claim",
    "Data",
    "Proof",
    "Refused",
    "Runs",
    "canonical",
    "evaluate",
    "literal",
    "parse_data",
    "parse_proof",
    "report",
    "verify",
]

LOSSES = ("hinge", "smooth_hinge", "squared_hinge", "logistic", "crammer_singer", "residual")
KERNELS = {"none": 0, "linear": 0, "poly": 3, "rbf": 1, "precomputed": 0}  # name: how many parameters follow
ZERO = Fraction(0)


class Refused(ValueError):
    """A file that does not prove what it claims; the message says why."""


def require(condition: object, reason: str) -> None:
    """Refuse the proof, for this reason, unless the condition holds."""
    if not condition:
        raise Refused(reason)


# ------------------------------------------------------------------------------------------------------------------- numbers
# A number is 0 or mantissa·2^exponent, written as an odd hexadecimal mantissa, "p" and a decimal exponent: 0.75 is 3p-2.

NUMBER = re.compile(r"(-?)([1-9a-f][0-9a-f]{0,13})p(0|-?[1-9][0-9]{0,3})")
COUNT = re.compile(r"0|[1-9][0-9]{0,17}")
PLACE = re.compile(r"[0-9]{1,18}")  # a column in LIBSVM text
DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def number(text: str) -> Fraction:
    """Return the number that a literal stands for; it must be a float64 number, in its one spelling."""
    if text == "0":
        return ZERO
    match = NUMBER.fullmatch(text)
    require(match, f"{text[:40]!r} is not a number of the format")
    assert match
    mantissa, exponent = int(match[2], 16), int(match[3])
    wide = mantissa % 2 == 0 or mantissa >= 2**53 or exponent < -1074 or mantissa.bit_length() + exponent > 1024
    require(not wide, f"{text[:40]!r} is not a float64 number with an odd mantissa")
    value = -mantissa if match[1] else mantissa
    return Fraction(value << exponent) if exponent >= 0 else Fraction(value, 1 << -exponent)


def number_or_none(text: str) -> Fraction | None:
    """Return a number, or None for the word "none"."""
    return None if text == "none" else number(text)


def literal(numerator: int, denominator: int = 1) -> str:
    """Return the literal of numerator / denominator, where the denominator is a power of two."""
    if numerator == 0:
        return "0"
    even = (numerator & -numerator).bit_length() - 1
    return f"{numerator >> even:x}p{even - denominator.bit_length() + 1}"


def count(text: str, what: str) -> int:
    """Return a whole number that is not negative."""
    require(COUNT.fullmatch(text), f"{what} is {text[:40]!r}, which is not a whole number")
    return int(text)


def whole(values: Iterable[Fraction]) -> tuple[list[int], int]:
    """Return integers and their common denominator, a power of two, for numbers whose denominators are powers of two."""
    values = list(values)
    common = max((v.denominator for v in values), default=1)
    return [v.numerator * (common // v.denominator) for v in values], common


def total(terms: Iterable[Fraction]) -> Fraction:
    """Return the sum of fractions, most of which share a few denominators."""
    sums: dict[int, int] = defaultdict(int)
    for term in terms:
        sums[term.denominator] += term.numerator
    return sum((Fraction(n, d) for d, n in sums.items()), ZERO)


T = TypeVar("T")


class Runs(Generic[T]):
    """Values by place, kept as runs of equal ones: a file of 1 kB can name 10^17 places."""

    def __init__(self, values: Iterable[T] = ()) -> None:
        self.values: list[T] = []
        self.ends: list[int] = []  # where each run ends
        for value in values:
            self.append(value, 1)

    def append(self, value: T, times: int) -> None:
        """Add a value for as many places as `times`."""
        if self.values and self.values[-1] == value:
            self.ends[-1] += times
        elif times:
            self.values.append(value)
            self.ends.append(len(self) + times)

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __getitem__(self, place: int) -> T:
        return self.values[bisect_right(self.ends, place)]

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(repeat(value, times) for value, times in self.runs())

    def runs(self) -> Iterable[tuple[T, int]]:
        """Return each run: its value and its length."""
        return [(value, end - start) for value, (start, end) in zip(self.values, pairwise([0, *self.ends]), strict=True)]


# ------------------------------------------------------------------------------------------------ exponentials and logarithms
# Fixed point: the integer x stands for x / ONE. Each result is off by less than 2^-140. A sum has at most 160 terms, each cut off by
# less than 3 units of 2^-160, and LOG2, which has the same error, is taken at most 160 times: together below 2^20 units.

BITS = 160
ONE = 1 << BITS
EPSILON = Fraction(1, 1 << 128)  # what a bound is moved outwards by, once for each value of φ, ψ or k


def _atanh(z: int) -> int:
    power, square, result, k = z, z * z >> BITS, 0, 1
    while power not in (0, -1):
        result += power // k
        power, k = power * square >> BITS, k + 2
    return result


LOG2 = 2 * _atanh(ONE // 3)


def _exp(x: int) -> int:
    """e^x for x ≤ 0: x = −k·log 2 − r, and the series of e^−r."""
    k, r = divmod(-x, LOG2)
    if k > BITS:
        return 0
    term = result = ONE
    i = 1
    while term not in (0, -1):
        term = -(term * r >> BITS) // i
        result, i = result + term, i + 1
    return result >> k


def _log(x: int) -> int:
    """log x for 0 < x ≤ 2: x = 2^k·t with ½ ≤ t < 1, and log t = 2 atanh((t − 1)/(t + 1))."""
    k = x.bit_length() - BITS
    t = x >> k if k > 0 else x << -k
    return 2 * _atanh(((t - ONE) << BITS) // (t + ONE)) + k * LOG2


def logistic(m: Fraction) -> Fraction:
    """An upper bound of log(1 + e^−m), whose slope in m is between −1 and 0."""
    x = m.numerator * ONE // m.denominator
    return Fraction(max(-x, 0) + _log(ONE + _exp(-abs(x))), ONE) + EPSILON


def entropy(beta: Fraction) -> Fraction:
    """A lower bound of −β log β − (1−β) log(1−β). It is concave, and 0 at 0 and 1: β cut off by e changes it by at most its value at e."""
    if beta in (0, 1):
        return ZERO
    x = beta.numerator * ONE // beta.denominator
    inside = -(x * _log(x) + (ONE - x) * _log(ONE - x)) if 0 < x < ONE else 0
    return Fraction(inside, ONE * ONE) - EPSILON


# ------------------------------------------------------------------------------------------------------------------ the data


@dataclass
class Data:
    """Rows of a matrix as (columns, values), without zeros, and the code 0, 1, … of each row's class, or the row's targets."""

    columns: int
    codes: list[int]
    rows: list[tuple[Sequence[int], Sequence[Fraction]]]
    targets: list[list[Fraction]] = field(default_factory=list)  # of a regression, which has no codes

    @cached_property
    def used(self) -> list[int]:
        """The columns that are not empty."""
        return sorted(set(chain.from_iterable(cols for cols, _ in self.rows)))

    @cached_property
    def integers(self) -> tuple[list[tuple[Sequence[int], list[int]]], int]:
        """The rows with whole numbers in place of values, and the denominator of all of them."""
        common = max((v.denominator for _, values in self.rows for v in values), default=1)
        return [(cols, [v.numerator * (common // v.denominator) for v in values]) for cols, values in self.rows], common


def canonical(columns: int, classes: int, rows: Sequence[tuple[int | str, str]]) -> bytes:
    """Return the canonical text of data; a row is its class's code, or its targets, and its entries, each written as " column:number"."""
    lines = [f"{code}{entries}" for code, entries in rows]
    return "\n".join(["dualgap-data 1", f"{len(rows)} {columns} {classes}", *lines, ""]).encode("ascii")


def parse_data(text: bytes) -> tuple[Data, int]:
    """Return the data in a canonical text, and the number of classes."""
    lines = ascii_lines(text, "the data file")
    require(lines[0] == "dualgap-data 1", "the data file does not begin with 'dualgap-data 1'")
    sizes = [count(word, "a size of the data") for word in lines[1].split(" ")] if len(lines) > 1 else []
    require(len(sizes) == 3 and sizes[0] == len(lines) - 2, "the data file has another number of rows than its second line says")
    seen: dict[str, Fraction] = {}
    data = Data(sizes[1], [], [])
    for place, line in enumerate(lines[2:]):
        code, *entries = line.split(" ")
        if sizes[2]:
            data.codes.append(count(code, f"the class of row {place}"))
            require(data.codes[-1] < sizes[2], f"row {place} has class {code}, but there are {sizes[2]} classes")
        else:
            data.targets.append([number(word) for word in code.split(",")])
            require(len(data.targets[-1]) == len(data.targets[0]), f"row {place} has another number of targets than row 0")
        data.rows.append(_entries(entries, sizes[1], f"row {place}", seen))
    return data, sizes[2]


def _entries(words: list[str], size: int, what: str, seen: dict[str, Fraction] | None = None) -> tuple[list[int], list[Fraction]]:
    """Parse "place:number" words: places rise and are below `size`; zeros are left out. `seen` remembers literals that come again."""
    places, values, last = [], [], -1
    seen = {} if seen is None else seen
    for word in words:
        place, _, text = word.partition(":")
        at = count(place, f"a place in {what}")
        require(last < at < size, f"{what}: place {at} is out of order or not below {size}")
        if text not in seen:
            seen[text] = number(text)
            require(seen[text], f"{what}: a zero at place {at} must be left out")
        places.append(at)
        values.append(seen[text])
        last = at
    return places, values


def ascii_lines(text: bytes, what: str) -> list[str]:
    """Return the lines of a text that must be ASCII and end with a line feed."""
    require(text.isascii() and text.endswith(b"\n"), f"{what} is not ASCII text that ends with a line feed")
    return text[:-1].decode("ascii").split("\n")


# ------------------------------------------------------------------------------------------------------------------ the proof


@dataclass
class Claim:
    """One problem with a model, a dual point and the gap that is claimed. Lists have one entry; for crammer_singer one a class."""

    gap: Fraction
    c: Runs[Fraction]  # weights of the problem's rows
    coef: list[dict[int, Fraction]]  # w; with a kernel the expansion
    beta: list[dict[int, Fraction]]  # β; for crammer_singer p without each row's own class
    bias: list[Fraction] = field(default_factory=lambda: [ZERO])
    loss: str = "hinge"
    delta: Fraction = ZERO  # of the smooth hinge, and of residual
    epsilon: Fraction = ZERO  # of residual
    slopes: tuple[Fraction | None, Fraction | None] = (None, None)  # of residual: above and below the target; None: no limit
    l2: Fraction = ZERO
    l1: Fraction = ZERO
    low: Runs[Fraction | None] | None = None  # least value of each coefficient, None: none; no runs where there are no bounds
    high: Runs[Fraction | None] | None = None
    intercept: str = "none"
    scale: Fraction = Fraction(1)  # of a penalised intercept
    kernel: str = "none"
    parameters: tuple[Fraction, ...] = ()  # poly: gamma, coef0, degree; rbf: gamma
    balance: list[int] | None = None  # free intercept: the row whose β makes the sum zero; crammer_singer: hub, then a row a class
    positive: int = 1
    negative: int | None = 0  # None: all other classes
    target: int | None = None  # of a regression: which number of each row
    title: str = ""


@dataclass
class Proof:
    """What a proof file says."""

    digest: str  # SHA-256 of the canonical data
    rows: int
    columns: int
    classes: list[Fraction | str]
    maker: str
    preparation: list[str]
    claims: list[Claim]


class Lines:
    """The lines of a proof's body, taken one by one; each begins with the keyword that must come next."""

    def __init__(self, lines: list[str]) -> None:
        self.lines, self.at = lines, 0

    def take(self, keyword: str) -> str:
        line = self.lines[self.at] if self.at < len(self.lines) else ""
        word, _, rest = line.partition(" ")
        require(word == keyword and not line.endswith(" "), f"line {self.at + 3}: {keyword!r} must come here, not {line[:40]!r}")
        self.at += 1
        return rest

    def next_is(self, keyword: str) -> bool:
        return self.at < len(self.lines) and self.lines[self.at].partition(" ")[0] == keyword

    def words(self, keyword: str) -> list[str]:
        rest = self.take(keyword)
        return rest.split(" ") if rest else []

    def word(self, keyword: str) -> str:
        words = self.words(keyword)
        require(len(words) == 1, f"line {self.at + 2}: one word must follow {keyword!r}")
        return words[0]

    def string(self, keyword: str) -> str:
        rest = self.take(keyword)
        try:
            value = json.loads(rest) if rest.startswith('"') else None
        except ValueError:
            value = None
        require(isinstance(value, str) and rest == rest.strip(), f"line {self.at + 2}: a JSON string must follow {keyword!r}")
        return str(value)


def parse_proof(content: bytes) -> Proof:
    """Return what a proof file says. Refuse a file that was cut short or changed, or that is not well formed."""
    first, _, rest = content.partition(b"\n")
    require(first == b"dualgap-proof 1", "the file does not begin with 'dualgap-proof 1': no proof, or of another version")
    second, _, body = rest.partition(b"\n")
    digest = b"sha256 " + hashlib.sha256(body).hexdigest().encode()
    require(second == digest, "the SHA-256 in line 2 is not that of the lines after it: the file is damaged or was changed")
    lines = Lines(ascii_lines(body, "the proof"))
    data = lines.word("data")
    require(re.fullmatch("[0-9a-f]{64}", data), "the digest of the data is not 64 hexadecimal digits")
    rows, columns = count(lines.word("rows"), "rows"), count(lines.word("columns"), "columns")
    classes = [_label(lines) for _ in range(count(lines.word("classes"), "classes"))]
    maker = lines.string("maker")
    steps = [lines.string("step") for _ in range(count(lines.word("preparation"), "preparation"))]
    proof = Proof(data, rows, columns, classes, maker, steps, [])
    problems = count(lines.word("problems"), "problems")
    proof.claims = [_claim(lines, proof) for _ in range(problems)]
    require(lines.take("end") == "" and lines.at == len(lines.lines), "there are lines after 'end'")
    require(problems > 0, "a proof has a problem at least")
    require(len(set(classes)) == len(classes) != 1, "a proof has two different classes at least, or targets and no classes")
    return proof


def _label(lines: Lines) -> Fraction | str:
    quoted = lines.lines[lines.at : lines.at + 1] and lines.lines[lines.at].startswith('class "')
    return lines.string("class") if quoted else number(lines.word("class"))


def _claim(lines: Lines, proof: Proof) -> Claim:
    claim = Claim(ZERO, Runs(), [], [], title=lines.string("problem"))
    sides = lines.words("sides")
    _parse_loss(lines, claim)
    claim.l2, claim.l1 = number(lines.word("l2")), number(lines.word("l1"))
    if lines.next_is("low"):
        claim.low, claim.high = (_runs(lines, end, proof.columns, number_or_none) for end in ("low", "high"))
        require(len(claim.low) == len(claim.high) == proof.columns, f"there are bounds on less than {proof.columns} columns")
    claim.intercept, scale = _named(lines, "intercept", {"none": 0, "free": 0, "penalised": 1})
    claim.scale = scale[0] if scale else Fraction(1)
    claim.kernel, claim.parameters = _named(lines, "kernel", KERNELS)
    claim.gap = number(lines.word("gap"))
    classes, joint = len(proof.classes), claim.loss == "crammer_singer"
    _parse_sides(sides, claim, classes)
    claim.c = _runs(lines, "weights", proof.rows, number)
    models, size = classes if joint else 1, proof.columns if claim.kernel == "none" else proof.rows
    claim.coef = [_vector(lines, "coef", size) for _ in range(models)]
    claim.bias = [number(word) for word in lines.words("bias")]
    balance = lines.words("balance")
    claim.balance = None if balance == ["none"] else [count(word, "a balance row") for word in balance]
    claim.beta = [_vector(lines, "beta", proof.rows) for _ in range(models)]
    return claim


def _parse_loss(lines: Lines, claim: Claim) -> None:
    """Parse the loss: a name and its numbers; of residual epsilon, delta and two slopes, each a number or "none"."""
    words = lines.words("loss")
    if words[:1] != ["residual"]:
        lines.at -= 1
        claim.loss, found = _named(lines, "loss", dict.fromkeys(LOSSES, 0) | {"smooth_hinge": 1, "residual": 4})
        claim.delta = found[0] if found else ZERO
        return
    require(len(words) == 5, "four words must follow 'loss residual'")
    claim.loss, claim.epsilon, claim.delta = "residual", number(words[1]), number(words[2])
    claim.slopes = (number_or_none(words[3]), number_or_none(words[4]))


def _parse_sides(sides: list[str], claim: Claim, classes: int) -> None:
    """Parse which rows are on which side, or which target a regression is about."""
    if claim.loss == "crammer_singer":
        require(sides == ["all"] and classes, "'sides all' belongs to crammer_singer, which has classes")
    elif claim.loss == "residual":
        require(
            len(sides) == 2 and sides[0] == "target" and not classes, "'sides target' belongs to residual, which has no classes"
        )
        claim.target = count(sides[1], "the target")
    else:
        require(len(sides) == 2, "two classes must follow 'sides'")
        claim.positive = count(sides[0], "the positive class")
        claim.negative = None if sides[1] == "rest" else count(sides[1], "the negative class")
        require(max(claim.positive, claim.negative or 0) < classes, "the sides name a class that is not there")
        require(claim.positive != claim.negative, "both sides are the same class")


def _runs(lines: Lines, keyword: str, most: int, parse: Callable[[str], T]) -> Runs[T]:
    """Parse words of the form "value", and "times*value" for a run, for `most` places at most."""
    found: Runs[T] = Runs()
    for word in lines.words(keyword):
        times, _, value = word.rpartition("*") if "*" in word else ("1", "", word)
        found.append(parse(value), count(times, f"how often a word of {keyword!r} comes"))
        require(len(found) <= most, f"{keyword!r} has more than {most} numbers")
    return found


def _named(lines: Lines, keyword: str, known: dict[str, int]) -> tuple[str, tuple[Fraction, ...]]:
    """Parse a name and as many numbers as `known` says that it has."""
    words = lines.words(keyword)
    require(words and known.get(words[0]) == len(words) - 1, f"{keyword} {' '.join(words)[:60]!r} is not one of {', '.join(known)}")
    return words[0], tuple(map(number, words[1:]))


def _vector(lines: Lines, keyword: str, size: int) -> dict[int, Fraction]:
    return dict(zip(*_entries(lines.words(keyword), size, keyword), strict=True))


# -------------------------------------------------------------------------------------------------------------- P(w, b), D(β)


def evaluate(claim: Claim, data: Data) -> tuple[Fraction, Fraction]:
    """Return (P, D): an upper bound of P(w, b) and a lower bound of D(β). Refuse malformed problems and infeasible β.

    Both are exact values, except that each logistic loss and its conjugate and each rbf kernel value is moved outwards by 2^-128.
    """
    _check(claim)
    if claim.loss == "crammer_singer":
        return _joint(claim, data)
    b, c = claim.bias[0], claim.c
    chosen, y = sides(claim, data)
    v, beta = dual_variables(claim, y)
    t = targets(claim, data, chosen)
    scores, slack, penalty, conjugate = (_linear if claim.kernel == "none" else _kernel)(claim, data, chosen, v)
    losses = (ci * most(claim, yi * (s + b - ti), slack) for ci, yi, ti, s in zip(c, y, t, scores, strict=True) if ci)
    primal = total(losses) + penalty
    dual = total(c[i] * (psi(claim, value) + value * y[i] * t[i]) for i, value in beta.items()) - conjugate
    if claim.intercept == "penalised":
        primal += claim.l2 * (b / claim.scale) ** 2 / 2
        dual -= (claim.scale * total(v.values())) ** 2 / (2 * claim.l2)
    return primal, dual


def sides(claim: Claim, data: Data) -> tuple[list[int], list[int]]:
    """Return the rows of the data that are the problem's, and their labels ±1; of a regression all rows, and 1."""
    if claim.target is not None:
        return list(range(len(data.rows))), [1] * len(data.rows)
    chosen = [i for i, code in enumerate(data.codes) if code == claim.positive or claim.negative in (None, code)]
    return chosen, [1 if data.codes[i] == claim.positive else -1 for i in chosen]


def targets(claim: Claim, data: Data, chosen: Sequence[int]) -> list[Fraction]:
    """Return the targets of the problem's rows; 0 for classes."""
    if claim.target is None:
        return [ZERO] * len(chosen)
    require(all(claim.target < len(row) for row in data.targets), f"the data have no target {claim.target}")
    require(len(data.targets) == len(data.rows), "the data have no targets")
    return [data.targets[i][claim.target] for i in chosen]


def _check(claim: Claim) -> None:
    """Refuse a problem that the format does not have."""
    joint, alone = claim.loss == "crammer_singer", claim.kernel == "none"
    require(claim.gap >= 0, "the gap is negative")
    require(all(ci >= 0 for ci in claim.c.values), "a weight is negative")
    require(claim.l2 >= 0 and claim.l1 >= 0 and claim.l2 + claim.l1 > 0, "l2 and l1 are not a penalty")
    require(claim.l1 == 0 or (alone and not joint), "a kernel and crammer_singer take no l1")
    require(alone or not joint, "crammer_singer takes no kernel")
    if claim.low is not None:
        require(alone and not joint and claim.l2 > 0, "bounds need l2, no kernel and another loss than crammer_singer")
        _check_bounds(claim)
    require(claim.loss != "smooth_hinge" or claim.delta > 0, "delta is not positive")
    if claim.loss == "residual":
        require(claim.epsilon >= 0 and claim.delta >= 0, "epsilon or delta is negative")
        require(all(slope is None or slope >= 0 for slope in claim.slopes), "a slope of the loss is negative")
        require(claim.delta > 0 or None not in claim.slopes, "a loss without a largest slope needs a positive delta")
    if claim.intercept == "penalised":
        require(claim.l2 > 0 and claim.scale > 0, "a penalised intercept needs l2 and a positive scale")
    require(claim.intercept != "none" or not any(claim.bias), "there is a bias but no intercept")
    require(claim.intercept == "free" or claim.balance is None, "balance rows belong to a free intercept")
    require(len(claim.bias) == len(claim.coef) == len(claim.beta), "there is one bias for each model")
    if claim.kernel in ("poly", "rbf"):
        require(claim.parameters[0] > 0, "gamma is not positive")
    if claim.kernel == "poly":
        _, coef0, degree = claim.parameters
        require(coef0 >= 0, "poly with a negative coef0 need not be positive semidefinite")
        require(degree in range(101), "the degree is not a whole number up to 100")


def _check_bounds(claim: Claim) -> None:
    """Refuse intervals without a number in them, and a model that is not within its bounds, where P is infinite."""
    places = sorted(claim.coef[0])
    for start, end, low, high in intervals(claim):
        require(low is None or high is None or low <= high, f"the bounds of coefficient {start} exclude each other")
        here = places[bisect_left(places, start) : bisect_left(places, end)]
        zeros = [] if len(here) == end - start else [ZERO]
        for w in chain(zeros, (claim.coef[0][j] for j in here)):
            inside = (low is None or low <= w) and (high is None or w <= high)
            require(inside, f"a coefficient from {start} to {end - 1} is outside of its bounds")


def intervals(claim: Claim) -> Iterable[tuple[int, int, Fraction | None, Fraction | None]]:
    """Return where coefficients with the same bounds begin and end, and these bounds."""
    assert claim.low is not None
    assert claim.high is not None
    for start, end in pairwise([0, *sorted({*claim.low.ends, *claim.high.ends})]):
        yield start, end, claim.low[start], claim.high[start]


def most(claim: Claim, m: Fraction, slack: Fraction) -> Fraction:
    """The largest loss if m is off by at most `slack`. φ is convex: it is at an end, for classes at the lower one."""
    lowest = phi(claim, m - slack)
    return max(lowest, phi(claim, m + slack)) if slack and claim.loss == "residual" else lowest


def _residual(claim: Claim, r: Fraction) -> Fraction:
    slope, excess = claim.slopes[1 if r < 0 else 0], abs(r) - claim.epsilon
    if excess <= 0:
        return ZERO
    if slope is None or excess < claim.delta * slope:
        return excess * excess / (2 * claim.delta)
    return slope * (excess - claim.delta * slope / 2)


def phi(claim: Claim, m: Fraction) -> Fraction:
    """The loss φ(m), or an upper bound of it. For classes it never rises with m."""
    if claim.loss == "residual":
        return _residual(claim, m)
    if claim.loss == "logistic":
        return logistic(m)
    short = 1 - m
    if short <= 0:
        return ZERO
    if claim.loss == "squared_hinge":
        return short * short
    if claim.loss == "hinge":
        return short
    return short * short / (2 * claim.delta) if short < claim.delta else short - claim.delta / 2


def psi(claim: Claim, beta: Fraction) -> Fraction:
    """ψ(β) = −φ*(−β), or a lower bound of it. ψ(0) = 0."""
    if claim.loss == "logistic":
        return entropy(beta)
    if claim.loss == "residual":
        return -claim.epsilon * abs(beta) - claim.delta * beta * beta / 2
    return beta - beta * beta * {"hinge": ZERO, "smooth_hinge": claim.delta / 2, "squared_hinge": Fraction(1, 4)}[claim.loss]


def dual_variables(claim: Claim, y: list[int]) -> tuple[dict[int, Fraction], dict[int, Fraction]]:
    """Return v = cβy and β, with the balance row's entry computed, after a check that β is feasible."""
    c, beta = claim.c, dict(claim.beta[0])
    require(len(c) == len(y) > 0, f"there are {len(c)} weights for {len(y)} rows")
    require(all(i < len(y) for i in beta), "β has an entry beyond the problem's rows")
    v = {i: c[i] * value * y[i] for i, value in beta.items()}
    if claim.balance is not None:
        row = claim.balance[0] if len(claim.balance) == 1 else len(y)
        require(row < len(y) and c[row] > 0, "the balance row is not one row of the problem with a positive weight")
        v.pop(row, None)
        v[row] = -total(v.values())
        beta[row] = v[row] * y[row] / c[row]
    require(claim.intercept != "free" or total(v.values()) == 0, "Σ cβy is not zero, which a free intercept needs")
    low, high = box(claim)
    for i, value in beta.items():
        inside = (low is None or value >= low) and (high is None or value <= high)
        require(inside, f"β of row {i} is outside of its bounds")
    return v, beta


def box(claim: Claim) -> tuple[Fraction | None, Fraction | None]:
    """Return the least and the largest value of β; None where there is none."""
    if claim.loss == "residual":
        low, high = claim.slopes
        return None if low is None else -low, high
    return ZERO, None if claim.loss == "squared_hinge" else Fraction(1)


Parts = tuple[list[Fraction], Fraction, Fraction, Fraction]  # scores, their error at most, penalty, conjugate


def _linear(claim: Claim, data: Data, chosen: list[int], v: dict[int, Fraction]) -> Parts:
    """Scores x·w, R(w), and R*(u) for u = Σ v x."""
    l1, l2 = claim.l1, claim.l2
    scores, norms, squares = _scores(claim.coef[0], data, chosen)
    u, common = combination(data, chosen, v)
    if l2 == 0:
        require(max(map(abs, u.values()), default=0) <= l1 * common, "|u| exceeds l1, and there is no l2")
        return scores, ZERO, l1 * norms, ZERO
    if claim.low is not None:
        of_zero = total((end - start) * conjugate(claim, start, ZERO) for start, end, _, _ in intervals(claim))
        rises = (conjugate(claim, j, Fraction(x, common)) - conjugate(claim, j, ZERO) for j, x in u.items())
        return scores, ZERO, l1 * norms + l2 * squares / 2, of_zero + total(rises)
    scale = max(common, l1.denominator)  # both are powers of two
    limit = l1.numerator * (scale // l1.denominator)
    above = sum((abs(x) - limit) ** 2 for x in (x * (scale // common) for x in u.values()) if abs(x) > limit)
    return scores, ZERO, l1 * norms + l2 * squares / 2, Fraction(above, scale * scale) / (2 * l2)


def conjugate(claim: Claim, j: int, u: Fraction) -> Fraction:
    """R*(u) at coordinate j, for l2 > 0: the largest value of u·w − l1|w| − l2·w²/2 between the coordinate's bounds."""
    beyond = max(abs(u) - claim.l1, ZERO)
    best = beyond if u > 0 else -beyond  # l2 times the w where it is largest if there are no bounds
    if claim.low is not None and claim.high is not None:
        for end, side in ((claim.low[j], 1), (claim.high[j], -1)):
            if end is not None and side * (claim.l2 * end - best) > 0:
                return u * end - claim.l1 * abs(end) - claim.l2 * end * end / 2
    return beyond * beyond / (2 * claim.l2)


def _scores(coef: dict[int, Fraction], data: Data, chosen: Sequence[int]) -> tuple[list[Fraction], Fraction, Fraction]:
    """Return x·w of the chosen rows, ‖w‖₁ and ‖w‖²."""
    rows, common = data.integers
    integers, scale = whole(coef.values())
    w = dict.fromkeys(data.used, 0) | dict(zip(coef, integers, strict=True))
    scores = [Fraction(sum(map(mul, map(w.__getitem__, rows[i][0]), rows[i][1])), common * scale) for i in chosen]
    return scores, Fraction(sum(map(abs, integers)), scale), Fraction(sum(value * value for value in integers), scale * scale)


def combination(data: Data, chosen: Sequence[int], v: dict[int, Fraction]) -> tuple[dict[int, int], int]:
    """Return u = Σ v x, an integer for each column that is not empty, and their common denominator."""
    rows, common = data.integers
    integers, scale = whole(v.values())
    u = dict.fromkeys(data.used, 0)
    for i, a in zip(v, integers, strict=True):
        for j, x in zip(*rows[chosen[i]], strict=True):
            u[j] += a * x
    return u, common * scale


def _kernel(claim: Claim, data: Data, chosen: list[int], v: dict[int, Fraction]) -> Parts:
    """Scores Σ aⱼ k(xⱼ, x), (l2/2) aᵀKa, and vᵀKv / (2·l2), with the errors of the kernel values taken to the wrong side."""
    require(all(i < len(chosen) for i in claim.coef[0]), "the expansion has an entry beyond the problem's rows")
    k, common, error = _kernel_function(claim, data, chosen)
    (a, a_scale), (s, s_scale) = whole(claim.coef[0].values()), whole(v.values())
    support = sorted({*claim.coef[0], *v})
    a_at, s_at = dict(zip(claim.coef[0], a, strict=True)), dict(zip(v, s, strict=True))
    scores, square, conjugate = [], 0, 0
    for i in range(len(chosen)):
        values = {j: k(i, j) for j in (support if i in s_at else claim.coef[0])}
        scores.append(sum(x * values[j] for j, x in a_at.items()))
        square += a_at.get(i, 0) * scores[-1]
        conjugate += s_at.get(i, 0) * sum(x * values[j] for j, x in s_at.items()) if i in s_at else 0
    a_sum, s_sum = sum(map(abs, a)), sum(map(abs, s))
    return (
        [Fraction(x, a_scale * common) for x in scores],
        Fraction(a_sum, a_scale) * error,
        claim.l2 / 2 * (Fraction(square, a_scale**2 * common) + Fraction(a_sum**2, a_scale**2) * error),
        (Fraction(conjugate, s_scale**2 * common) + Fraction(s_sum**2, s_scale**2) * error) / (2 * claim.l2),
    )


def _kernel_function(claim: Claim, data: Data, chosen: list[int]) -> tuple[Callable[[int, int], int], int, Fraction]:
    """Return k(i, j) as an integer, its denominator, and a bound on its error."""
    rows, common = data.integers
    at = [dict(zip(*rows[i], strict=True)) for i in chosen]
    if claim.kernel == "precomputed":
        require(data.columns == len(data.rows), "a kernel matrix must be square")
        same = all(at[i].get(q, 0) == at[j].get(p, 0) for i, p in enumerate(chosen) for j, q in enumerate(chosen[:i]))
        require(same, "the kernel matrix is not symmetric")
        return lambda i, j: at[i].get(chosen[j], 0), common, ZERO

    def dot(i: int, j: int) -> int:
        cols, values = rows[chosen[i]]
        return sum(x * at[j][p] for p, x in zip(cols, values, strict=True) if p in at[j])

    if claim.kernel == "linear":
        return dot, common**2, ZERO
    gamma = claim.parameters[0]
    if claim.kernel == "poly":
        coef0, degree = claim.parameters[1], int(claim.parameters[2])
        below = common**2 * gamma.denominator * coef0.denominator
        slope, constant = gamma.numerator * coef0.denominator, coef0.numerator * gamma.denominator * common**2
        return lambda i, j: (slope * dot(i, j) + constant) ** degree, below**degree, ZERO
    squares = [dot(i, i) for i in range(len(chosen))]

    def rbf(i: int, j: int) -> int:
        distance = squares[i] + squares[j] - 2 * dot(i, j)
        return _exp(-(gamma.numerator * distance * ONE // (gamma.denominator * common**2)))

    return rbf, ONE, EPSILON


def _joint(claim: Claim, data: Data) -> tuple[Fraction, Fraction]:
    """Return (P, D) of Crammer and Singer's problem."""
    c, codes, K = claim.c, data.codes, len(claim.coef)
    everyone = range(len(codes))
    require(len(c) == len(codes) > 0 and all(code < K for code in codes), f"there are {len(c)} weights for {len(codes)} rows")
    primal, own = ZERO, [ZERO] * len(codes)  # the score of each row's class
    highest: list[Fraction] = []  # score, with 1 added for another class than the row's
    for k, (coef, b) in enumerate(zip(claim.coef, claim.bias, strict=True)):
        scores, _, squares = _scores(coef, data, everyone)
        primal += claim.l2 * squares / 2
        raised = [score + b + (k != code) for score, code in zip(scores, codes, strict=True)]
        highest = list(map(max, highest, raised)) if k else raised
        own = [g if code == k else o for g, code, o in zip(raised, codes, own, strict=True)]
    losses = (ci * (high - g) for ci, high, g in zip(c, highest, own, strict=True))
    flow = class_flow(claim, data)
    dual = total(value for column in flow for value in column.values())
    for k in range(K):
        v = {i: -value for i, value in flow[k].items()}
        for column in flow:
            for i, value in column.items():
                if codes[i] == k:
                    v[i] = v.get(i, ZERO) + value
        u, common = combination(data, everyone, v)
        dual -= Fraction(sum(x * x for x in u.values()), common * common) / (2 * claim.l2)
        if claim.intercept == "penalised":
            dual -= (claim.scale * total(v.values())) ** 2 / (2 * claim.l2)
            primal += claim.l2 * (claim.bias[k] / claim.scale) ** 2 / 2
    return primal + total(losses), dual


def class_flow(claim: Claim, data: Data) -> list[dict[int, Fraction]]:
    """Return cᵢpᵢₖ for each class k and the rows i of other classes, with the balance rows' entries computed, after a check."""
    c, codes = claim.c, data.codes
    flow = [{i: c[i] * value for i, value in column.items()} for column in claim.beta]
    for k, column in enumerate(claim.beta):
        require(all(i < len(codes) and codes[i] != k for i in column), f"p of class {k} has an entry for a row of this class")

    def excess(k: int) -> Fraction:
        """What rows of class k give to other classes, less what class k gets."""
        given = total(value for column in flow for i, value in column.items() if codes[i] == k)
        return given - total(flow[k].values())

    if claim.balance is not None:
        hub, *rows = claim.balance or [len(flow)]
        require(hub < len(flow) and len(rows) == len(flow), "balance needs a class and a row for each class")
        for k, row in enumerate(rows):
            if k != hub:
                require(row < len(codes) and codes[row] in (k, hub) and c[row] > 0, f"the balance row of class {k} does not serve")
                other = hub if codes[row] == k else k
                flow[other].pop(row, None)
                flow[other][row] = excess(k) * (-1 if codes[row] == k else 1)
    if claim.intercept == "free":
        require(not any(excess(k) for k in range(len(flow))), "the classes are not in balance, which a free intercept needs")
    given: dict[int, Fraction] = defaultdict(Fraction)
    for column in flow:
        for i, value in column.items():
            require(value >= 0, f"p of row {i} is negative")
            given[i] += value
    require(all(value <= c[i] for i, value in given.items()), "p of a row adds up to more than 1")
    return flow


# ------------------------------------------------------------------------------------------------------------------ verdict


def verify(content: bytes, data_text: bytes) -> tuple[Proof, list[tuple[Fraction, Fraction]]]:
    """Return the proof and (P, D) of each problem; refuse unless every gap is proven for these data, given as their canonical text."""
    proof = parse_proof(content)
    digest = hashlib.sha256(data_text).hexdigest()
    require(digest == proof.digest, f"the data are not those of the proof: their digest is {digest}, the proof's is {proof.digest}")
    data, classes = parse_data(data_text)
    sizes = (len(data.rows), data.columns, classes)
    require(sizes == (proof.rows, proof.columns, len(proof.classes)), "the data are of another size than the proof says")
    values = []
    for claim in proof.claims:
        primal, dual = evaluate(claim, data)
        found = f"P = {shown(primal)}, D = {shown(dual)}, P - D = {shown(primal - dual)}"
        require(
            primal - dual <= claim.gap, f"{json.dumps(claim.title)}: {found}, which is more than the gap {shown(claim.gap)} claimed"
        )
        values.append((primal, dual))
    return proof, values


def report(proof: Proof, values: list[tuple[Fraction, Fraction]]) -> list[str]:
    """Return lines that say what was proven. Titles and steps are the writer's words, and quoted; all else is what was checked."""
    kinds = f"{len(proof.classes)} classes" if proof.classes else "targets"
    lines = [f"data: {proof.rows} rows, {proof.columns} columns, {kinds}, SHA-256 {proof.digest}"]
    for step in proof.preparation:
        lines.append(f"the writer says that the data were prepared by {json.dumps(step)[:200]}")
    for claim, (primal, dual) in zip(proof.claims, values, strict=True):
        low, high = min(claim.c.values), max(claim.c.values)
        weights = f"each of weight {shown(low)}" if low == high else f"of weights from {shown(low)} to {shown(high)}"
        settings = [
            _loss_words(claim),
            f"l2 {shown(claim.l2)}, l1 {shown(claim.l1)}",
            *([f"bounds on {_bounded(claim)} of {proof.columns} coefficients"] if claim.low is not None else []),
            f"intercept {claim.intercept}" + (f" (scale {shown(claim.scale)})" if claim.intercept == "penalised" else ""),
            *([f"kernel {' '.join([claim.kernel, *map(shown, claim.parameters)])}"] if claim.kernel != "none" else []),
            f"{len(claim.c)} rows, {weights}",
        ]
        if claim.target is not None:
            settings.append(f"target {claim.target}")
        elif claim.loss != "crammer_singer":
            settings.append(f"class {claim.positive} against {'the rest' if claim.negative is None else f'class {claim.negative}'}")
        lines.append(f"verified: {json.dumps(claim.title)}: {'; '.join(settings)}")
        lines.append(f"  P = {shown(primal)}, D = {shown(dual)}: at most {shown(claim.gap, ROUND_CEILING)} above the optimum")
    return lines


def _loss_words(claim: Claim) -> str:
    words = [claim.loss, *([f"delta {shown(claim.delta)}"] if claim.delta else [])]
    if claim.loss == "residual":
        low, high = ("no limit" if slope is None else shown(slope) for slope in claim.slopes)
        words += [f"epsilon {shown(claim.epsilon)}", f"slope {low} above the target and {high} below it"]
    return " ".join(words)


def _bounded(claim: Claim) -> int:
    """Return how many coefficients have a bound."""
    return sum(end - start for start, end, low, high in intervals(claim) if low is not None or high is not None)


def shown(value: Fraction, rounding: str = ROUND_HALF_EVEN) -> str:
    """Return a number for the eye, to ten digits."""
    context = Context(prec=10, rounding=rounding)
    return str(context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(context))


# ---------------------------------------------------------------------------------------------------------- LIBSVM text, CSV


def decimal(text: str) -> Fraction:
    """Return the float64 number nearest to a decimal number, as a fraction."""
    try:
        require(DECIMAL.fullmatch(text.strip()), "")  # float accepts 1_0, and the digits of other scripts
        return Fraction(*float(text).as_integer_ratio())
    except (ValueError, OverflowError):
        raise Refused(f"{text[:40]!r} in the data is not a finite number") from None


def read_data(path: str, proof: Proof, target: str | None = None) -> bytes:
    """Return the canonical text of a file: itself, LIBSVM text, or a CSV table with a header."""
    content = Path(path).read_bytes()
    if content.startswith(b"dualgap-data 1\n"):
        return content
    text = content.decode("utf-8-sig")
    if target is not None or path.lower().endswith(".csv"):
        table = _from_csv(text, target)
    else:
        table = _from_libsvm(text)
    coded: dict[str, int | str] = {}
    rows = []
    for label, entries in table:
        if label not in coded:
            coded[label] = _code(label, proof.classes) if proof.classes else literal(*decimal(label).as_integer_ratio())
        rows.append((coded[label], entries))
    return canonical(proof.columns, len(proof.classes), rows)


def _code(label: str, classes: list[Fraction | str]) -> int:
    if label in classes:
        return classes.index(label)
    value = None if all(isinstance(name, str) for name in classes) else decimal(label)
    require(value in classes, f"the label {label!r} of the data is not one of the proof's classes")
    return classes.index(value)  # type: ignore[arg-type]


def _written(word: str, known: dict[str, str]) -> str:
    if word not in known:
        known[word] = literal(*decimal(word).as_integer_ratio())
    return known[word]


def _place(word: str) -> int:
    require(PLACE.fullmatch(word), f"{word[:40]!r} in the data is not the number of a column")
    return int(word)


def _from_libsvm(text: str) -> Iterable[tuple[str, str]]:
    """Labels, and entries in canonical form. Columns are counted from 0 if a column 0 occurs, else from 1."""
    table, known = [], {"0": "0"}
    for line in text.splitlines():
        label, *words = line.split("#")[0].split() or [""]
        pairs = [
            (_place(place), _written(value, known)) for place, _, value in (word.partition(":") for word in words) if place != "qid"
        ]
        require(all(a[0] < b[0] for a, b in pairwise(pairs)), f"the columns of {line[:40]!r} do not rise")
        if label:
            table.append((label, pairs))
    first = 0 if any(pairs and pairs[0][0] == 0 for _, pairs in table) else 1
    return [(label, "".join(f" {j - first}:{value}" for j, value in pairs if value != "0")) for label, pairs in table]


def _from_csv(text: str, target: str | None) -> Iterable[tuple[str, str]]:
    require(text.strip(), "the table is empty")
    header, *lines = csv.reader(text.splitlines())
    names = [target] if target else [name for name in ("target", "label", "class", "y") if name in header]
    require(names and names[0] in header, f"the table has no column {target or 'target, label, class or y'} in its header")
    place, known = header.index(str(names[0])), {"0": "0"}
    for line in lines:
        require(len(line) == len(header), f"a row of the table has {len(line)} cells, its header {len(header)}")
        values = [_written(word, known) for word in line[:place] + line[place + 1 :]]
        yield line[place], "".join(f" {j}:{value}" for j, value in enumerate(values) if value != "0")


def main(arguments: list[str] | None = None) -> int:
    """Check a proof; return the exit code."""
    parser = argparse.ArgumentParser(description="Check a proof file of dualgap in exact arithmetic.")
    parser.add_argument("proof")
    parser.add_argument("data", help="LIBSVM text, CSV with a header, or the canonical text of the data")
    parser.add_argument("--target", help="label column of a CSV file [target, label, class or y]")
    options = parser.parse_args(arguments)
    try:
        content = Path(options.proof).read_bytes()
        proof, values = verify(content, read_data(options.data, parse_proof(content), options.target))
    except (ValueError, OSError, csv.Error) as error:  # Refused is a ValueError
        print(f"refused: {error}")
        return 1
    print("\n".join(report(proof, values)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
