# Two commands: `make demo` and `make test`. Both make their own virtual environment in .venv and leave nothing elsewhere.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src cpp -type f -not -name '*.pyc') CMakeLists.txt pyproject.toml

.PHONY: demo test lint bench clean

demo: $(VENV)/.plot
	$(BIN)/maxmargin demo

test: $(VENV)/.test lint
	$(BIN)/python -m pytest -n auto --pyargs tests README.md docs maxmargin

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks.ranking_inference
	$(BIN)/python -m benchmarks.graphcut
	$(BIN)/pip install --quiet '.[bench]'
	$(BIN)/python -m benchmarks.native_oracle
	$(BIN)/python -m benchmarks.multiclass
	$(BIN)/python -m benchmarks.ocr
	$(BIN)/python -m benchmarks.partial_linearization
	$(BIN)/python -m benchmarks.nn_loss
	$(BIN)/python -m benchmarks.nn_digits
	$(BIN)/python -m benchmarks.latent_ranking
	$(BIN)/python -m benchmarks.reader --megabytes 40 --repeats 3
	$(BIN)/python -m benchmarks.approximate_ranking
	$(BIN)/python -m benchmarks.layerwise
	$(BIN)/python -m benchmarks.ranking_training
	$(BIN)/python -m benchmarks.ranking_quality
	$(BIN)/python -m benchmarks.path

# Installed anew whenever a source changes; pip removes the previous copy.
$(VENV)/.plot: $(VENV)/bin/python $(SOURCES)
	$(BIN)/pip install --quiet '.[plot]'
	@touch $@

# The pages are tested in a real browser: that of the system or, if npm is there, one of its own.
$(VENV)/.test: $(VENV)/bin/python $(SOURCES)
	$(BIN)/pip install --quiet '.[test]'
	-@$(BIN)/python tests/browser.py
	@touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

clean:
	rm -rf $(VENV) build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
