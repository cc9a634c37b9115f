# make install   the virtual environment .venv with everything in it; does nothing when nothing changed
# make demo      train, save, export, validate and run a small model
# make check     formatting, types, import rules, English, links and unit tests, in two minutes on two cores
# make test      all quick tests; those in C++ are slow, see make test-cpp
# make test-long the tests that not even .ci/run runs, because they take long; tests/LONG.md says when they ran
# make test-versions  what rests on torch, onnx, ... with their lowest and newest versions; tests/VERSIONS.md: when that was
# make gpu-check  what needs a GPU, in five minutes on one: parity, targets, latency; tests/GPU.md has the results
# make test-cpp  the C++ tests alone, plain and with sanitizers
# make wheels    the source distribution, and a wheel for each platform, in dist
# make docs      the documentation site, in build/docs; needs no network
# make lint      formatting, types and import rules alone
# make clean     remove what the others made
#
# PYTHON=... chooses the interpreter that .venv is made from.

PYTHON ?= python3
BIN := .venv/bin

# In the environment, because pip's isolated builds are to be pinned too; newer versions read the second name there.
export PIP_CONSTRAINT := .ci/constraints.txt
export PIP_BUILD_CONSTRAINT := .ci/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python writes bytecode even where it is told not to: pytest would rewrite each test file again for each process, and
# the hundred commands that tests start would compile the package.
export PYTHONDONTWRITEBYTECODE :=

# One process a core; the tests of a file stay together, because they share what takes long to make. The longest files
# begin (tests/conftest.py).
WORKERS := -n auto --dist loadfile --no-loadscope-reorder

USABLE := $(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))'
BUILT_FROM := pyproject.toml .ci/constraints.txt $(shell find runtime_ops -type f)

.PHONY: install demo check units test test-long test-versions gpu-check test-cpp wheels docs lint clean

install: .venv/installed

.venv/installed: $(BUILT_FROM)
	@$(USABLE) 2>/dev/null || { $(PYTHON) -m venv --clear .venv && $(USABLE); } || \
		{ echo 'expected a Python of 3.11 or newer with venv: apt-get install python3-venv, or PYTHON=...' >&2; exit 1; }
	@# pip would compile the modules of all packages; Python compiles those that are imported.
	$(BIN)/python -m pip install --no-compile --editable '.[dev]'
	touch $@

demo: install
	$(BIN)/python samples/next_word/demo.py

# Side by side: what checks the source has one thread, and the tests wait for the disk now and then.
check: install
	$(MAKE) --jobs=2 --output-sync=target lint units

# What one process computes by itself: no whole models, no runtimes, no other processes.
UNITS := tests/docs tests/english tests/methods tests/ops tests/packed tests/report tests/runtime tests/study

units: install
	$(BIN)/pytest $(WORKERS) -q -m 'not slow' $(UNITS)

# The C++ tests (tests/runtime_ops/test_cpp.py) are slow: to compile them takes a tenth of the time of all others.
test: install
	$(BIN)/pytest $(WORKERS) -m 'not slow'

# What they compare with needs EDGE_EMBED_DATA (samples/*/README.md).
test-long: install
	$(BIN)/pytest -m long --durations=0

test-versions: install
	.ci/test-versions

# Needs onnxruntime-gpu in place of onnxruntime, and torch built for CUDA.
gpu-check: install
	$(BIN)/python -m tests.gpu

test-cpp: install
	$(BIN)/pytest tests/runtime_ops/test_cpp.py -k 'not arm64'

wheels: install
	$(BIN)/python -m release.wheels --output dist

docs: install
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --jobs auto -d build/doctrees docs build/docs

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	find runtime_ops samples -name node_modules -prune -o \( -name '*.cc' -o -name '*.h' \) -print | xargs $(BIN)/clang-format --dry-run -Werror
	$(BIN)/mypy --cache-dir build/mypy edge_embed release samples
	$(BIN)/lint-imports --no-cache --no-logo

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
