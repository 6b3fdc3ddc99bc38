# The tasks of this repository. `make` without a target lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
READY := $(VENV)/.ready
DEVELOPMENT := $(VENV)/.development
# the printed commands find nmt in .venv
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

# the first Python that is new enough; choose another with `make setup PYTHON=/path/to/python3.12`
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

.PHONY: help setup demo demo-en-it demo-en-zh figures test test-lowest check data schema clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Build .venv with nmt and everything that its commands use

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer found; install one, or pass its path: make setup PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "error: $(PYTHON) has no venv module; on Debian and Ubuntu: sudo apt install python3-venv" >&2; exit 2; }
	@echo "setting up $(VENV) with $$($(PYTHON) -V) (torch is a large download)"
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
# torch first and alone: pip takes the build that its index offers (CPU or GPU), the other packages adapt to it
	@$(VENV)/bin/python -m pip install --quiet --no-input --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	@$(VENV)/bin/python -m pip install --quiet --no-input --disable-pip-version-check -c constraints.txt \
		-e '.[report,ct2,hf,filters,documents,serve]'
	@touch $@

# with Triton, which takes as much disk as torch for CPUs
$(DEVELOPMENT): $(READY)
	@echo "installing what tests and checks need into $(VENV)"
	@$(VENV)/bin/python -m pip install --quiet --no-input --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# print a command as it would be typed, then run it
define show
show() { printf '\n$$ %s\n' "$$1"; bash -euo pipefail -c "$$1"; }
endef

demo: demo-en-it demo-en-zh ## Train, translate and score two small translators: en→it, then en→zh

demo-en-it: $(READY)
	@$(show); \
	show 'nmt prepare --config recipes/demo-en-it.yaml'; \
	show 'nmt train --config recipes/demo-en-it.yaml'; \
	show 'cut -f 1 data/demo/test.tsv | nmt translate --model runs/demo-en-it > runs/demo-en-it.out'; \
	show 'nmt score runs/demo-en-it.out <(cut -f 2 data/demo/test.tsv) --target-lang it'; \
	show 'printf "%s\n" "Marco has an umbrella." "Where does Anna buy fruit?" | nmt translate --model runs/demo-en-it'

demo-en-zh: $(READY)
	@$(show); \
	show 'nmt prepare --config recipes/demo-en-zh.yaml'; \
	show 'nmt train --config recipes/demo-en-zh.yaml'; \
	show 'cut -f 1 data/demo/test.tsv | nmt translate --model runs/demo-en-zh > runs/demo-en-zh.out'; \
	show 'nmt score runs/demo-en-zh.out <(cut -f 3 data/demo/test.tsv) --target-lang zh'; \
	show 'printf "%s\n" "Marco has an umbrella." "Where does Anna buy fruit?" | nmt translate --model runs/demo-en-zh'

figures: $(READY) ## Draw the figures of both demo runs into runs/figures/; train what is missing
	@$(show); \
	for pair in en-it en-zh; do \
		test -e runs/demo-$$pair/best || show "nmt train --config recipes/demo-$$pair.yaml"; \
		test -e runs/figures/demo-$$pair || show "nmt figures runs/figures/demo-$$pair --model runs/demo-$$pair"; \
	done

test: $(DEVELOPMENT) ## Run all tests in two processes
	@python -m pytest --quiet -n 2 --dist loadfile --no-loadscope-reorder

# `package==version` for each `package>=version`
test-lowest: ## Run all tests in .venv-lowest, with the oldest versions that pyproject.toml permits
	@rm -rf .venv-lowest && $(PYTHON) -m venv .venv-lowest
	@grep -oE '"[A-Za-z0-9.-]+>=[0-9.]+' pyproject.toml | sed 's/"//; s/>=/==/' > .venv-lowest/constraints.txt
	@.venv-lowest/bin/python -m pip install --quiet --no-input -c .venv-lowest/constraints.txt -e '.[dev]'
	@.venv-lowest/bin/python -m pytest --quiet -n 2 --dist loadfile --no-loadscope-reorder

check: $(DEVELOPMENT) ## Check lint, formatting, types and import contracts
	ruff check
	ruff format --check
	mypy --strict nmt
	lint-imports

data: ## Fill data/ with the corpora that the larger recipes name (never committed)
	@$(PYTHON) data/fetch.py

schema: $(READY) ## Write recipes/recipe.schema.json, docs/recipe.md and the code of docs/transformer.md
	@python -c 'from nmt.config import recipe_schema; print(recipe_schema(), end="")' > recipes/recipe.schema.json
	@python docs/generate_reference.py > docs/recipe.md
	@python docs/generate_code.py

clean: ## Remove caches and builds; runs/, data/ and .venv stay
	@rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find nmt tests data benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
