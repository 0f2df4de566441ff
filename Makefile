# Every target makes the virtual environment it needs in .venv, and only when pyproject.toml or constraints.txt has changed since.
#   make test PYTHON=python3.12     to choose the interpreter of a new environment
#   make test WHEELS=folder         to install from a folder of wheels that `make wheels` filled, without a network
#   make test WARNINGS=error        to fail on warnings of other libraries too
#   make fuzz SECONDS=3600          for a longer campaign against false proofs; EXAMPLES=2000 for that many random examples a test

VENV        := .venv
PYTHON      ?=
PYTHONS     := $(if $(PYTHON),"$(PYTHON)",python3.13 python3.12 python3.11 python3.14 python3 python)
CONSTRAINTS ?= constraints.txt
WHEELS      ?=
WARNINGS    ?=
MATRIX      ?=
EXAMPLES    ?= 200
SECONDS     ?= 300

ifeq ($(OS),Windows_NT)
PY := $(VENV)/Scripts/python.exe
else
PY := $(VENV)/bin/python
endif

# Which releases may be installed: those of constraints.txt, from the package index or from a folder of wheels.
WHICH = $(if $(CONSTRAINTS),--constraint "$(CONSTRAINTS)") $(if $(WHEELS),--no-index --find-links "$(WHEELS)")
# setuptools 70.1 is the first that builds wheels by itself, as a peer of the benchmark needs it.
BUILD = 'hatchling>=1.27' editables 'setuptools>=70.1'

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo studies test fuzz test-matrix lint bench docs wheels pins dist release clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.stamp-lab ## race the solvers on data that comes with the package; the report goes to demo-report/
	@$(PY) -m dualgap compare --out demo-report

studies: $(VENV)/.stamp-lab-pictures ## run the five studies until their statements are decided, and write docs/studies/; results stay in studies/
	@$(PY) -m dualgap reproduce all --out studies
	@$(PY) tools/studies.py studies

test: lint ## lint, then every test and every documented example
	@$(PY) -m pytest -q -n 2 $(if $(WARNINGS),-W $(WARNINGS))

fuzz: $(VENV)/.stamp-lint-test ## new random problems: SECONDS=300 of a campaign against false proofs, then EXAMPLES=200 a test of hypothesis
	@PYTHONPATH=tests $(PY) -m campaign --seconds $(SECONDS)
	@DUALGAP_EXAMPLES=$(EXAMPLES) $(PY) -m pytest -q -n 2 -m hypothesis

test-matrix: $(PY) ## the tests as on other processors, Pythons and releases of the dependencies; MATRIX="--list" lists them
	@$(PY) tools/matrix.py $(MATRIX)

lint: $(VENV)/.stamp-lint-test ## ruff and mypy
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

bench: $(VENV)/.stamp-bench-dask-lab-pictures ## all parts of the benchmark: peers, threads, first fits, kernels, a cluster of local processes; ends with a table of goals
	@$(PY) -m benchmarks.robustness --afresh
	@$(PY) -m benchmarks --quick
	@$(PY) -m benchmarks.threads
	@$(PY) -m benchmarks.intercept
	@$(PY) -m benchmarks.small
	@$(PY) -m benchmarks.first_fit
	@$(PY) -m benchmarks.kernel_variants
	@$(PY) -m benchmarks.kernel
	@$(PY) -m benchmarks.scale cluster
	@$(PY) -m benchmarks.rounds
	@$(PY) -m benchmarks.faults
	@$(PY) -m benchmarks.goals

docs: $(VENV)/.stamp-docs ## build the documentation in site/
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
	@echo "open site/index.html"

wheels: $(PY) ## download what demo and test install to wheels/, for a machine without a network
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip >/dev/null
	@$(PY) -m pip download --quiet --disable-pip-version-check --constraint constraints.txt --dest wheels $(BUILD)
	@$(PY) -m pip download --quiet --disable-pip-version-check --constraint constraints.txt --dest wheels ".[lint,test]"
	@echo "on the other machine: make test WHEELS=wheels"

