# Two commands: `make demo` and `make test`. Both make their own virtual environment in .venv and leave nothing elsewhere.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What the extension and the list of packages are made of; Python files are used where they are, so they cost nothing.
SOURCES := $(shell find cpp -type f) CMakeLists.txt pyproject.toml
INSTALL := $(BIN)/pip install --quiet --no-build-isolation --editable

.PHONY: demo cluster-demo test test-all cluster minimum lint bench sanitize mutants clean

demo: $(VENV)/.plot
	$(BIN)/maxmargin demo

# A cluster on this machine, one of whose workers is killed.
cluster-demo: $(VENV)/.cluster
	$(BIN)/maxmargin cluster-demo

# `make test ROOM=tests/solvers` runs the tests of one room. There is a process for every core, so BLAS and OpenMP get one thread each:
# more are in each other's way, and double the processor time. Without -n, and in `make minimum`, they take what they find.
ROOM := tests README.md docs src/maxmargin
test: $(VENV)/.test lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto $(ROOM)

# What takes too long for every day: clusters, and the tests once more with the lowest versions that pyproject.toml allows, in an
# environment of their own.
test-all: test cluster minimum

# Tests that start a cluster of Dask or Ray, and kill parts of it.
cluster: $(VENV)/.test
	$(INSTALL) '.[ray]'
	$(BIN)/python -m pytest -m cluster tests

MINIMUM := $(VENV)-minimum
minimum: $(MINIMUM)/.test
	$(MINIMUM)/bin/python -m pytest -n auto -p no:cacheprovider tests src/maxmargin

$(MINIMUM)/.test: $(SOURCES) tests/minimum_versions.py
	$(PYTHON) -m venv $(MINIMUM)
	$(MINIMUM)/bin/pip install --quiet --upgrade pip 'scikit-build-core>=0.11' 'nanobind>=2.4' cmake ninja
	$(PYTHON) tests/minimum_versions.py > $(MINIMUM)/lowest.txt
	$(MINIMUM)/bin/pip install --quiet --no-build-isolation --constraint $(MINIMUM)/lowest.txt --config-settings=build-dir=build/minimum \
	  --editable '.[dask,lightgbm,nn,parquet,plot,registration,remote,vision,xgboost]' torch==2.13.0 \
	  hypothesis networkx numba pytest pytest-xdist pytrec-eval-terrier
	@touch $@

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks.ranking_inference
	$(BIN)/python -m benchmarks.graphcut
	$(INSTALL) '.[bench,peers]'
	$(BIN)/python -m benchmarks.native_oracle
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.multiclass
	$(BIN)/python -m benchmarks.ocr
	$(BIN)/python -m benchmarks.snakes
	$(BIN)/python -m benchmarks.trws
	$(BIN)/python -m benchmarks.partial_linearization
	$(BIN)/python -m benchmarks.nn_loss
	$(BIN)/python -m benchmarks.nn_digits
	$(BIN)/python -m benchmarks.latent_ranking
	$(BIN)/python -m benchmarks.reader --megabytes 40 --repeats 3
	$(BIN)/python -m benchmarks.approximate_ranking
	$(BIN)/python -m benchmarks.layerwise
	$(BIN)/python -m benchmarks.ranking_training
	$(BIN)/python -m benchmarks.ranking_memory
	$(BIN)/python -m benchmarks.ranking_quality
	$(BIN)/python -m benchmarks.ranking_cutoff
	$(BIN)/python -m benchmarks.rare_events
	$(BIN)/python -m benchmarks.path
	$(BIN)/python -m benchmarks.labeling
	$(BIN)/python -m benchmarks.max_marginals
	$(BIN)/python -m benchmarks.parsimonious
	$(BIN)/python -m benchmarks.pictures
	$(BIN)/python -m benchmarks.rounding
	$(BIN)/python -m benchmarks.learned_rounding
	$(BIN)/python -m benchmarks.registration
	$(BIN)/python -m benchmarks.learned_metric
	$(BIN)/python -m benchmarks.high_order_ranking
	$(BIN)/python -m benchmarks.surrogates
	$(BIN)/python -m benchmarks.multilabel
	$(BIN)/python -m benchmarks.hierarchy
	$(BIN)/python -m benchmarks.parsing
	$(BIN)/python -m benchmarks.parsing_bilstm
	$(BIN)/python -m benchmarks.chunking
	$(BIN)/python -m benchmarks.boosting
	$(BIN)/python -m benchmarks.tagging
	$(BIN)/python -m benchmarks.defaults
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.distributed
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.distributed_peers
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.out_of_core

# Kernels, engine and readers with address and undefined-behaviour sanitizers; a fault ends the run. The extension of this build
# lies in a copy of the package, so that nothing else uses it.
SANITIZED := build/sanitize
sanitize: $(VENV)/.test
	cmake -S . -B $(SANITIZED) -DCMAKE_BUILD_TYPE=Release -DMAXMARGIN_SANITIZE=ON -DPython_EXECUTABLE=$(abspath $(BIN)/python) \
	  -Dnanobind_DIR=$$($(BIN)/python -m nanobind --cmake_dir)
	cmake --build $(SANITIZED) --parallel
	rm -rf $(SANITIZED)/package && mkdir $(SANITIZED)/package
	cp -r src/maxmargin $(SANITIZED)/package && cp $(SANITIZED)/_core*.so $(SANITIZED)/package/maxmargin
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
	  PYTHONPATH=$(SANITIZED)/package $(BIN)/python -m tests.sanitized

# Breaks one line after the other and looks whether a test notices.
mutants: $(VENV)/.test
	$(BIN)/python -m tests.mutants

$(VENV)/.plot: $(VENV)/.tools $(SOURCES)
	$(INSTALL) '.[plot]'
	@touch $@

$(VENV)/.cluster: $(VENV)/.tools $(SOURCES)
	$(INSTALL) '.[dask]'
	@touch $@

# The pages are tested in a real browser: that of the system or, if npm is there, one of its own.
$(VENV)/.test: $(VENV)/.tools $(SOURCES)
	$(INSTALL) '.[test]'
	-@$(BIN)/python tests/browser.py
	@touch $@

$(VENV)/.tools:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip 'scikit-build-core>=0.11' 'nanobind>=2.4' cmake ninja
	@touch $@

clean:
	rm -rf $(VENV) $(MINIMUM) build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
