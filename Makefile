# `make` alone lists what there is. `demo` and `test` install what they miss by themselves.
SHELL := bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One more than a small machine has cores: for nearly half of their time tests wait for servers and processes.
WORKERS ?= 3
SOAK_MINUTES ?= 2
# Large libraries are imported many times: what Python compiles it keeps.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-heavy check format lint types contracts audit security soak clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.core ## play a year of flights on a throw-away platform (EXIT=1: end by itself; ARGS="outage audit": these parts alone)
	@$(BIN)/falaj demo $(if $(EXIT),--exit) $(ARGS)

test: $(VENV)/.dev test-servers test-clients ## all behaviour, on real servers (ARGS="tests/base -k ids" narrows it)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -q -m "not heavy" $(ARGS)

test-heavy: $(VENV)/.dev test-servers test-clients ## what takes long or needs large extras
	@scripts/install_test_servers.sh containers java
	@PYTHON="$(PYTHON)" scripts/make_client_venvs.sh lake ray raytrain spark tensorflow
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -q -m heavy $(ARGS)

check: ## what CI runs
	@$(MAKE) --no-print-directory --jobs ready
	@$(MAKE) --no-print-directory test

# Side by side, because each alone keeps one core busy. The checks of the source begin when the first environment is made.
.PHONY: ready
ready: test-servers test-clients lint types contracts security audit

format: $(VENV)/.dev ## put the source into the house format
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: $(VENV)/.dev
	@$(BIN)/ruff format --check . && $(BIN)/ruff check .

types: $(VENV)/.dev
	@$(BIN)/mypy --strict falaj benchmarks examples scripts

contracts: $(VENV)/.dev
	@$(BIN)/lint-imports --no-cache

# Bandit warns of the reasons that stand beside `nosec`; its findings are on its standard output.
security: $(VENV)/.dev
	@$(BIN)/bandit -q -r falaj -c pyproject.toml 2> >(grep -v WARNING >&2)

audit: $(VENV)/.dev
	@$(BIN)/python scripts/audit_dependencies.py

bench-%: $(VENV)/.dev ## measure, e.g. `make bench-operations`; the last line is JSON
	@$(BIN)/python benchmarks/$(subst -,_,$*).py $(ARGS)

soak: $(VENV)/.dev ## load and kill -9 for SOAK_MINUTES (2) each, platform and predictions, everything checked; ends in JSON
	@$(BIN)/python benchmarks/soak.py --minutes $(SOAK_MINUTES) $(ARGS)
	@$(BIN)/python benchmarks/serving_soak.py --minutes $(SOAK_MINUTES)

clean: ## remove what was built and installed here
	rm -rf $(VENV) .bench .clients build dist tests/servers/oidc/node_modules .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# The stamps: an environment that is newer than pyproject.toml is up to date.
$(VENV)/.core: pyproject.toml
	@PYTHON="$(PYTHON)" scripts/make_venv.sh $(VENV) '.[demo]' && touch $@

$(VENV)/.dev: pyproject.toml
	@PYTHON="$(PYTHON)" scripts/make_venv.sh $(VENV) '.[dev]' && touch $(VENV)/.core $@

.PHONY: test-servers
test-servers:
	@scripts/install_test_servers.sh

.PHONY: test-clients
test-clients:
	@PYTHON="$(PYTHON)" scripts/make_client_venvs.sh mlflow3 mlflow2 examples mpi
