"""Proof files of a few kB that name sizes no machine has: both checkers end with one sentence, in little memory."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import make_data
from dualgap import Problem, solve
from dualgap.proof import verify

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no limits on memory")

HUGE = 999_999_999_999_999_999
# What replaces the line of a keyword. Each file is refused.
HOSTILE = {
    "brackets": {"maker": "maker " + "[" * 200_000},
    "braces": {"maker": "maker " + '{"a":' * 200_000},
    "brackets in a title": {"problem": "problem " + "[" * 200_000},
    "a long number": {"maker": "maker " + "1" * 10**6},
    "a long string": {"maker": 'maker "' + "\\u0041" * 10**6 + '"', "gap": "gap 0"},
    "rows and weights": {"rows": f"rows {HUGE}", "weights": f"weights {HUGE}*1p0"},
    "16 GB of weights": {"rows": "rows 2000000000", "weights": "weights 2000000000*1p0"},
    "16 GB of bounds": {"columns": "columns 2000000000", "l1": "l1 0\nlow 2000000000*none\nhigh 2000000000*none"},
    "bounds": {"columns": f"columns {HUGE}", "l1": f"l1 0\nlow {HUGE}*none\nhigh {HUGE}*none"},
    "classes": {"classes": f"classes {HUGE}"},
    "problems": {"problems": f"problems {HUGE}"},
    "steps": {"preparation": f"preparation {HUGE}"},
    "half a character": {"problem": 'problem "\\ud800"', "gap": "gap 0"},
    "a terminal's words": {"problem": 'problem "\\u001b[2J\\u001b]0;pwn\\u0007 verified"', "gap": "gap 0"},
    "the largest polynomial": {"kernel": "kernel poly 1fffffffffffffp971 1fffffffffffffp971 19p2"},
}
LIMITED = """
import resource, sys
{first}
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
for name in sys.argv[1:]:
    print(name, main([{command}name + ".proof", "data.libsvm"]))
"""


def with_digest(body):
    return b"dualgap-proof 1\nsha256 " + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    X, y = make_data(n=12, d=3)
    result = solve(Problem(X, y, l2=0.1, intercept="free"), tol=1e-3, seed=0)
    result.save_proof(folder / "true.proof")
    lines = [
        f"{label:+g} " + " ".join(f"{j + 1}:{x!r}" for j, x in enumerate(row)) for row, label in zip(X.tolist(), y, strict=True)
    ]
    (folder / "data.libsvm").write_text("\n".join([*lines, ""]))
    body = (folder / "true.proof").read_text().split("\n")[2:]
    for name, changes in HOSTILE.items():
        text = "\n".join(changes.get(line.split(" ")[0], line) for line in body)
        (folder / f"{name}.proof").write_bytes(with_digest(text.encode()))
    return folder


def said(folder, first, command, gigabytes):
    """What a checker prints about each file, in a process with little memory."""
    program = LIMITED.format(first=first, command=command, memory=gigabytes * 10**9)
    run = subprocess.run(
        [sys.executable, "-c", program, "true", *HOSTILE], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stdout + run.stderr
    assert "unexpected" not in run.stdout + run.stderr
    return run.stdout.splitlines()


@pytest.mark.parametrize("checker", ["verify.py", "dualgap verify"])
def test_each_is_refused_in_one_sentence(folder, checker):
    if checker == "verify.py":
        place = str(Path(verify.__file__).parent)
        lines = said(folder, f"sys.path.insert(0, {place!r}); from verify import main", "", 1)
    else:
        lines = said(folder, "import dualgap.proof, dualgap.data\nfrom dualgap.app.cli import main", "'verify', ", 4)
    assert any(line.startswith("verified") for line in lines)
    assert "true 0" in lines
    for name in HOSTILE:
        place = lines.index(f"{name} 1")
        assert lines[place - 1].startswith("refused: "), lines[place - 1]
        assert len(lines[place - 1]) < 400


def test_data_with_a_column_beyond_all_memory():
    """One value in column 10^17, bounds on every column: P and D are those of the data with two columns."""
    values = []
    for columns, last in ((2, 1), (10**17, 10**17 - 1)):
        data = b"dualgap-data 1\n2 %d 2\n1 0:1p0\n0 0:-1p0 %d:1p0\n" % (columns, last)
        bounds = f"low 1*0 {columns - 1}*-1p-2\nhigh {columns}*1p3"
        body = f"""data {hashlib.sha256(data).hexdigest()}
rows 2
columns {columns}
classes 2
class 0
class 1p0
maker "me"
preparation 0
problems 1
problem "wide"
sides 1 0
loss hinge
l2 1p0
l1 0
{bounds}
intercept none
kernel none
gap 1p0
weights 2*1p-1
coef 0:1p-1 {last}:-1p-3
bias 0
balance none
beta 0:1p0 1:1p0
end
"""
        _, found = verify.verify(with_digest(body.encode()), data)
        values += found
    assert values[0] == values[1]


@pytest.mark.parametrize("word", ["1_0", "\u0661", "0x10", "1e", "", "nan", "inf", "1e999"])
def test_what_is_no_decimal_number_is_refused(word):
    with pytest.raises(verify.Refused, match="not a finite number"):
        verify.decimal(word)


@pytest.mark.parametrize("word", ["1_0", "\u0661", "-1", "", "9" * 5000])
def test_what_is_no_column_is_refused(word, tmp_path):
    (tmp_path / "data").write_text(f"1 {word}:1\n", encoding="utf-8")
    proof = verify.Proof("", 1, 3, [verify.ZERO, verify.number("1p0")], "", [], [])
    with pytest.raises(verify.Refused, match="not the number of a column"):
        verify.read_data(str(tmp_path / "data"), proof)


@pytest.mark.parametrize("text", ["1", "-1.5", "+.5", "2.", "1e-3", "1E+3", " 7 ", "0.1"])
def test_decimal_numbers(text):
    assert verify.decimal(text) == verify.Fraction(float(text))


def test_runs():
    runs = verify.Runs([1, 1, 2])
    runs.append(2, 10**17)
    runs.append(3, 0)
    assert len(runs) == 10**17 + 3
    assert [runs[place] for place in (0, 1, 2, 10**17 + 2)] == [1, 1, 2, 2]
    assert list(verify.Runs([3, 3, 1])) == [3, 3, 1]
    assert np.array_equal(list(verify.Runs()), [])
