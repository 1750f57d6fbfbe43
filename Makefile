# Each target builds what it needs in .venv, from the extras in pyproject.toml.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test docs bench reproduction study format clean

demo: $(VENV)/.semiope
	$(BIN)/semiope demo

test: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest -q -n auto

docs: $(VENV)/.docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going -q docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(VENV)/.gym
	$(BIN)/semiope bench

reproduction: $(VENV)/.paper
	$(BIN)/semiope reproduce all --out docs/_build/reproduction
	mkdir -p docs/reproduction
	cp docs/_build/reproduction/*.md docs/_build/reproduction/*.svg docs/_build/reproduction/settings.json docs/reproduction/

study: $(VENV)/.paper
	$(BIN)/semiope reproduce questions --datasets 30 --seed 1 --out docs/_build/study
	mkdir -p docs/study
	cp docs/_build/study/questions.md docs/_build/study/questions.svg docs/study/

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) docs/_build

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.semiope: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[models]"
	touch $@

$(VENV)/.test $(VENV)/.docs $(VENV)/.gym $(VENV)/.paper: $(VENV)/.%: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	touch $@
