# Every target does its own set-up: `make run` and `make test` work in a fresh clone, once there is a Python.
#
#   make run     the catalogue against the mock server, in virtual time (ARGS='...' goes to `conformance run`)
#   make test    lint, types and tests (ARGS='...' goes to pytest)
#   make lint    ruff and mypy alone
#   make format  let ruff rewrite what it can
#   make docs    rewrite the documents that follow from scenarios and faults
#   make wheel   build the wheel into dist/
#   make clean   remove everything that these targets made
#
# PYTHON=... names the interpreter to use. pip's own variables work as ever: an install without a network is
# `make test PIP_NO_INDEX=1 PIP_FIND_LINKS=/path/to/wheels`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Somebody's active environment must not leak into ours.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV CONDA_PREFIX
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1
export PIP_NO_INPUT ?= 1
ifdef PIP_NO_INDEX
export PIP_NO_INDEX
endif
ifdef PIP_FIND_LINKS
export PIP_FIND_LINKS
endif

PYTHON ?=
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PACKAGES := client mockserver scenarios conformance

# Sets the shell's `python` to an interpreter, or says what is missing. A shim that is on the path but runs nothing is
# passed over, and so is a Python without venv and pip (Debian and Ubuntu package those apart).
define FIND_PYTHON
python=""; \
for candidate in $(or $(PYTHON),python3.11 python3.12 python3.13 python3); do \
  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
    python="$$candidate"; break; \
  fi; \
done; \
if [ -z "$$python" ]; then \
  echo "No Python 3.11 or newer with the venv module $(if $(PYTHON),at PYTHON=$(PYTHON),on the path)." >&2; \
  echo "Install one (Debian, Ubuntu: apt-get install python3.11 python3.11-venv), or make PYTHON=..." >&2; \
  exit 1; \
fi
endef

.PHONY: help run test lint types format docs wheel clean find-python setup

help:
	@sed -n '/^# *make/s/^# *//p' Makefile

run: $(STAMP)
	@$(BIN)/conformance run $(ARGS)
	@command -v conformance >/dev/null || echo "next: source $(BIN)/activate, or call $(BIN)/conformance"

# Three workers: some tests wait on the real clock, so two of them leave two cores idle for a third of the time.
test: lint
	$(BIN)/python -m pytest -n 3 --dist worksteal $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict $(addprefix -p ,$(PACKAGES))

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)
	$(BIN)/conformance faults --markdown > docs/faults.md
	$(BIN)/python -m conformance.catalogue_document

wheel: $(STAMP)
	$(BIN)/python -m build --wheel --no-isolation --outdir dist

setup: $(STAMP)

# Prints the interpreter that the other targets would use.
find-python:
	@$(FIND_PYTHON); echo "$$python"

# The stamp is made last, so an install that broke off starts again, and one with a changed list of packages goes on
# from what is there. Without isolation the build backend is installed here, under the same pins as everything else.
$(STAMP): pyproject.toml constraints.txt
	@$(FIND_PYTHON); \
	echo "Setting up $(VENV) with $$($$python --version) (once; about a minute)"; \
	$(BIN)/python -c '' 2>/dev/null || "$$python" -m venv --clear $(VENV); \
	$(BIN)/python -m pip install --quiet --constraint constraints.txt hatchling editables; \
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dataset,dev]'
	@touch $(STAMP)
	@echo "Set up. To have conformance and duplex-eval on the path: source $(BIN)/activate (or call $(BIN)/conformance)"

clean:
	rm -rf $(VENV) dist build out conformance-out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(PACKAGES) tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
