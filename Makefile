# Everything sets up what it needs in .venv; Python 3.11+, git and make have to be there.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test check format bench clean

help:
	@echo "make demo   set up a cluster of one machine in a scratch place and run a job on it"
	@echo "make test   set up and run all checks and tests, as CI does"
	@echo "make bench  measure, and print a table"

demo: .venv/.ready
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/first-light/demo.sh

test: check

check: .venv/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest --numprocesses 3 --dist loadgroup

format: .venv/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.ready
	$(BIN)/python -m bench

clean:
	rm -rf .venv

.venv/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "pit needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
