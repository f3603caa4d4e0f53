# The two commands: `make run` and `make test`. Both set up everything they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
endif
PORT ?= 8501
HEADLESS ?= false

.PHONY: run test check bench clean

run: $(VENV)/.app        ## start the app on the demo, and open it in the browser
	$(BIN)/streamlit run serve.py --server.port $(PORT) --server.headless $(HEADLESS)

test: $(VENV)/.dev       ## the whole suite
	$(BIN)/python -m pytest

check: $(VENV)/.dev      ## lint, types, the rooms with their arrows, and the house in numbers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy ui pages app.py serve.py
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tests.house

bench: $(VENV)/.dev      ## the tables of the README; takes some minutes
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/growth.py --turns 1000
	$(BIN)/python benchmarks/lab.py
	$(BIN)/python benchmarks/facts.py
	$(BIN)/python benchmarks/pages.py
	$(BIN)/python benchmarks/first_page.py
	$(BIN)/python benchmarks/recall.py --paraphrases

clean:
	rm -rf $(VENV)

$(VENV)/bin/python $(VENV)/Scripts/python.exe:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make run PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.app: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	$(BIN)/python -m compileall -q memory_core ui pages app.py serve.py  # or the first start does it
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m compileall -q memory_core ui pages app.py serve.py  # or the first start does it
	touch $@ $(VENV)/.app
