"""Every code block of the documentation runs: Python in one namespace a page, commands in one folder a page.

A block that cannot run here has a comment in the line before it, <!-- not run: why -->.
"""

import contextlib
import io
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from dualgap.app.cli import main
from dualgap.solvers import REGISTRY

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(
    r"^(?P<indent> *)```(?: \{ \.)?(?P<kind>python|console)\b[^\n]*\n(?P<body>.*?)^(?P=indent)```\s*$", re.MULTILINE | re.DOTALL
)
NOT_RUN = re.compile(r"<!-- not run: .+ -->\s*$")
ELSEWHERE = {"lab.md"}  # its one block runs a study, which tests/lab does with fewer runs
PAGES = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


@pytest.fixture(autouse=True)
def forget_what_pages_register():
    """The page on solvers registers one, which other tests must not find."""
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def blocks_of(text):
    """(line, kind, body) of each block that is to run."""
    found = []
    for match in FENCE.finditer(text):
        if not NOT_RUN.search(text[: match.start()]):
            indent = match["indent"]
            body = "\n".join(line.removeprefix(indent) for line in match["body"].splitlines())
            found.append((text.count("\n", 0, match.start()) + 2, match["kind"], body))
    return found


def included(body):
    """The body with the scripts that it shows in place of their names; a part of a module of ours has tests of its own."""

    def content(match):
        path, _, section = match[1].partition(":")
        return "" if section else (ROOT / path).read_text(encoding="utf-8")

    return re.sub(r'^--8<-- "(.+)"$', content, body, flags=re.MULTILINE)


def run_console(body, monkeypatch):
    """Run each command of a console block, with what stands before a | on its standard input."""
    for line in body.splitlines():
        if not line.startswith("$ "):
            continue
        words = shlex.split(line[2:], comments=True)
        if "|" in words:
            place = words.index("|")
            assert words[0] == "cat", line
            content = b"".join(Path(name).read_bytes() for name in words[1:place])
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
            words = words[place + 1 :]
        if words[0] == "python":
            assert subprocess.run([sys.executable, *words[1:]], check=False).returncode == 0, line
            continue
        assert words[0] == "dualgap", line
        if words[1] == "example" and Path("customers.csv").exists():
            continue
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words[1:])
        assert code == 0, f"{line}\n{err.getvalue()}"


@pytest.mark.parametrize("page", sorted({*PAGES} - ELSEWHERE))
def test_page(page, tmp_path, monkeypatch, capsys):
    blocks = blocks_of((DOCS / page).read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    namespace = {"__name__": "page"}
    for line, kind, body in blocks:
        if kind == "console":
            run_console(body, monkeypatch)
            continue
        path = tmp_path / f"line_{line}.py"  # a file: classes and kernels of the page have sources
        path.write_text(included(body), encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)
    plt.close("all")


def test_blocks_are_found():
    skipped = "<!-- not run: needs a cluster -->\n```python\nboom()\n```\n"
    text = f"a\n```python\nx = 1\n```\n{skipped}- b\n\n    ```console\n    $ dualgap\n    ```\n"
    assert blocks_of(text) == [(3, "python", "x = 1"), (12, "console", "$ dualgap")]


def test_every_page_is_in_the_navigation():
    listed = re.findall(r"^ +- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(listed) == PAGES


def test_the_readme_is_one_screen():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
