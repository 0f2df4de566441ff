# Every target makes the virtual environment it needs in .venv, and only when pyproject.toml has changed since.
#   make test PYTHON=python3.12      to choose the interpreter of a new environment

VENV   := .venv
PY     := $(VENV)/bin/python
PYTHON ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test lint bench docs clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-6s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.stamp-lab ## race the solvers on data that comes with the package; the report goes to demo-report/
	@$(PY) -m dualgap compare --out demo-report

test: lint ## lint, then every test and every documented example
	@$(PY) -m pytest -q -n 2

lint: $(VENV)/.stamp-test-lab ## ruff and mypy
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

bench: $(VENV)/.stamp-bench-dask-lab ## time dualgap against its peers on this machine, and on a cluster of local processes
	@$(PY) -m benchmarks --losses hinge,squared_hinge,logistic
	@$(PY) -m benchmarks.kernel
	@$(PY) -m benchmarks.scale cluster
	@$(PY) -m benchmarks.scale faults

docs: $(VENV)/.stamp-docs ## build the documentation in site/
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
	@echo "open site/index.html"

clean: ## remove reports, builds and caches; the environment stays (rm -r .venv for that)
	@rm -rf demo-report site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# .stamp-test-lab says that the extras test and lab are installed as pyproject.toml asks for them now.
$(VENV)/.stamp-%: pyproject.toml | $(PY)
	@extras=$$(echo '$*' | tr - ,); \
	echo "installing dualgap[$$extras] in $(VENV) ..."; \
	if command -v uv >/dev/null 2>&1; then \
	    uv pip install --quiet --python $(PY) --editable ".[$$extras]"; \
	else \
	    $(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip >/dev/null && \
	    $(PY) -m pip install --quiet --quiet --disable-pip-version-check --editable ".[$$extras]"; \
	fi
	@touch $@

# A name on PATH proves nothing (a version manager's shim may refuse to run), so each candidate is asked for its version.
$(PY):
	@found=; \
	for candidate in $(or $(PYTHON),python3.13 python3.12 python3.11 python3 python); do \
	    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	        found=$$candidate; break; \
	    fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "dualgap needs Python 3.11 or newer. Tried: $(or $(PYTHON),python3.13 python3.12 python3.11 python3 python); none of them runs and is new enough." >&2; \
	    echo "Install one, or name one: make $(or $(MAKECMDGOALS),test) PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	fi; \
	if command -v uv >/dev/null 2>&1; then \
	    uv venv --quiet --clear --python "$$(command -v $$found)" $(VENV); \
	elif "$$found" -c 'import venv, ensurepip' >/dev/null 2>&1; then \
	    "$$found" -m venv --clear $(VENV); \
	else \
	    echo "$$found has no venv module with pip: install it (often a package named python3-venv) or install uv." >&2; \
	    exit 1; \
	fi
