"""Print the oldest releases that pyproject.toml allows, as constraints for pip.

    python tools/lowest.py > oldest.txt
    pip install --constraint oldest.txt --editable ".[test]"

makes an environment in which each direct dependency of the package, and of its extras for users and for the tests, has exactly its
lower bound. Indirect dependencies are as new as the direct ones allow. The tests must pass in it; where they do not, a bound is too
low. Standard library only.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
EXTRAS = ("lab", "parquet", "remote", "pictures", "dask", "onnx", "test")


def lowest(requirement: str) -> str:
    """Return the constraint that holds a requirement to its lower bound."""
    versions, _, marker = requirement.partition(";")
    name = re.match(r"[\w.-]+", versions)[0]
    bound = re.search(r"(?:>=|==|~=)\s*([^\s,]+)", versions)
    if bound is None:
        raise SystemExit(
            f"{name} has no lower bound in {PYPROJECT.name}: write {name}>= and the oldest release that passes the tests"
        )
    return f"{name}=={bound[1]}" + (f" ; {marker.strip()}" if marker else "")


def main() -> None:
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    requirements = [*project["dependencies"], *(line for extra in EXTRAS for line in project["optional-dependencies"][extra])]
    own = project["name"] + "["  # an extra that asks for other extras of ours
    sys.stdout.write("".join(f"{lowest(line)}\n" for line in requirements if not line.startswith(own)))


if __name__ == "__main__":
    main()
