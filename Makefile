# Two commands: `make demo` and `make test`. Both make their own virtual environment in .venv and leave nothing elsewhere.
# `make test PYTHON=python3.13` makes it anew for another version of Python.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
# Exact versions of all packages and tools, so that a clone passes whatever has been published since; `make constraints` writes them.
# For a version of Python without a file, and with `make newest`, the newest versions are installed.
CONSTRAINTS := $(wildcard constraints/python$(VERSION).txt)
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
PIP_INSTALL := $(PIP) install $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))
# The tests of maxmargin.nn need torch, in the build for the CPU: the one for CUDA, which `make test TORCH=torch==2.13.0` installs, takes
# 5 GB. Where pip finds no build for the CPU, these tests are skipped.
TORCH ?= torch==2.13.0+cpu
BUILD_TOOLS := 'scikit-build-core>=0.11' 'nanobind>=2.4' 'cmake>=3.18' ninja
# What the extension and the list of packages are made of; Python files are used where they are, so they cost nothing.
SOURCES := $(shell find cpp -type f) CMakeLists.txt pyproject.toml
# The package is imported by a hook. The folder that the same file names for other tools is left out: Python reads .pth files in the
# encoding of the locale, and does not start where that lacks a letter of the name.
install = $(PIP_INSTALL) --no-build-isolation --editable $(1) && \
	  sed -i.bak '/^import /!d' $(VENV)/lib/python*/site-packages/_*maxmargin*.pth

.PHONY: demo test test-all cluster minimum newest pythons processors call-paths shape process-exit constraints lint bench sanitize mutants clean

demo: $(VENV)/.plot
	$(BIN)/maxmargin demo

# `make test TESTS=tests/core` runs the tests of one directory. There is a process for every core, so BLAS and OpenMP get one thread each:
# more are in each other's way, and double the processor time. Without -n, and in `make minimum`, they take what they find.
TESTS := tests README.md docs src/maxmargin
test: $(VENV)/.test lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto $(TESTS)

# What takes too long for every day: clusters; the tests once more with the lowest and the newest versions of all dependencies, with
# every version of Python that is at hand, and as on other processors; processes that end while their threads work.
test-all: test cluster minimum newest pythons processors process-exit

# Tests that start a cluster of Dask or Ray, and kill parts of it.
cluster: $(VENV)/.test
	$(call install,'.[ray]')
	$(BIN)/python -m pytest -m cluster tests

# In environments of their own, .venv-newest and .venv-3.12.
newest:
	rm -rf $(VENV)-newest
	$(MAKE) test VENV=$(VENV)-newest CONSTRAINTS=

# Of pyenv, which shows only some of its versions on the path, all are tried.
PYTHONS := 3.11 3.12 3.13 3.14
pythons:
	@export PYENV_VERSION=$$(pyenv versions --bare 2> /dev/null | paste -sd:); \
	for version in $(PYTHONS); do \
	  if python$$version -c '' 2> /dev/null; then $(MAKE) test PYTHON=python$$version VENV=$(VENV)-$$version || exit 1; \
	  else echo "python$$version is not installed: skipped"; fi; done

# The tests as other processors, loads, orders and places would run them; a table of what was tried and what failed. See
# `python -m tests.processors --help` for one setting at a time.
processors: $(VENV)/.test
	$(BIN)/python -m tests.processors

# Packages and modules that run in five use cases.
call-paths: $(VENV)/.test
	$(BIN)/python -m tests.call_paths

# Lines, files, complexity and public names.
shape: $(VENV)/.test
	$(BIN)/python -m tests.shape

process-exit: $(VENV)/.test
	$(BIN)/python -m tests.process_exit --runs 2000 --at-once 3

# The newest versions that go together, for the Python at hand: run it with each, then the tests, and commit the files. Where there is no
# build of torch for the CPU: `make constraints TORCH=`.
constraints:
	$(PYTHON) -m venv --clear build/constraints
	build/constraints/bin/python -m pip --quiet install --upgrade pip packaging
	build/constraints/bin/python -m pip --quiet install --dry-run --ignore-installed --report build/constraints/report.json \
	  pip $(BUILD_TOOLS) '.[test,ray]' $(TORCH)
	build/constraints/bin/python tests/write_constraints.py constraints/python$(VERSION).txt < build/constraints/report.json

MINIMUM := $(VENV)-minimum
minimum: $(MINIMUM)/.test
	$(MINIMUM)/bin/python -m pytest -n auto -p no:cacheprovider tests src/maxmargin

$(MINIMUM)/.test: $(SOURCES) tests/minimum_versions.py
	$(PYTHON) -m venv --clear $(MINIMUM)
	$(MINIMUM)/bin/pip install --quiet --upgrade pip $(BUILD_TOOLS)
	$(PYTHON) tests/minimum_versions.py > $(MINIMUM)/lowest.txt
	$(MINIMUM)/bin/pip install --quiet --no-build-isolation --constraint $(MINIMUM)/lowest.txt --config-settings=build-dir=build/minimum \
	  --editable '.[dask,lightgbm,nn,parquet,plot,registration,remote,vision,xgboost]' $(TORCH) \
	  clarabel hypothesis networkx numba pytest pytest-xdist pytrec-eval-terrier
	@touch $@

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.test
	$(call install,'.[bench,peers]')
	$(BIN)/python -m benchmarks.registry

# Kernels, engine and readers with address and undefined-behaviour sanitizers; a fault ends the run. The extension of this build
# lies in a copy of the package, so that nothing else uses it.
SANITIZED := build/sanitize
sanitize: $(VENV)/.test
	cmake -S . -B $(SANITIZED) -DCMAKE_BUILD_TYPE=Release -DMAXMARGIN_SANITIZE=ON -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python" \
	  -Dnanobind_DIR="$$($(BIN)/python -m nanobind --cmake_dir)"
	cmake --build $(SANITIZED) --parallel
	rm -rf $(SANITIZED)/package && mkdir $(SANITIZED)/package
	cp -r src/maxmargin $(SANITIZED)/package && cp $(SANITIZED)/_core*.so $(SANITIZED)/package/maxmargin
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
	  PYTHONPATH=$(SANITIZED)/package $(BIN)/python -m tests.sanitized

# Breaks one line after the other and looks whether a test notices.
mutants: $(VENV)/.test
	$(BIN)/python -m tests.mutants

$(VENV)/.plot: $(VENV)/.tools-$(VERSION) $(SOURCES)
	$(call install,'.[plot]')
	@touch $@

# The pages are tested in a real browser: that of the system or, if npm is there, one of its own.
$(VENV)/.test: $(VENV)/.tools-$(VERSION) $(SOURCES)
	$(call install,'.[test]')
	@$(PIP_INSTALL) $(TORCH) 2> $(VENV)/torch.log || { grep -q 'No matching distribution' $(VENV)/torch.log && \
	  echo 'pip finds no $(TORCH): tests of maxmargin.nn are skipped'; } || { cat $(VENV)/torch.log; exit 1; }
	-@$(BIN)/python tests/browser.py
	@touch $@

# An environment of another version of Python, or with other versions of packages, is made anew.
$(VENV)/.tools-$(VERSION): $(CONSTRAINTS)
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP_INSTALL) --upgrade pip $(BUILD_TOOLS)
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-* build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
