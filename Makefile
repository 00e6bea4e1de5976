# Two commands do everything on a machine with Python 3.11+ and make:  make demo   and   make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev

.PHONY: demo test test-long check setup clean

demo: $(READY)
	$(BIN)/python examples/demo.py --out out/demo

test: check
	$(BIN)/python -m pytest

test-long: $(READY_DEV)
	$(BIN)/python -m pytest -m long -rA

check: $(READY_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(READY_DEV)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[atari,minatar,tensorboard]'
	touch $@

$(READY_DEV): $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[atari,minatar,tensorboard,dev]'
	touch $@

clean:
	rm -rf $(VENV) out build *.egg-info src/*.egg-info .mypy_cache .ruff_cache .pytest_cache
