# Two commands do everything on a machine with Python 3.11+ and make:  make demo   and   make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev
READY_DOCS := $(VENV)/.ready-docs
BUILD := .venv-build
BENCH := .venv-bench
READY_BENCH := $(BENCH)/.ready

.PHONY: demo test test-long check setup browser dist docs agents bench bench-quick clean

demo: $(READY)
	$(BIN)/python examples/demo.py --out out/demo

test: check browser
	$(BIN)/python -m pytest -n 2 --dist loadfile

# Pages are tested in a real Chromium. Where it cannot be installed, those tests are skipped, and say so.
browser:
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null \
	|| { test "$$(id -u)" = 0 && command -v apt-get > /dev/null \
	     && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core > /dev/null; } \
	|| echo "No Chromium, and it cannot be installed here: tests of pages in a browser will be skipped."

test-long: $(READY_DEV)
	$(BIN)/python -m pytest -m long -rA

check: $(READY_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in out/site; then its pages are opened in Chromium. Notebooks run again only when they have changed.
docs: $(READY_DOCS) browser
	$(BIN)/python docs/site/stage.py out/site-pages
	$(BIN)/sphinx-build -q -E -W --keep-going -j 2 -c docs/site out/site-pages out/site
	$(BIN)/python -m pytest -m site tests/built_site

# Small trained agents, in releases/0.1. Runs that out/agents holds already are not trained again.
agents: $(READY)
	$(BIN)/python examples/agents.py

# A source archive and a wheel, in dist/; the wheel is built from the archive, so both are complete. An environment of
# its own has the two packages that this takes, and none of what the wheel needs later.
dist:
	rm -rf dist
	test -x $(BUILD)/bin/python || $(PYTHON) -m venv $(BUILD)
	$(BUILD)/bin/python -m pip install --quiet -c constraints.txt build setuptools
	$(BUILD)/bin/python -m build --no-isolation

bench: $(READY_BENCH)
	$(BENCH)/bin/python benchmarks/bench.py
	$(BENCH)/bin/python benchmarks/page.py

bench-quick: $(READY_DEV)
	$(BIN)/python benchmarks/quick.py

setup: $(READY_DEV)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[atari,minatar,minigrid,classic,tensorboard,tune]'
	touch $@

$(READY_DEV): $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[atari,minatar,minigrid,classic,tensorboard,tune,ray,wandb,mlflow,video,export,hub,minari,dev]'
	touch $@

$(READY_DOCS): $(READY_DEV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

# Other libraries, in an environment of their own; they need older versions of two packages than constraints.txt has.
$(READY_BENCH): pyproject.toml constraints.txt benchmarks/requirements.txt
	test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	grep -vE '^(pandas|filelock)==' constraints.txt > $(BENCH)/constraints.txt
	$(BENCH)/bin/python -m pip install --quiet -c $(BENCH)/constraints.txt torch
	$(BENCH)/bin/python -m pip install --quiet -c $(BENCH)/constraints.txt -e '.[atari,minatar]' -r benchmarks/requirements.txt
	touch $@

clean:
	rm -rf $(VENV) $(BUILD) $(BENCH) out build dist *.egg-info src/*.egg-info .mypy_cache .ruff_cache .pytest_cache
