# Fuseworks. `make` alone lists what there is.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup setup-test demo test test-slow test-hostile check format doctor site bench lock clean

PY := .venv/bin/python
SETUP := chosen=$$(scripts/find_python.sh) && "$$chosen" scripts/set_up.py
# Two workers even on large machines: the tests start sandboxed children of a gigabyte each, and some of them measure.
WORKERS ?= 2
PYTEST := $(PY) -m pytest -n $(WORKERS) --dist loadfile
BUDGET ?= 310s
MODEL ?= examples/din.py
OUT ?= out/demo
PORT ?= 8000

help: ## List the targets
	@echo "Fuseworks makes models faster and proves it. Targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv with everything that `fuseworks` needs (cached)
	@$(SETUP)

setup-test:
	@$(SETUP) --with test

demo: setup ## Optimize MODEL (examples/din.py), then show the report on PORT; EXIT=1 ends after the table
	@echo "==> Optimizing $(MODEL) in the sandbox, with a budget of $(BUDGET)."
	@.venv/bin/fuseworks optimize $(MODEL) --budget $(BUDGET) --out $(OUT)
	@echo "==> The report, the package and the recipe are in $(OUT)/."
ifneq ($(EXIT),1)
	@echo "==> Serving the report on this machine only; Ctrl-C ends it (make demo EXIT=1 does not serve)."
	@$(PY) -m http.server --bind 127.0.0.1 --directory $(OUT) $(PORT)
endif

test: setup-test ## Run the tests (all but the slow ones; under 20 minutes on two cores)
	@echo "==> Testing with $(WORKERS) workers."
	@$(PYTEST) -m "not slow" tests

test-slow: setup-test ## Run the tests that take minutes each: whole runs on the examples and on published weights
	@echo "==> Running the slow tests, one at a time."
	@$(PY) -m pytest -m slow --timeout 3600 tests

test-hostile: setup-test ## Run hostile models against the sandbox
	@echo "==> Running hostile models against the sandbox."
	@$(PY) -m pytest -m hostile tests

check: setup-test ## Lint, formatting, types, import rules, Django's own checks
	@echo "==> ruff";            .venv/bin/ruff check .
	@echo "==> ruff format";     .venv/bin/ruff format --check .
	@echo "==> mypy";            .venv/bin/mypy
	@echo "==> import rules";    .venv/bin/lint-imports
	@echo "==> django";          $(PY) manage.py check --fail-level WARNING
	@$(PY) manage.py makemigrations --check --dry-run

format: setup-test ## Format the code and mend what ruff can mend by itself
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

doctor: setup ## Say what this machine lacks, and what that costs
	@$(PY) -m optimizer doctor

site: setup ## Start the web site (so far a home page and a health page) on PORT
	@echo "==> http://127.0.0.1:$(PORT)/ ; Ctrl-C ends it."
	@$(PY) -m uvicorn fuseworks.asgi:application --host 127.0.0.1 --port $(PORT) --no-server-header

bench: setup ## Run the benchmark suite of benchmarks/
	@$(PY) -m benchmarks

lock: setup-test ## Resolve the bounds of pyproject.toml anew into requirements.lock (UPGRADE=1: newest versions)
	@$(PY) scripts/lock.py $$(command -v uv || echo .venv/bin/uv)

clean: ## Remove .venv, caches and outputs
	@echo "==> Removing .venv, .fuseworks, out, caches."
	@rm -rf .venv .fuseworks out fuseworks-out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
