# Everything a developer runs. `make demo` and `make test` need python3 (3.11 or newer), git and make, nothing else.
SHELL := /bin/sh
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TOOLS ?= .venv-tools
TOOLS_STAMP := $(TOOLS)/.installed
CODE := $(wildcard src tests scripts examples benchmarks)

# The first Python that is new enough; PYTHON=… names another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# For bench-json and torture; all of them may be given: make bench-json CASES=B1,B2 STORE=postgres CLIENTS=16
CASES ?=
STORE ?=
CLIENTS ?=
SEED ?=
MINUTES ?= 10

.PHONY: help install demo test test-system check format bench bench-json torture cases clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F '\t' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(STAMP) ## make .venv and install the project with what development needs

$(STAMP): pyproject.toml
	@[ -n "$(PYTHON)" ] || { echo "No Python 3.11 or newer found. Install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV) || { \
		echo "$(PYTHON) can't make a virtual environment; on Debian and Ubuntu the package python3-venv brings that." >&2; \
		rm -rf $(VENV); exit 1; }
	@echo "Installing into $(VENV) with $$($(BIN)/python --version) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# Tools whose needs differ from the package's have an environment of their own.
$(TOOLS_STAMP): scripts/tools.txt
	@[ -x $(TOOLS)/bin/python ] || $(PYTHON) -m venv $(TOOLS)
	@echo "Installing into $(TOOLS) …"
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement scripts/tools.txt
	@touch $@

demo: $(STAMP) ## the main job, end to end, on this machine
	@$(BIN)/python examples/demo.py

test: $(STAMP) $(TOOLS_STAMP) ## every test that pip can install the needs of, PostgreSQL included
	@ABEYANCE_TEST_SCHEMATHESIS=$(abspath $(TOOLS))/bin/st $(BIN)/python -m pytest -m "not system and not torture"

test-system: $(STAMP) ## tests that need more (a browser, PgBouncer, Go); names what the machine lacks
	@scripts/system_packages.sh
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement tests/interop/requirements.txt
	@$(BIN)/python -m pytest -m system; code=$$?; \
	if [ $$code -eq 5 ]; then echo "no system tests yet"; else exit $$code; fi

check: $(STAMP) ## the gate: format, lint, types, layers, docs, quick tests
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/mypy $(CODE)
	@$(BIN)/lint-imports
	@$(BIN)/python -m scripts.check_docs
	@ABEYANCE_TEST_PROFILE=quick $(BIN)/python -m pytest -q -m "not slow and not system and not torture" \
		$(wildcard tests/architecture tests/docs tests/unit)

format: $(STAMP) ## rewrite the sources as `make check` wants them
	@$(BIN)/ruff format $(CODE)
	@$(BIN)/ruff check --fix $(CODE)

bench: $(STAMP) ## measure, and print a table
	@$(BIN)/python -m benchmarks $(if $(CASES),--cases=$(CASES)) $(if $(STORE),--store=$(STORE)) $(if $(CLIENTS),--clients=$(CLIENTS))

bench-json: $(STAMP) ## measure, and print one JSON line a case (CASES=B1,B2 STORE=sqlite|postgres CLIENTS=1|16)
	@$(BIN)/python -m benchmarks --json $(if $(CASES),--cases=$(CASES)) $(if $(STORE),--store=$(STORE)) $(if $(CLIENTS),--clients=$(CLIENTS))

torture: $(STAMP) ## property and crash tests, again and again with new seeds (SEED=1 MINUTES=10)
	@$(BIN)/python -m scripts.torture --minutes=$(MINUTES) $(if $(SEED),--seed=$(SEED))

cases: $(STAMP) ## the cases of tests/cases.txt that no test's marker names
	@$(BIN)/python -m scripts.cases

clean: ## remove what make and the tools have made
	rm -rf $(VENV) $(TOOLS) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
