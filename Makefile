# The two commands: `make run` and `make test`. Both set up everything they need in .venv, whatever the folder is called.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
endif
# uv, where it is on the machine, takes some 15 s where pip takes 60; it does not read pip's settings, so that pip comes
# after it for a registry that only pip was told of.
UV := $(shell command -v uv 2>/dev/null)
install = $(if $(UV),$(UV) pip install --quiet --python $(1) $(2) ||) $(1) -m pip install --quiet --disable-pip-version-check $(2)
# The pip that comes with Python takes twice as long, and gives up on many packages.
new_pip = $(if $(UV),,--upgrade-deps)
comma := ,
PORT ?= 8501
HEADLESS ?= false

.PHONY: run test test-all check docs adapters wheel-test clients bench real clean

run: $(VENV)/.app        ## start the app on the demo, and open it in the browser
	$(BIN)/streamlit run serve.py --server.port $(PORT) --server.headless $(HEADLESS)

test: $(VENV)/.dev       ## everything essential, in some minutes
	$(BIN)/python -m pytest -m 'not (slow or browser or postgres)'

test-all: $(VENV)/.dev   ## all tests that can run on this machine
	$(BIN)/python -m pytest

check: $(VENV)/.dev      ## lint, types, the rooms with their arrows, and the house in numbers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy ui pages app.py serve.py memory_inspector
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tests.house

docs: $(VENV)/.dev       ## the documents as a site in site/, strictly: a link without a target is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

adapters: | $(BIN)/python  ## the adapters on the real frameworks, offline, in an environment of their own
	$(BIN)/python -m venv $(new_pip) $(VENV)/adapters
	$(call install,$(VENV)/adapters/$(notdir $(BIN))/python,-e '.[app$(comma)adapters]' 'pytest>=9' 'hypothesis>=6.150')
	$(call install,$(VENV)/adapters/$(notdir $(BIN))/python,--no-deps llama-index-llms-openai-like llama-index-llms-openai)  # they ask for openai below 3, the Agents SDK for 3: they run on both
	MEMORY_INSPECTOR_ADAPTERS=1 $(VENV)/adapters/$(notdir $(BIN))/python -m pytest -p no:cacheprovider -o addopts=-q --strict-markers tests/adapters

wheel-test: $(VENV)/.dev  ## the wheel in clean environments, and its app in the browser
	rm -rf $(VENV)/wheel
	$(BIN)/python -m build --wheel --outdir $(VENV)/wheel .
	$(BIN)/python tests/wheel_in_a_browser.py $(VENV)/wheel

CLIENTS := test_openai_client test_openai_tools test_structured test_embedding test_extraction test_summarising
clients: | $(BIN)/python  ## the oldest and newest openai clients, and what pip makes of ours beside LlamaIndex's own package
	$(BIN)/python -m venv $(VENV)/clients
	$(VENV)/clients/$(notdir $(BIN))/python -m pip install --quiet --disable-pip-version-check -e '.[openai]' 'pytest>=9' 'hypothesis>=6.150' 'llama-index-core==0.14.25'
	for version in 1.108.1 '2.*' '3.*'; do \
	    $(VENV)/clients/$(notdir $(BIN))/python -m pip install --quiet --disable-pip-version-check "openai==$$version" && \
	    $(VENV)/clients/$(notdir $(BIN))/python -c 'import openai; print("openai", openai.__version__)' && \
	    $(VENV)/clients/$(notdir $(BIN))/python -m pytest -p no:cacheprovider -o addopts=-q --strict-markers $(CLIENTS:%=tests/models/%.py) tests/test_plain_loop.py || exit 1; \
	done
	$(VENV)/clients/$(notdir $(BIN))/python -m pip install --quiet --disable-pip-version-check --dry-run --ignore-installed --report $(VENV)/clients/beside.json '.[openai]' llama-index-llms-openai
	$(VENV)/clients/$(notdir $(BIN))/python -c 'import json, sys; found = {each["metadata"]["name"]: each["metadata"]["version"] for each in json.load(open(sys.argv[1]))["install"]}; print({name: found[name] for name in ("llama-index-core", "llama-index-llms-openai", "openai")}); assert found["llama-index-core"].split(".")[:2] == ["0", "14"]' $(VENV)/clients/beside.json

bench: $(VENV)/.dev      ## the tables of benchmarks/README.md; takes some minutes
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/postgres.py
	$(BIN)/python benchmarks/growth.py --turns 1000
	$(BIN)/python benchmarks/lab.py
	$(BIN)/python benchmarks/facts.py
	$(BIN)/python benchmarks/pages.py
	$(BIN)/python benchmarks/first_page.py
	$(BIN)/python benchmarks/recall.py --paraphrases

real: $(VENV)/.dev       ## the real coding agents through the recording proxy, and the real memory systems on the same script as ours, real stores and instrumentations
	MEMORY_INSPECTOR_REAL_AGENTS=$${MEMORY_INSPECTOR_REAL_AGENTS:-npm} $(BIN)/python -m pytest -n 0 -s tests/real_agents
	$(BIN)/python benchmarks/real/run.py $(ARGS)
	$(BIN)/python benchmarks/real/stores.py $(ARGS)
	$(BIN)/python benchmarks/real/instrumentations.py $(ARGS)

clean:
	rm -rf $(VENV)

$(VENV)/bin/python $(VENV)/Scripts/python.exe:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make run PYTHON=python3.12")'
	$(PYTHON) -m venv $(new_pip) $(VENV)

$(VENV)/.app: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,$(BIN)/python,-c constraints.txt -e '.[app]')
	$(BIN)/python -m compileall -q memory_core memory_inspector ui pages app.py serve.py  # or the first start does it
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(call install,$(BIN)/python,-c constraints.txt -e '.[dev]')
	$(BIN)/python -m compileall -q memory_core memory_inspector ui pages app.py serve.py  # or the first start does it
	touch $@ $(VENV)/.app
