"""What a package index and a fresh machine see: bounds, pinned releases, the version, and names of others that may go away."""

import ast
import importlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import dualgap
from dualgap.estimators.progress import CallbackSupportMixin

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OWN = PROJECT["project"]["name"]
EXTRAS = PROJECT["project"]["optional-dependencies"]
BENCH = {"bench"}  # peers are measured at their newest

# Names that other libraries do not promise to keep: where they are used, and as what. pyproject.toml bounds those libraries for them.
PRIVATE = {
    "numba.core": ["ir"],
    "numba.core.base.BaseContext": ["enable_nrt"],
    "numba.core.codegen": ["JITCodeLibrary"],
    "numba.core.codegen.JITCodeLibrary": [
        "codegen",
        "create_ir_module",
        "_finalize_final_module",
        "_optimize_final_module",
        "_optimize_functions",
    ],
    "numba.core.compiler": ["Compiler", "CompileResult"],
    "numba.core.compiler.CompileResult": ["_reduce", "_rebuild"],
    "sklearn.linear_model._base": ["LinearClassifierMixin", "SparseCoefMixin"],
    "sklearn.utils": ["_safe_indexing"],
    "sklearn.utils._param_validation": ["InvalidParameterError"],
    "sklearn.utils.multiclass": ["_ovr_decision_function"],
}


def find(path):
    """The module or class of a dotted path."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(path)


@pytest.mark.parametrize(("path", "name"), [(path, name) for path, names in PRIVATE.items() for name in names])
def test_private_names_of_others_are_still_there(path, name):
    library = path.split(".")[0].replace("sklearn", "scikit-learn")
    installed = importlib.metadata.version(library)
    try:
        there = hasattr(find(path), name) or importlib.import_module(f"{path}.{name}") is not None
    except (AttributeError, ModuleNotFoundError):
        there = False
    assert there, (
        f"{library} {installed} has no {path}.{name}, which dualgap uses though {library} does not promise to keep it: "
        "find what took its place, or bound the library in pyproject.toml"
    )


def test_private_attributes_of_others_are_still_there():
    """Those that are set on instances, or that only newer releases have."""
    if hasattr(CallbackSupportMixin, "set_callbacks"):  # scikit-learn from 1.9 on
        assert hasattr(CallbackSupportMixin, "_init_callback_context"), "scikit-learn's callbacks begin otherwise: see progress.py"


def test_private_names_of_others_are_listed():
    """An import of a name that begins with an underscore, or of numba's core, is in the table above: its loss is told in a sentence."""
    unlisted = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or node.level or node.module == "__future__":
                continue
            if node.module.split(".")[0] == OWN:
                continue
            for alias in node.names:
                hidden = any(part.startswith("_") for part in f"{node.module}.{alias.name}".split("."))
                hidden |= node.module.startswith("numba.core")
                if hidden and alias.name not in PRIVATE.get(node.module, ()):
                    unlisted.append(f"{path.relative_to(ROOT)}: {node.module}.{alias.name}")
    assert not unlisted, f"add to PRIVATE: {', '.join(unlisted)}"


def test_libraries_that_cannot_do_without_private_names_have_an_upper_bound():
    """scikit-learn; not numba, whose own compiler takes over where ours does not fit."""
    bounded = {
        r.name for r in map(Requirement, PROJECT["project"]["dependencies"]) if any(part.operator == "<" for part in r.specifier)
    }
    assert bounded == {"scikit-learn"}


def test_few_private_names_of_numba_are_used():
    assert sum(len(names) for path, names in PRIVATE.items() if path.startswith("numba")) <= 12


def requirements():
    """Every requirement of ours but the benchmark's, and the build backend's."""
    lines = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    lines += [line for extra, own in EXTRAS.items() if extra not in BENCH for line in own]
    return [Requirement(line) for line in lines if not line.startswith(f"{OWN}[")]


def test_pinned_releases_are_within_the_bounds_and_name_no_place():
    """constraints.txt has every direct dependency, at a release that pyproject.toml allows, and says nothing of where it comes from."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    odd = [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.!+-]+( ; .+)?", line)]
    assert not odd, f"only name==release belongs in constraints.txt: {odd}"
    pinned = {canonicalize_name(line.split("==")[0]): re.split(r"==|\s", line)[1] for line in lines}
    wrong = [
        str(requirement)
        for requirement in requirements()
        if not requirement.specifier.contains(pinned.get(canonicalize_name(requirement.name), "0.dev0"), prereleases=True)
    ]
    assert not wrong, f"constraints.txt does not fit {', '.join(wrong)}: run make pins"


def test_every_dependency_has_a_lower_bound():
    run = subprocess.run([sys.executable, ROOT / "tools" / "lowest.py"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    names = [line.split("==")[0] for line in run.stdout.splitlines()]
    assert {"numpy", "typer", "pytest"} <= set(names)
    assert len(names) == len(set(names))


def test_what_is_imported_is_declared():
    """Libraries that the core imports wherever it is used, inside functions too, are dependencies and not somebody else's."""
    declared = {canonicalize_name(r.name) for r in requirements()} | {"dask", "distributed"}
    names = {"sklearn": "scikit-learn", "cv2": "opencv-python-headless", "llvmlite": "numba", "onnx": "skl2onnx", "PIL": "pillow"}
    missing = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module]
            for module in modules:
                top = module.split(".")[0]
                if top not in sys.stdlib_module_names and top != OWN and canonicalize_name(names.get(top, top)) not in declared:
                    missing[top] = path.relative_to(ROOT)
    assert not missing, f"declare in pyproject.toml: {missing}"


def test_the_version_is_in_one_place_and_types_are_shipped():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", dualgap.__version__)
    assert "version" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8").replace("cff-version", "")
    assert (ROOT / "src" / OWN / "py.typed").exists()