pins: ## write constraints.txt anew, with the newest releases that pyproject.toml allows (needs uv)
	@printf '%s\n' $(BUILD) | uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --no-annotate \
	    --custom-compile-command "make pins" --upgrade --output-file constraints.txt \
	    --extra lab --extra dask --extra parquet --extra pictures --extra onnx --extra docs --extra test --extra lint --extra release pyproject.toml -

dist: $(VENV)/.stamp-release ## build and check dist/*.tar.gz and dist/*.whl, one of them with compiled kernels; PURE=1: without that one
	@$(PY) tools/release.py --keep-news $(if $(PURE),--pure)

release: $(VENV)/.stamp-release ## the same, with changes/ folded into CHANGELOG.md
	@$(PY) tools/release.py

clean: ## remove reports, builds and caches; the environment stays (rm -r .venv for that)
	@rm -rf demo-report site build dist .matrix .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# .stamp-test-lab says that the extras test and lab are installed as pyproject.toml and the constraints ask for now. The build backend is
# installed first and without isolation, so that its release is pinned too. With a home that cannot be written to there is no cache.
# Without a network uv installs from its cache; pip does not.
$(VENV)/.stamp-%: pyproject.toml $(CONSTRAINTS) | $(PY)
	@extras=$$(echo '$*' | tr - ,); \
	echo "installing dualgap[$$extras] in $(VENV) ..."; \
	[ -w "$${HOME:-/nonexistent}" ] || { [ "$$UV_CACHE_DIR$$XDG_CACHE_HOME" ] || export UV_NO_CACHE=1; [ "$$PIP_CACHE_DIR$$XDG_CACHE_HOME" ] || export PIP_NO_CACHE_DIR=1; }; \
	if command -v uv >/dev/null 2>&1; then \
	    install() { \
	        said=$$(uv pip install --quiet --python $(PY) $(WHICH) "$$@" 2>&1) || \
	        uv pip install --offline --quiet --python $(PY) $(WHICH) "$$@" 2>/dev/null || { echo "$$said" >&2; return 1; }; \
	    }; \
	else \
	    $(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip >/dev/null || exit 1; \
	    install() { $(PY) -m pip install --quiet --quiet --retries 2 --disable-pip-version-check $(WHICH) "$$@"; }; \
	fi; \
	install $(BUILD) && install --no-build-isolation --editable ".[$$extras]" || { \
	    echo "Could not install dualgap[$$extras] and what it needs ($(or $(CONSTRAINTS),the newest releases)). Without a network:" >&2; \
	    echo "run 'make wheels' on a machine of this kind that has one, copy its folder wheels here, then: make $(or $(MAKECMDGOALS),test) WHEELS=wheels" >&2; \
	    exit 1; \
	}
	@touch $@

# A command on PATH may be a version manager's shim that refuses to run, so each candidate is asked for its version.
$(PY):
	@found=; \
	for candidate in $(PYTHONS); do \
	    if "$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1; then \
	        found=$$candidate; break; \
	    fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo 'dualgap needs Python 3.11 to 3.14. Tried: $(PYTHONS); none of them runs and is one of these.' >&2; \
	    echo "Install one, or name one: make $(or $(MAKECMDGOALS),test) PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	fi; \
	if command -v uv >/dev/null 2>&1; then \
	    [ -w "$${HOME:-/nonexistent}" ] || [ "$$UV_CACHE_DIR$$XDG_CACHE_HOME" ] || export UV_NO_CACHE=1; \
	    uv venv --quiet --clear --python "$$(command -v "$$found")" $(VENV); \
	elif "$$found" -c 'import venv, ensurepip' >/dev/null 2>&1; then \
	    "$$found" -m venv --clear $(VENV); \
	else \
	    echo "$$found has no venv module with pip: install it (often a package named python3-venv) or install uv." >&2; \
	    exit 1; \
	fi
