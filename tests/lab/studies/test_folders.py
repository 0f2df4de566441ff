"""A study is a folder, and nothing outside of it knows its name."""

import re
from pathlib import Path

import dualgap
from dualgap.lab import study_names

PACKAGE = Path(dualgap.__file__).parent


def test_no_module_names_a_study():
    """Neither the folder, nor the name in quotes or on a command line; "convergence" is a word of the field, too."""
    assert len(study_names()) == 5
    words = "|".join(name for study in study_names() for name in {study, study.replace("-", "_")})
    named = re.compile(rf"studies[./\\]({words})|[\"'`]({words})[\"'`]|reproduce ({words})")
    allowed = {"convergence"}  # a kind of figure
    found = []
    for path in sorted(PACKAGE.rglob("*")):
        folder = path.relative_to(PACKAGE).parts[:3]
        if path.suffix not in (".py", ".j2", ".js") or (
            folder[:2] == ("lab", "studies") and len(folder) == 3 and folder[2] != path.name
        ):
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            found += [f"{path.name}: {line.strip()}" for match in named.finditer(line) if not allowed & set(match.groups())]
    assert not found, "\n".join(found)


def test_each_folder_is_whole():
    for name in study_names():
        folder = PACKAGE / "lab" / "studies" / name.replace("-", "_")
        assert {"__init__.py", "study.toml", "statements.toml", "formulas.json"} <= {path.name for path in folder.iterdir()}
