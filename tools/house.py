"""Measures of the source tree: how much there is to know, by room, and how much of it a fit crosses.

    python -m tools.house            # all measures; the four ways take a minute
    python -m tools.house --quick    # without the four ways

A change that adds nothing makes them fall. Each is a consequence of good work and not an aim.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import importlib
import importlib.util
import inspect
import io
import re
import sys
import tempfile
import threading
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "dualgap"
TOP = "(top)"  # the modules beside the rooms
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}


class Size(NamedTuple):
    """What there is in a module or a room."""

    files: int
    lines: int
    code: int  # lines without blank ones, comments and docstrings
    classes: int
    functions: int
    untyped: int  # annotations `: Any`

    def plus(self, other: Size) -> Size:
        """Return the sum of two sizes."""
        return Size(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING = Size(0, 0, 0, 0, 0, 0)


def docstrings(tree: ast.Module) -> Iterator[ast.Expr]:
    """Yield the statements that are docstrings, those of attributes too."""
    for node in ast.walk(tree):
        for step in getattr(node, "body", []) if not isinstance(node, (ast.Lambda, ast.IfExp)) else []:
            if isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant) and isinstance(step.value.value, str):
                yield step


def size_of(path: Path) -> Size:
    """Measure a module."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            code.update(range(token.start[0], token.end[0] + 1))
    for each in docstrings(tree):
        code.difference_update(range(each.lineno, (each.end_lineno or each.lineno) + 1))
    kinds = collections.Counter(type(node) for node in ast.walk(tree))
    functions = kinds[ast.FunctionDef] + kinds[ast.AsyncFunctionDef]
    return Size(1, text.count("\n"), len(code), kinds[ast.ClassDef], functions, len(re.findall(r": Any\b", text)))


def rooms(package: Path = PACKAGE) -> dict[str, Size]:
    """Measure each room, the largest first."""
    found: dict[str, Size] = {}
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        room = inside.parts[0] if len(inside.parts) > 1 else TOP
        found[room] = found.get(room, NOTHING).plus(size_of(path))
    return dict(sorted(found.items(), key=lambda item: -item[1].lines))


def names_at_doors(package: Path = PACKAGE) -> int:
    """Count the names that the `__all__` of each folder lists."""
    total = 0
    for path in package.rglob("__init__.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets):
                total += len(getattr(node.value, "elts", []))
    return total


def is_number(node: ast.expr) -> bool:
    """Return whether an expression is made of numbers alone."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    return isinstance(node, ast.Tuple) and bool(node.elts) and all(map(is_number, node.elts))


def constants(folder: Path) -> int:
    """Count the numeric constants at the level of modules: NAME = number, or (A, B) = (number, number)."""
    total = 0
    for path in folder.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.AnnAssign):
                targets, value = [node.target], node.value
            elif isinstance(node, ast.Assign):
                targets, value = [*node.targets], node.value
            else:
                continue
            names = [name for target in targets for name in (target.elts if isinstance(target, ast.Tuple) else [target])]
            if value is not None and is_number(value):
                total += sum(isinstance(name, ast.Name) and name.id.isupper() for name in names)
    return total


def private_names(library: str = "numba") -> int:
    """Count a library's private names, as tests/test_packaging.py lists them."""
    for node in ast.parse((ROOT / "tests" / "test_packaging.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "PRIVATE":
            table = ast.literal_eval(node.value)
            return sum(len(names) for path, names in table.items() if path.split(".")[0] == library)
    raise LookupError("tests/test_packaging.py has no PRIVATE")


def longest_mro() -> tuple[int, str]:
    """Return the length of the longest method resolution order of a public estimator, and its name."""
    import dualgap

    public = [getattr(dualgap, name) for name in dualgap.__all__]
    return max((len(cls.__mro__), cls.__name__) for cls in public if inspect.isclass(cls) and hasattr(cls, "fit"))


# ------------------------------------------------------------------------------------------------------------------ the four ways


def crossed(way: Callable[[], object]) -> tuple[int, int]:
    """Return how many files and functions of the package the second call of `way` enters, in all threads."""
    import dualgap

    home = str(Path(dualgap.__file__).parent)
    seen: set[tuple[str, str]] = set()

    def note(frame: Any, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(home):
            seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    way()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        way()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return len({file for file, _ in seen}), len(seen)


@contextlib.contextmanager
def four_ways() -> Iterator[dict[str, Callable[[], object]]]:
    """Make the four ways: two fits in memory, the command line, and a fit on Dask collections if Dask is installed."""
    from sklearn.datasets import load_breast_cancer, make_classification
    from sklearn.preprocessing import scale
    from typer.testing import CliRunner

    import dualgap
    from dualgap.app.cli import app

    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)

    def on_command_line(*words: str) -> None:
        result = CliRunner().invoke(app, list(words))
        if result.exit_code:
            raise RuntimeError(f"dualgap {' '.join(words)}: {result.output}") from result.exception

    ways: dict[str, Callable[[], object]] = {
        "LinearSVC().fit, 569 x 30": lambda: dualgap.LinearSVC().fit(X, y),
        "SVC().fit, 569 x 30": lambda: dualgap.SVC().fit(X, y),
        "dualgap fit customers.csv": lambda: on_command_line("fit", "customers.csv", "--target", "outcome"),
    }
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(stack.enter_context(tempfile.TemporaryDirectory())))
        on_command_line("example")
        with contextlib.suppress(ModuleNotFoundError):
            import dask.array
            from dask.distributed import Client

            stack.enter_context(Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None))
            A, b = (dask.array.from_array(each, chunks=200) for each in make_classification(800, 40, random_state=0))
            home = importlib.import_module("dualgap.dask") if importlib.util.find_spec("dualgap.dask") else dualgap
            ways["fit of Dask collections, 800 x 40"] = lambda: home.LinearSVC(loss="hinge").fit(A, b)
        yield ways


# ------------------------------------------------------------------------------------------------------------------------ printing


def table() -> list[str]:
    """Return the lines of the table by room, with its sum."""
    sizes = rooms()
    total = NOTHING
    for size in sizes.values():
        total = total.plus(size)
    rule = f"{'room':<12}" + "".join(f"{name:>11}" for name in (*Size._fields[:-1], ": Any"))
    return [rule, *(f"{room:<12}" + "".join(f"{k:>11,}" for k in size) for room, size in {**sizes, "total": total}.items())]


def main() -> None:
    """Print the measures."""
    parser = argparse.ArgumentParser(description="Measures of the source tree.")
    parser.add_argument("--quick", action="store_true", help="leave out the four ways, which fit models")
    quick = parser.parse_args().quick
    print(*table(), "", sep="\n")
    print(f"{names_at_doors():>6,}  names at doors")
    print(f"{constants(PACKAGE / 'solvers'):>6,}  numeric constants in solvers, {constants(PACKAGE):,} in all")
    print(f"{private_names():>6,}  private names of numba, {private_names('sklearn'):,} of scikit-learn")
    print("{:>6,}  classes in the method resolution order of {}, the longest of a public estimator".format(*longest_mro()))
    if quick:
        return
    with four_ways() as ways:
        for name, way in ways.items():
            files, functions = crossed(way)
            print(f"{files:>6,}  files and {functions:,} functions: {name}", flush=True)


if __name__ == "__main__":
    main()
