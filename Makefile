# Everything sets up what it needs in .venv; Python 3.11+, git and make have to be there.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Of tests; empty means all.
TESTS ?=
PYTEST := $(BIN)/pytest --numprocesses 4 --dist loadgroup --no-loadscope-reorder

.PHONY: help demo test check pytest test-faults test-browser test-sites nemesis test-compat format docs site bench bench-smoke bench-peers \
	.bench-peers clean

help:
	@echo "make demo         set up a cluster of one machine in a scratch place and run a job on it"
	@echo "make test         install what the tests need (as root on Debian), then run all checks and tests"
	@echo "make check        run all checks and tests on this machine as it is; TESTS=tests/unit runs those alone"
	@echo "make test-faults  break a real head and real workers in every way, and check what is left"
	@echo "make test-browser use the web page in a real Chromium"
	@echo "make test-sites   run jobs on a real Slurm, and break it"
	@echo "make nemesis      break three nodes at random for an hour: SECONDS=60 SEED=7 DATABASE=postgres RUNTIME=docker"
	@echo "make test-compat  run the tests that need nothing but git: PYTHON=python3.13 has a .venv-3.13 of its own"
	@echo "make site         build the documentation as a site in build/site, and check its links"
	@echo "make bench        measure, and print a table"
	@echo "make bench-smoke  see that every measurement runs"
	@echo "make bench-peers  measure pit and Debian's Slurm side by side, and write bench/results.md"

demo: $(VENV)/.ready
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/first-light/demo.sh

test:
	@tests/provision $(MAKE) check

check: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) $(TESTS)

test-faults:
	@tests/provision $(MAKE) TESTS=tests/faults pytest

test-browser:
	@BROWSER=yes tests/provision $(MAKE) TESTS=tests/browser pytest

test-sites:
	@tests/provision $(MAKE) TESTS=tests/sites pytest

nemesis: $(VENV)/.ready
	$(BIN)/python -m tests.support.faults.run_nemesis

test-compat:
	@version=$$($(PYTHON) -c 'import sys; print("{}.{}".format(*sys.version_info))') \
		&& $(MAKE) VENV=.venv-$$version TESTS="tests/unit tests/client tests/worker" pytest

pytest: $(VENV)/.ready
	$(PYTEST) $(TESTS)

format: $(VENV)/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.ready
	$(BIN)/python -m tests.support.pages.job_options_page
	$(BIN)/python -m tests.support.pages.scheduling_figure
	$(BIN)/python -m tests.support.pages.man_page
	$(BIN)/python -m tests.support.threats.pages

# The variable silences an advertisement of the theme's successor.
site: $(VENV)/.ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python -m tests.support.pages.site_check build/site

bench: $(VENV)/.ready
	$(BIN)/python -m bench

bench-smoke: $(VENV)/.ready
	$(BIN)/python -m bench --smoke
	$(BIN)/python -m bench.peers --smoke

bench-peers:
	@tests/provision $(MAKE) .bench-peers

.bench-peers: $(VENV)/.ready
	$(BIN)/python -m bench.peers

clean:
	rm -rf .venv .venv-* build

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "pit needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
		|| { echo "$(PYTHON) cannot make virtual environments: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
