"""The measures of the source tree: `python -m tools.house`."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = '''"""A docstring."""

import math  # a comment

# a comment alone
LIMIT, OTHER = 1.0, -2
NAME = "x"


class Room:
    """Another, which
    takes two lines."""

    size: Any = 3

    def area(self, height: Any) -> float:
        return (
            math.pi
            * height
        )
'''


@pytest.fixture(scope="module")
def house():
    spec = importlib.util.spec_from_file_location("house", ROOT / "tools" / "house.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_module_is_measured(house, tmp_path):
    path = tmp_path / "room.py"
    path.write_text(TEXT, encoding="utf-8")
    assert house.size_of(path) == house.Size(files=1, lines=20, code=10, classes=1, functions=1, untyped=2)
    assert house.constants(tmp_path) == 2


def test_a_call_is_followed_through_the_package(house):
    import dualgap

    files, functions = house.crossed(lambda: dualgap.core.is_whole(3))
    assert (files, functions) == (1, 1)


def test_the_measures_are_printed():
    command = [sys.executable, "-m", "tools.house", "--quick"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    for measure in ("total", "names at doors", "numeric constants", "private names of numba", "method resolution order"):
        assert measure in run.stdout
