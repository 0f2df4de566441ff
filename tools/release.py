"""Build the wheels and the sdist, check them, and fold the news fragments of changes/ into CHANGELOG.md.

    python tools/release.py                called by `make release`, in an environment with the extra `release`
    python tools/release.py --keep-news    called by `make dist`: build and check, and leave the news as they are
    python tools/release.py --pure         without the second wheel, which brings compiled kernels along

The second wheel is for this Python on x86-64 Linux, with any NumPy of the same major release and any numba of the same minor one.
The version is the one in src/dualgap/__init__.py. Nothing is uploaded, committed or tagged.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
# What an installed package, and `make test` in an unpacked sdist, cannot do without.
WHEEL = ("dualgap/__init__.py", "dualgap/py.typed")
# PORTABLE in src/dualgap/core/jit.py, and what this machine must have to compile for it: warm_up runs what it compiles
LEVELS = {"x86-64-v2": "sse4_2", "x86-64-v3": "avx2", "x86-64-v4": "avx512vl"}
SDIST = ("Makefile", "constraints.txt", "pyproject.toml", "README.md", "tests/conftest.py", "tools/lowest.py", "docs/index.md")


def main() -> None:
    version = read_version()
    fold = "--keep-news" not in sys.argv[1:]
    if fold and not any((ROOT / "changes").glob("*.*.md")):
        raise SystemExit("changes/ has no news to fold into CHANGELOG.md: make dist builds and checks without them")
    wheel, sdist = build_and_check(version)
    if fold:  # after the checks, so that a fault leaves the news as they are; the sdist is built again to have them
        _run("towncrier", "build", "--yes", "--version", version)
        build_and_check(version)
    if "--pure" not in sys.argv[1:]:
        print(with_kernels(wheel))
    print(
        f"built and checked {wheel.relative_to(ROOT)} and {sdist.relative_to(ROOT)}"
        + fold * f"; CHANGELOG.md has the news of {version}"
    )


def build_and_check(version: str) -> tuple[Path, Path]:
    """Return the paths of the wheel and the sdist, both with all that belongs in them."""
    shutil.rmtree(DIST, ignore_errors=True)
    _run("build", "--no-isolation", "--outdir", str(DIST))
    wheel, sdist = DIST / f"dualgap-{version}-py3-none-any.whl", DIST / f"dualgap-{version}.tar.gz"
    _run("twine", "check", "--strict", str(wheel), str(sdist))
    with zipfile.ZipFile(wheel) as archive:
        _require(wheel, WHEEL, set(archive.namelist()))
        _require(wheel, _tracked("src/dualgap"), {f"src/{name}" for name in archive.namelist()})
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        _require(sdist, (*SDIST, *_tracked("src", "tests", "docs", "benchmarks", "tools")), names)
    return wheel, sdist


def with_kernels(wheel: Path) -> str:
    """Make a copy of a wheel that has the kernels of common fits, for each level of x86-64 that this machine has; say what was built."""
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return (
            f"built no wheel with compiled kernels: they are for x86-64 Linux, and this is {sys.platform} on {platform.machine()}"
        )
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    levels = [level for level, needed in LEVELS.items() if needed in flags]
    with tempfile.TemporaryDirectory() as made:
        package = Path(made, "package")  # unpacked: of code without a file of its own no kernel is kept
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(package)
        for level in levels:
            env = {
                **os.environ,
                "NUMBA_CPU_NAME": level,
                "NUMBA_CPU_FEATURES": "",
                "DUALGAP_CACHE_DIR": made,
                "PYTHONPATH": str(package),
            }
            subprocess.run([sys.executable, "-c", "import dualgap; dualgap.warm_up()"], env=env, cwd=made, check=True)
        kernels = {f"dualgap/compiled/{path.name}": path.read_bytes() for path in sorted(Path(made, "kernels").glob("*.nbc"))}
    if not kernels:
        raise SystemExit("no kernel was kept: warm_up has left nothing in its cache folder")
    target = wheel.with_name(wheel.name.replace("py3-none-any", f"{tag}-{tag}-manylinux_2_17_x86_64"))
    with zipfile.ZipFile(wheel) as archive:
        content = {name: archive.read(name) for name in archive.namelist()} | kernels
    info = next(name.partition("/")[0] for name in content if name.endswith(".dist-info/WHEEL"))
    told = content[f"{info}/WHEEL"].decode().replace("Tag: py3-none-any", f"Tag: {tag}-{tag}-manylinux_2_17_x86_64")
    content[f"{info}/WHEEL"] = told.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false").encode()
    del content[f"{info}/RECORD"]
    lines = [f"{name},sha256={_hash(data)},{len(data)}" for name, data in content.items()]
    content[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return f"built {target.relative_to(ROOT)} with {len(kernels)} compiled kernels for {', '.join(levels)}"


def _hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def read_version() -> str:
    """Return the version, read without importing the package."""
    for statement in ast.parse((ROOT / "src/dualgap/__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__version__":
            return str(ast.literal_eval(statement.value))
    raise SystemExit("src/dualgap/__init__.py has no line __version__ = …")


def _run(module: str, *arguments: str) -> None:
    if subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, check=False).returncode != 0:
        raise SystemExit(f"{module} {' '.join(arguments)} failed; nothing is ready for release")


def _tracked(*folders: str) -> list[str]:
    """Return the files of these folders that git tracks; none in a tree without git."""
    if shutil.which("git") is None:
        return []
    answer = subprocess.run(["git", "ls-files", "-z", *folders], cwd=ROOT, capture_output=True, text=True, check=False)
    return [name for name in answer.stdout.split("\0") if name]


def _require(archive: Path, wanted: list[str] | tuple[str, ...], names: set[str]) -> None:
    missing = sorted(set(wanted) - names)
    if missing:
        raise SystemExit(f"{archive.name} lacks {', '.join(missing)}: see tool.hatch.build in pyproject.toml")


if __name__ == "__main__":
    main()
