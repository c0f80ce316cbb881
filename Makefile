# Fuseworks. `make` alone lists what there is.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup setup-test frontend messages openapi demo run test test-whole test-slow test-hostile check format doctor bench bench-quick calibrate calibrate-predictions aot aot-check correctness gpu-check lock clean

PY := .venv/bin/python
SETUP := chosen=$$(scripts/find_python.sh) && "$$chosen" scripts/set_up.py
# Two workers even on large machines: the tests start sandboxed children of a gigabyte each, and some of them measure.
WORKERS ?= 2
PYTEST := $(PY) -m pytest -n $(WORKERS) --dist loadfile
BUDGET ?= 290s
MODEL ?= examples/din.py
OUT ?= out/demo
PORT ?= 8000

LANE ?= fp32
BENCH_BUDGET ?= 12m
QUICK_BUDGET ?= 75s
QUICK := examples/din.py examples/mmoe.py examples/dlrm.py examples/dcn_v2.py
RESULTS ?= benchmarks/results/$(shell date +%F)-$(LANE)
BENCH = $(PY) -m fuseworks_client bench --lane $(LANE) $(if $(filter 1,$(RESUME)),--resume)

help: ## List the targets
	@echo "Fuseworks makes models faster and proves it. Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-21s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv with everything that `fuseworks` needs (cached)
	@$(SETUP)

setup-test:
	@$(SETUP) --with test

frontend: setup ## Build the web site's scripts and styles (set-up does it too, when they changed)
	@$(PY) scripts/frontend.py

messages: setup ## Bring the catalogues of translations up to date with the texts of pages and code
	@$(PY) scripts/messages.py

openapi: setup ## Write docs/openapi.yaml anew from the API's endpoints
	@$(PY) manage.py spectacular --fail-on-warn --validate --file docs/openapi.yaml

demo: setup ## Start the platform, optimize MODEL (examples/din.py) through its API, leave the dashboard on PORT; EXIT=1 ends
	@$(PY) -m fuseworks.embedded --port $(PORT) --demo $(MODEL) --budget $(BUDGET) --out $(OUT) $(if $(filter 1,$(EXIT)),--exit)

run: setup ## Start the platform alone: database, broker, web on PORT, dispatcher, one CPU worker
	@$(PY) -m fuseworks.embedded --port $(PORT)

test: setup-test ## Run the tests (all but whole runs and slow ones; under 20 minutes on two cores)
	@echo "==> Testing with $(WORKERS) workers."
	@$(PYTEST) -m "not slow and not whole" tests

test-whole: setup-test ## Run whole runs with the real optimizer: optimize, apply, compare, explain, a gate (some ten minutes)
	@echo "==> Testing whole runs, one at a time."
	@$(PY) -m pytest -m "whole and not slow" --timeout 1200 tests

test-slow: setup-test ## Run the tests that take minutes each: whole runs on the examples and on published weights
	@echo "==> Running the slow tests, one at a time."
	@$(PY) -m pytest -m slow --timeout 3600 tests

test-hostile: setup-test ## Run hostile models against the sandbox
	@echo "==> Running hostile models against the sandbox."
	@$(PY) -m pytest -m hostile tests

check: setup-test ## Lint, formatting, types, import rules, Django's own checks, the API document
	@echo "==> ruff";            .venv/bin/ruff check .
	@echo "==> ruff format";     .venv/bin/ruff format --check .
	@echo "==> mypy";            .venv/bin/mypy
	@echo "==> import rules";    .venv/bin/lint-imports
	@echo "==> django";          $(PY) manage.py check --fail-level WARNING
	@$(PY) manage.py makemigrations --check --dry-run
	@echo "==> TypeScript";      $(PY) scripts/frontend.py check
	@echo "==> API document";    $(PY) manage.py spectacular --fail-on-warn --validate --file .fuseworks/openapi.yaml
	@diff -u docs/openapi.yaml .fuseworks/openapi.yaml || { echo "Write it anew with: make openapi"; exit 1; }

format: setup-test ## Format the code and mend what ruff can mend by itself
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

doctor: setup ## Say what this machine lacks, and what that costs
	@$(PY) -m optimizer doctor

bench: setup ## Measure examples/ and benchmarks/models/ beside every engine (hours; LANE=bf16; RESUME=1 goes on)
	@$(BENCH) $(wildcard examples/*.py) $(wildcard benchmarks/models) --budget $(BENCH_BUDGET) --out $(RESULTS)

bench-quick: setup ## Measure four ranking models beside the best engine of each, in under ten minutes
	@$(BENCH) $(QUICK) --budget $(QUICK_BUDGET) --rivals best --out $(RESULTS)-quick

calibrate: setup ## Record identical processes and count wrong verdicts (half an hour; goes on where it was cut)
	@$(PY) -m benchmarks.calibration record
	@$(PY) -m benchmarks.calibration analyse

calibrate-predictions: setup ## Record predicted beside measured gains (some 25 minutes; MINUTES=10 records a slice), and correct by them
	@$(PY) -m benchmarks.predictions record $(if $(MINUTES),--minutes $(MINUTES))
	@$(PY) -m benchmarks.predictions fit

aot: setup ## Compile the kernels for GPUs that are not here, and write kernels/aot/report.md anew (ALL=1: what did not change, too)
	@$(PY) -m kernels.aot report $(if $(filter 1,$(ALL)),--all)

aot-check: setup ## Fail where a kernel became worse than kernels/aot/report.json says (CHANGED=1: look at changed ones only)
	@$(PY) -m kernels.aot check $(if $(filter 1,$(CHANGED)),--changed)

correctness: setup ## Run the kernels under Triton's interpreter and write kernels/correctness.json anew (ALL=1: what did not change, too)
	@TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(PY) -m kernels.correctness $(if $(filter 1,$(ALL)),--all)

# No set-up: a machine with a GPU may have torch and triton of its own and no network. PY=python3 names its Python.
gpu-check: ## On a machine with a GPU: check, tune and measure the kernels, in eight minutes (INTERPRETER=1: a dry run without)
	@$(PY) -m benchmarks.gpu_check $(if $(filter 1,$(INTERPRETER)),--interpreter)

lock: setup-test ## Resolve the bounds of pyproject.toml anew into requirements.lock (UPGRADE=1: newest versions)
	@$(PY) scripts/lock.py $$(command -v uv || echo .venv/bin/uv)

clean: ## Remove .venv, caches and outputs
	@echo "==> Removing .venv, .fuseworks, the front end's build, out, caches."
	@rm -rf frontend/dist frontend/node_modules .venv .fuseworks out fuseworks-out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
