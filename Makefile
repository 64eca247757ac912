# Every target sets itself up: a Debian machine with python3-venv (Python 3.11 or newer), git and make is enough.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 3

INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint format bench bench-quality audit clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## the whole thing on a simulated cluster; needs no Prometheus
	$(BIN)/anomaly demo

test: $(INSTALLED_DEV) ## all tests (ARGS="-k peers" for some); says loudly what it cannot run here
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

lint: $(INSTALLED_DEV) ## ruff, mypy, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED_DEV) ## let ruff put the code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED_DEV) ## speed on this machine, as ratios (ARGS go to the benchmark)
	$(BIN)/python -m tests.bench $(ARGS)

bench-quality: $(INSTALLED_DEV) ## what the detectors are worth, into docs/quality.md: a night's work (ARGS=--quick: minutes)
	$(BIN)/python -m tests.quality $(ARGS)

audit: $(INSTALLED_DEV) ## known weaknesses in what is installed; needs the network, says loudly where there is none
	@timeout 120 $(BIN)/python -m pip install -qq --no-compile --group audit || echo "pip-audit could not be installed" >&2
	@$(BIN)/python -m tests.security.audit

clean: ## remove the environment, caches and what the demo wrote
	rm -rf $(VENV) var/demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find anomaly tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed, $(PYTHON) is older or absent; name another one: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); echo "no virtual environment; install one first: apt-get install python3-venv" >&2; exit 1; }

# Python compiles what it imports at first use; compiling every file of every package would double the time.
$(INSTALLED): pyproject.toml | $(BIN)/python
	@echo "installing anomaly and what it needs into $(VENV) (once, a minute or two)"
	@$(BIN)/python -m pip install -qq --no-compile --editable .
	@touch $@

# Dependency groups need pip 25.1.
$(INSTALLED_DEV): $(INSTALLED)
	@echo "installing the tools for tests into $(VENV) (once)"
	@$(BIN)/python -m pip install -qq --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install -qq --no-compile --editable . --group dev
	@touch $@
