"""What the two checkers say of proofs: the package's, and one in JavaScript that was written from the format's page alone."""

import shutil
import subprocess
from pathlib import Path

import pytest

from dualgap.proof import verify

NODE = shutil.which("node")
SECOND = Path(__file__).parent / "proof" / "second_checker.mjs"


def second_opinion(folder, pairs):
    """What the checker in JavaScript says of each (proof, data)."""
    if NODE is None:
        pytest.skip("node is not installed; the second checker is written in JavaScript")
    names = []
    for k, (proof, data) in enumerate(pairs):
        for name, content in ((f"{k}.proof", proof), (f"{k}.data", data)):
            (folder / name).write_bytes(content)
            names.append(name)
    run = subprocess.run([NODE, SECOND, *names], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode in (0, 1), run.stderr
    return [line.split(":")[0] for line in run.stdout.splitlines()]


def first_opinion(pairs):
    said = []
    for proof, data in pairs:
        try:
            verify.verify(proof, data)
            said.append("verified")
        except verify.Refused:
            said.append("refused")
    return said
