# Everything from a bare Python 3.11+: the first target you call brings uv (into .uv/, when there is none) and installs
# the workspace into .venv; later calls start at once. Programs run straight from .venv: `uv run` around Ray would make
# Ray build one environment for each of its workers.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

SEED ?= 0
ROLLOUT ?= transformers
EXTRA ?= cpu
PYTHON ?= python3
ARGS ?=

BIN := .venv/bin
STAMP := .venv/.installed-$(EXTRA)
PROJECTS := pyproject.toml apps/pyproject.toml $(wildcard packages/*/pyproject.toml)
SYSTEM_UV := $(shell uv --version >/dev/null 2>&1 && command -v uv)
UV := $(or $(SYSTEM_UV),.uv/bin/uv)

.PHONY: help install demo test lint typecheck bench build

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Install every package into .venv (EXTRA=cpu or EXTRA=gpu)

.uv/bin/uv:
	$(PYTHON) -m venv .uv
	.uv/bin/pip install --quiet --disable-pip-version-check uv

$(STAMP): $(PROJECTS) | $(filter .uv/bin/uv,$(UV))
	$(UV) sync --all-packages --extra $(EXTRA)
	@rm -f .venv/.installed-*
	@touch $@

demo: $(STAMP) ## Clips, tiny model, SFT, GRPO, evaluation and report (SEED=0 ROLLOUT=transformers|vllm)
	$(BIN)/evr demo --seed $(SEED) --rollout $(ROLLOUT) $(ARGS)

test: $(STAMP) ## All tests that run without a GPU (ARGS="tests/core -x" narrows them)
	$(BIN)/python -m pytest -q -m "not gpu" $(ARGS)

lint: $(STAMP) ## Style, formatting and import boundaries
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

typecheck: $(STAMP) ## Strict static types
	$(BIN)/mypy

bench: $(STAMP) ## Run one benchmark: make -s bench NAME=video; ends with one line of JSON
	@name="$(NAME)"; \
	if [ -n "$$name" ] && [ -f "benchmarks/$$name.py" ]; then exec $(BIN)/python "benchmarks/$$name.py" $(ARGS); fi; \
	if [ -n "$$name" ] && [ -f "benchmarks/$$name/__main__.py" ]; then exec $(BIN)/python "benchmarks/$$name" $(ARGS); fi; \
	echo "make bench needs NAME=<one of:$$(find benchmarks -mindepth 1 -maxdepth 2 \( -path 'benchmarks/*/__main__.py' -o -path 'benchmarks/*.py' \) -printf ' %P' | sed 's,/__main__\.py,,g; s,\.py,,g')>, got '$$name'" >&2; exit 2

build: $(STAMP) ## Build the wheel of every package into dist/
	$(UV) build --all-packages --wheel --out-dir dist
