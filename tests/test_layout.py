"""The shape of the package: rooms in one order, doors, a light `import dualgap`, examples on public names.

What the modules compute is tested by the files in the folder of the same name.
"""

import ast
import graphlib
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"
PACKAGE = SRC / "dualgap"

# A room is a folder with a door: the `__all__` of its `__init__`. A room may import the doors of the rooms before it, and nothing else.
# The rooms inside `solvers` also know the modules of `solvers` itself that do not know them (`base` and the like).
ROOMS = [
    "core",
    "kernels",
    "problem",
    "proof",
    "solvers.coordinate",
    "solvers.gradient",
    "solvers.newton",
    "solvers.working_set",
    "solvers",
    "run",
    "answers",
    "data",
    "store",
    "cluster",
    "estimators",
    "lab",
    "app",
]
HEAVY = ["pandas", "polars", "pyarrow", "matplotlib", "typer", "rich", "dask", "cv2"]
TOP = {"dualgap", "dualgap.__main__", "dualgap.dask"}


def module_files():
    """Every module of the package by its dotted name."""
    files = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def room_of(module):
    """The room that `module` is in: dualgap.solvers.newton.steps -> solvers.newton; None for the modules at the top."""
    inside = module.removeprefix("dualgap").lstrip(".")
    return max((room for room in ROOMS if inside == room or inside.startswith(room + ".")), key=len, default=None)


def imports_of(module, files):
    """(imported dualgap module, name or None, line) for each import in `module`, those inside functions too."""
    path = files[module]
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            found += [(alias.name, None, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}:{node.lineno}: write imports out in full"
            found += [(node.module, alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module":
            found += [(arg.value, None, node.lineno) for arg in node.args if isinstance(arg, ast.Constant)]
    return [item for item in found if item[0].split(".")[0] == "dualgap"]


def wrong_import(here, imported, name, files):
    """Why `here` may not import `name` from `imported`, or None if it may."""
    mine, theirs = room_of(here), room_of(imported)
    if here in TOP or mine == theirs:
        return None
    if theirs is None and imported == "dualgap.dask":  # the door for users of a cluster
        return None if mine == "app" else "the estimators of a cluster"
    if theirs is None:
        return "the package itself" if name != "__version__" else None
    if mine.startswith(theirs + "."):  # a room inside `solvers` and a module beside it
        return f"the door of {theirs}, which opens after it" if imported == f"dualgap.{theirs}" else None
    if ROOMS.index(theirs) >= ROOMS.index(mine):
        return f"{theirs}, which comes after {mine}"
    if imported != f"dualgap.{theirs}":
        return f"the inside of {theirs}"
    if name not in importlib.import_module(imported).__all__:
        return f"what the door of {theirs} does not list"
    return None


def test_every_module_is_in_a_room():
    homeless = [module for module in module_files() if room_of(module) is None and module not in TOP]
    assert not homeless, f"no room for {', '.join(homeless)}: move each into a folder that ROOMS lists"
    missing = [room for room in ROOMS if not PACKAGE.joinpath(*room.split("."), "__init__.py").is_file()]
    assert not missing, f"ROOMS lists {', '.join(missing)}, where there is no folder with a door"


def test_rooms_are_entered_by_their_doors():
    files = module_files()
    wrong = []
    for here in files:
        for imported, name, line in imports_of(here, files):
            reason = wrong_import(here, imported, name, files)
            if reason:
                wrong.append(f"{here}:{line} imports {name or imported} from {imported}: {reason}")
    assert not wrong, "\n".join(["imports that the order of the rooms or their doors do not allow:", *wrong])


@pytest.mark.parametrize("room", ROOMS)
def test_a_door_says_what_belongs_behind_it(room):
    door = importlib.import_module(f"dualgap.{room}")
    lines = [line for line in (door.__doc__ or "").split("Examples")[0].splitlines() if line.strip()]
    assert 1 <= len(lines) <= 4, "the docstring of a door says in about three lines what belongs in the room and what does not"
    assert sorted(set(door.__all__)) == sorted(door.__all__)
    assert all(hasattr(door, name) for name in door.__all__)


def test_no_import_cycle():
    """Also inside a room."""
    files = module_files()
    graph = {}
    for here in files:
        named = {f"{imported}.{name}" for imported, name, _ in imports_of(here, files) if f"{imported}.{name}" in files}
        modules = {imported for imported, name, _ in imports_of(here, files) if f"{imported}.{name}" not in files}
        graph[here] = {module for module in named | modules if module in files and module != here}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail("modules import each other in a circle: " + " -> ".join(reversed(error.args[1])))


def test_the_map_is_the_tree():
    """CONTRIBUTING lists every room in its order, and every module in its room."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = text[text.index("src/dualgap/\n") :].split("\n\n")[0].split("    tests/")[0]
    room, listed = None, {}
    for line in block.splitlines()[1:]:
        head = re.match(r" {6}(  )?([a-z_]+)/ ", line)
        if head:
            room = f"solvers.{head[2]}" if head[1] else head[2]
        elif room:
            listed.setdefault(room, []).extend(line.split())
    inside = {room: [] for room in ROOMS}
    for module, path in module_files().items():
        room = room_of(module)
        if room and path.name != "__init__.py":
            inside[room].append(module.removeprefix(f"dualgap.{room}."))
    assert {room: sorted(names) for room, names in listed.items()} == {room: sorted(names) for room, names in inside.items()}


def run_python(code):
    path = os.pathsep.join(filter(None, [str(SRC), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_import_is_light():
    loaded = run_python("import sys; known = {*sys.modules}; import dualgap; print(*({*sys.modules} - known))")
    rooms = [name for name in loaded if name.startswith("dualgap.")]
    assert not rooms, f"`import dualgap` enters {', '.join(rooms)}: a room is entered when one of its names is asked for"
    heavy = run_python(f"import sys; from dualgap import solve; print(*[name for name in {HEAVY!r} if name in sys.modules])")
    assert not heavy, f"`from dualgap import solve` imports {', '.join(heavy)}: import it in the function that needs it"


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["fti"], ["fit", "--help"], ["fit", "--nothing", "a.csv"]])
def test_what_needs_no_data_is_answered_at_once(words):
    """The command line imports typer and nothing that computes until a command runs: each of these took 1.7 seconds."""
    code = f"""
import sys
from dualgap.app.cli import main
main({words!r})
print("", *sys.modules, sep="\\n:")
"""
    loaded = {word[1:] for word in run_python(code) if word.startswith(":")}
    assert "dualgap.app.cli" in loaded
    heavy = loaded & {*HEAVY, "numpy", "scipy", "numba", "sklearn", "dualgap.core", "dualgap.data"} - {"typer", "rich"}
    assert not heavy, f"`dualgap {' '.join(words)}` imports {', '.join(sorted(heavy))}: import it in the body of the command"


def test_estimators_leave_the_store_and_the_cluster_alone():
    code = "import sys; from dualgap import LinearSVC; print(*[name for name in sys.modules if name.startswith('dualgap.')])"
    loaded = run_python(code)
    unasked = [name for name in loaded if name.split(".")[1] in {"data", "store", "cluster", "lab", "app"}]
    assert not unasked, f"`from dualgap import LinearSVC` also imports {', '.join(unasked)}"


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
