"""The documentation's code is run, and its table of solvers is the present one.

To renew the table: DUALGAP_UPDATE_DOCS=1 python -m pytest tests/solvers/test_docs.py
"""

import dataclasses
import importlib
import os
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

import dualgap
from dualgap.solvers.table import SolverTable

DOCS = Path(__file__).resolve().parents[2] / "docs"


def code_of(page):
    """The one Python block of a page that is not an inclusion."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    (block,) = [block for block in blocks if "--8<--" not in block]
    return block


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Import a page's code from a file of its own, as a reader would have it; what it registers is forgotten afterwards."""
    before = dict(dualgap.solvers.REGISTRY)

    def load(page, name):
        (tmp_path / f"{name}.py").write_text(code_of(page), encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield load
    dualgap.solvers.REGISTRY.clear()
    dualgap.solvers.REGISTRY.update(before)


def test_the_example_solver_runs_and_is_listed(small, imported):
    imported("add-a-solver.md", "my_solver")
    record = dualgap.solvers()["double_sweep"]
    assert (record.penalties, record.intercepts, record.kernels) == (("l2",), ("none",), True)
    X, y = small
    for options in ({}, {"loss": "logistic"}, {"kernel": "rbf"}):
        problem = dualgap.Problem(X, y, l2=0.05, **options)
        result = dualgap.solve(problem, "double_sweep", tol=1e-6, max_epochs=500)
        assert result.status == "converged"
        assert result.certificate.primal == pytest.approx(dualgap.solve(problem, "sdca", tol=1e-6).certificate.primal, rel=2e-6)
    with pytest.raises(dualgap.NotSupported, match="without an intercept only; these can: "):
        dualgap.solve(dualgap.Problem(X, y, intercept="free"), "double_sweep")


def test_the_page_on_solvers_is_short():
    assert len((DOCS / "add-a-solver.md").read_text(encoding="utf-8").splitlines()) <= 60


def test_the_example_loss_is_right_and_trains(small, imported):
    loss = imported("add-a-loss.md", "my_loss").ModifiedHuber()
    X, y = small
    margins, betas = np.linspace(-3, 3, 61), np.linspace(0, 4, 41)
    young = np.array([[loss.value(m) - loss.psi(b) + b * m for b in betas] for m in margins])
    assert young.min() > -1e-12
    for m in margins:
        b = loss.slope(m)
        assert loss.value(m) - loss.psi(b) + b * m == pytest.approx(0, abs=1e-12)
        step = loss.dual_step(1.0, m, 0.7)
        gains = loss.psi(betas) - m * (betas - 1.0) - 0.35 * (betas - 1.0) ** 2
        assert loss.psi(step) - m * (step - 1.0) - 0.35 * (step - 1.0) ** 2 >= gains.max() - 1e-12

    problem = dualgap.Problem(X, y, loss=loss, l2=0.01)

    def objective(w):
        m = y * (X @ w)
        return np.mean(np.where(m < -1, -4 * m, np.maximum(0, 1 - m) ** 2)) + 0.005 * w @ w

    best = minimize(objective, np.zeros(5), method="BFGS", options={"gtol": 1e-9}).fun
    for solver in ("sdca", "apg", "dca", "newton"):
        result = dualgap.solve(problem, solver, tol=1e-6, max_epochs=2000)
        assert result.status == "converged"
        assert result.certificate.primal == pytest.approx(best, rel=2e-6)


def test_the_example_of_a_real_loss_is_included_by_name():
    (inclusion,) = re.findall(r'--8<-- "([^"]+)"', (DOCS / "add-a-loss.md").read_text(encoding="utf-8"))
    path, section = inclusion.split(":")
    source = (DOCS.parent / path).read_text(encoding="utf-8")
    assert source.index(f"[start:{section}]") < source.index("class SmoothHinge") < source.index(f"[end:{section}]")


def test_code_in_contributing_is_the_code_itself():
    """Each block names its file in its first line; what follows stands there word for word."""
    text = (DOCS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^    ```python\n(.*?)^    ```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 4
    for block in blocks:
        first, _, code = re.sub(r"^    ", "", block, flags=re.MULTILINE).partition("\n")
        assert code in (DOCS.parent / first.removeprefix("# ")).read_text(encoding="utf-8"), code


def test_every_public_name_is_on_the_page_of_the_api():
    listed = re.findall(r"^::: dualgap\.(\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    lacking = set(dualgap.__all__) - set(listed) - {"solvers"}  # that one has a page of its own
    assert not lacking, f"docs/api.md lacks '::: dualgap.NAME' for {sorted(lacking)}"
    assert not set(listed) - set(dualgap.__all__)


def test_the_table_of_solvers_is_current():
    own = [r for r in dualgap.solvers() if dualgap.solvers.REGISTRY[r.name].__module__.startswith("dualgap.")]
    table = SolverTable(own).to_markdown()
    page = DOCS / "solvers.md"
    text = page.read_text(encoding="utf-8")
    start, end = "<!-- table: start -->\n\n", "\n\n<!-- table: end -->"
    renewed = text[: text.index(start) + len(start)] + table + text[text.index(end) :]
    if os.environ.get("DUALGAP_UPDATE_DOCS"):
        page.write_text(renewed, encoding="utf-8")
    else:
        assert text == renewed, "docs/solvers.md is behind: run DUALGAP_UPDATE_DOCS=1 python -m pytest tests/solvers/test_docs.py"


def test_every_solver_and_parameter_has_a_word_in_the_page():
    text = (DOCS / "solvers.md").read_text(encoding="utf-8")
    for name, cls in dualgap.solvers.REGISTRY.items():
        if not cls.__module__.startswith("dualgap."):
            continue
        heading = re.search(rf"^## .*`{name}`$", text, re.MULTILINE)
        assert heading, f"docs/solvers.md has no section on {name}: add one headed '## What it is: `{name}`'"
        section = text[heading.end() :].split("\n## ")[0]
        for field in dataclasses.fields(cls):
            assert f"`{field.name}" in section, f"{name}: no word on {field.name}"
