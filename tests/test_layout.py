"""The shape of the package: one-way imports, a light `import dualgap`, short modules, examples on public names.

What the modules compute is tested by the files named after them.
"""

import ast
import graphlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src"
PACKAGE = SRC / "dualgap"
MAX_LINES = 400

# From the bottom up. A unit (a module or a folder directly under src/dualgap) may import the units of the layers below
# its own, and itself; units that share a layer do not know each other. "__init__" is `import dualgap`, the public face.
LAYERS = [
    {"jit", "workers"},
    {"rows", "gaussian"},
    {"inputs", "linalg", "passes"},
    {"losses", "penalties", "kernels", "blocks", "scaling"},
    {"panels"},
    {"expansion"},
    {"problem"},
    {"ascent", "semidefinite"},
    {"certificate"},
    {"solvers"},
    {"trace"},
    {"result"},
    {"evaluation"},
    {"solve"},
    {"audit", "approximate"},
    {"data"},
    {"store"},
    {"distributed"},
    {"estimators"},
    {"lab"},
    {"__init__"},
    {"demo"},
    {"cli_fit"},
    {"cli"},
    {"__main__"},
]
LEVEL = {unit: level for level, layer in enumerate(LAYERS) for unit in layer}

HEAVY = ["pandas", "polars", "pyarrow", "matplotlib", "plotly", "typer", "rich", "dask", "cv2"]


def module_files():
    """Every module of the package by its dotted name."""
    files = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def unit_of(module):
    """The part of `module` that has a place in LAYERS: dualgap.solvers.sdca -> solvers, dualgap -> __init__."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports_of(module, files):
    """(imported dualgap module, line) for each import statement in `module`, wherever it stands."""
    path = files[module]
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            source = ".".join(filter(None, [base, node.module]))
            for alias in node.names:  # what is imported from a folder may be a module of it
                inner = f"{source}.{alias.name}"
                found.append((inner if inner in files else source, node.lineno))
    return [(name, line) for name, line in dict.fromkeys(found) if name.split(".")[0] == "dualgap"]


def import_graph():
    files = module_files()
    return {module: imports_of(module, files) for module in files}


def test_every_module_has_a_place():
    unplaced = sorted({unit_of(module) for module in module_files()} - LEVEL.keys())
    assert not unplaced, (
        f"no layer for {', '.join(unplaced)}: add each to LAYERS in tests/test_layout.py, above all that it "
        "imports and below all that imports it"
    )


def test_imports_point_one_way():
    wrong = []
    for module, imports in import_graph().items():
        here = unit_of(module)
        for imported, line in imports:
            there = unit_of(imported)
            if here == there or here not in LEVEL:
                continue
            if there not in LEVEL:
                wrong.append(f"{module}:{line} imports {imported}, which has no layer: add it to LAYERS in this file")
            elif LEVEL[there] >= LEVEL[here]:
                wrong.append(f"{module}:{line} imports {imported}, but {there} is not below {here} in LAYERS")
    assert not wrong, "\n".join(["imports against the grain:", *wrong])


def test_no_import_cycle():
    """Also inside a folder, where LAYERS has no say."""
    graph = {module: {name for name, _ in imports if name != module} for module, imports in import_graph().items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail("modules import each other in a circle: " + " -> ".join(reversed(error.args[1])))


def test_import_is_light():
    code = f"import sys, dualgap; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    path = os.pathsep.join(filter(None, [str(SRC), os.environ.get("PYTHONPATH")]))
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    heavy = run.stdout.split()
    assert not heavy, f"`import dualgap` also imports {', '.join(heavy)}: import it in the function that needs it"


def test_modules_are_short():
    lengths = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in module_files().items()}
    long = [f"{module} has {lines} lines" for module, lines in lengths.items() if lines > MAX_LINES]
    assert not long, f"over {MAX_LINES} lines, so find the two modules inside: " + "; ".join(long)


def test_public_names_have_examples():
    import dualgap

    lacking = []
    for name in dualgap.__all__:
        value = getattr(dualgap, name)
        if not (inspect.isclass(value) or callable(value)):
            continue  # constants such as __version__ have no docstring of their own
        if ">>>" not in (value.__doc__ or ""):
            lacking.append(name)
    assert not lacking, f"no docstring with a >>> example: {', '.join(lacking)}"
