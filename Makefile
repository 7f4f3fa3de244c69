# make demo   trains a network on real images over eight devices, fed by a penstock pipeline
# make test   checks format, imports and types, and runs the quick tests: what a change needs, in about 8 minutes
# make test-all   does that, and runs all other tests
# make docs   builds the documentation into docs/_build/html and runs its pages
# make gpu    runs what needs an accelerator: tests, and a benchmark of the ImageNet example
# CI runs `make -j 2 test test-all docs`: two of them at a time fill the seconds in which one has work for a single core. They set
# up what they need in environments of their own: .venv, .venv-plain for the package without its extras, .venv-newer for a newer
# Python, and .venv-release for the tools that build what is published.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
NEWER := .venv-newer
PLAIN := .venv-plain
RELEASE := .venv-release
WORKERS := -n 2 --dist worksteal
# tests of several processes wait for each other now and then, so two cores have work for three
MORE_WORKERS := -n 3 --dist worksteal
# what depends on the interpreter: signatures, traced code, tracebacks, threads, processes, compiled loops, one use of each operator
# but not the marks of loops, for which all would be compiled a second time at once
MARKS := test_loops_of_operators_are_marked_with_the_kinds_that_they_are_called_with
ON_NEWER := $(addprefix tests/,cli eager/test_eager_calls.py engine/failures engine/host engine/jobs engine/test_run.py fn graph \
	$(addprefix iterate/test_,code_version.py iterator.py iterator_factory.py iterator_options.py stored_states.py thread_defaults.py) \
	launch native numerics operators/test_contract.py operators/user_code pipeline testing train/test_checkpoint.py train/test_parallel_step.py \
	train/test_train_loop.py test_extras.py test_newcomer_mistakes.py test_package.py test_typing.py \
	operators/inputs/test_parallel_sources.py::test_workers_are_new_processes_however_dali_would_start_them \
	multiprocess/test_listening.py::test_processes_have_expected_rank_and_devices_and_are_not_reachable \
	multiprocess/test_launch.py::test_first_failure_ends_all_processes) \
	--deselect tests/native/test_precompile_modules.py::$(MARKS)
# what the package does without extras: the README, one use of each operator, decoders; and that it names the extras
ON_PLAIN := $(addprefix tests/,plain/environment.py test_extras.py test_pages.py test_package.py operators/test_contract.py image/codecs)
# properties are searched in .venv; a few examples show what an environment changes
FEW := HYPOTHESIS_PROFILE=few
# modules become bytecode when they are first imported: to compile all of them takes longer than everything else. Images of
# containers often turn that off; then each of the hundreds of processes that the tests start would compile JAX for 4 seconds.
export PYTHONDONTWRITEBYTECODE :=
INSTALL = -m pip install --disable-pip-version-check --no-compile
# Tests, examples and pages compile the same small programs again and again, in hundreds of processes and three environments.
# XLA's compiler takes a third of their time, so they share what it has compiled.
CACHED := JAX_COMPILATION_CACHE_DIR=$(CURDIR)/$(VENV)/jax JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0.05 \
	JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1

# the newest interpreter from 3.12 on that is found and runs, on the path or among pyenv's
NEWER_PYTHON ?= $(shell for python in python3.14 python3.13 python3.12 \
	$$(ls -d $$(pyenv root 2>/dev/null)/versions/3.1[2-9]*/bin/python 2>/dev/null | sort -rV); do \
	$$python -c 'import sys, ssl; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && echo $$python && break; done)

# the tests that passed in `make test`, which `make test-all` does not repeat
PASSED := $(VENV)/.passed

# With `make test-all docs`, two may use .venv at the same time. Then it is complete before the first of them begins.
SHARED := $(VENV)/.test-all $(if $(filter docs,$(MAKECMDGOALS)),$(VENV)/.docs)

.PHONY: demo test test-rest test-all gpu docs linkcheck lint test-plain test-newer environments wheel format clean

demo: $(VENV)/.demo
	@echo "the first run imports its packages for about ten seconds"
	$(BIN)/python examples/train_mnist.py

test: lint
	@echo "test: quick tests of each folder; \`make test-all\` adds jobs of several processes, trainings, DALI and other peers,"
	@echo "test: the package without extras, and a newer Python"
	rm -f $(PASSED)
	$(CACHED) $(BIN)/python -m pytest $(WORKERS) -m "not slow and not measures" --passed=$(PASSED) \
		--ignore tests/multiprocess --ignore tests/test_examples.py --ignore tests/test_benchmarks.py

# the tests that measure come last, after the site, too, if that is wanted
test-all: test $(if $(NEWER_PYTHON),test-newer) test-plain test-rest $(filter docs,$(MAKECMDGOALS))
	$(if $(NEWER_PYTHON),,@echo "test-all: no newer Python was found: tested on $$($(BIN)/python -V) only")
	@echo "test-all: tests that measure, one at a time, with the CPUs for itself"
	$(BIN)/python -m pytest -m measures tests/diagnose

test-rest: test $(SHARED)
	@echo "test-rest: what \`make test\` left out, skipped for want of a package, or did not pass"
	$(CACHED) $(BIN)/python -m pytest $(MORE_WORKERS) -m "not measures" --passed=$(PASSED) --ignore tests/test_examples.py  # test-plain runs it

# JAX_EXTRA=cuda13, or the extra of another plugin, is installed first; DATA=FOLDER has a folder of JPEGs per class
gpu: $(VENV)/.test
	$(if $(JAX_EXTRA),$(BIN)/python $(INSTALL) "jax[$(JAX_EXTRA)]")
	$(BIN)/python -m pytest -m gpu tests/test_gpu.py
	$(BIN)/python benchmarks/imagenet_training.py $(DATA)

# -E: all pages are read, and thus run, each time; otherwise a page that failed would pass in the next build.
# -j 3: Sphinx writes with one process less than it is given, so two would write one page after the other.
# python -m sphinx: the processes that run pages would import the script sphinx-build again.
docs: $(VENV)/.docs
	set -e; for script in $(wildcard docs/make_*.py); do $(BIN)/python $$script; done
	$(BIN)/codespell README.md docs
	$(CACHED) $(BIN)/python -m sphinx -b html -E -W --keep-going -n -j 3 -d docs/_build/doctrees docs docs/_build/html
	$(CACHED) $(BIN)/python -m pytest $(WORKERS) docs/tests

# links to other servers, without running the pages
linkcheck: $(VENV)/.docs
	set -e; for script in $(wildcard docs/make_*.py); do $(BIN)/python $$script; done
	$(BIN)/sphinx-build -b linkcheck -D nb_execution_mode=off -j 2 docs docs/_build/linkcheck

lint: $(VENV)/.types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/check_tree.py
	$(BIN)/python tools/generate_stubs.py --check
	$(BIN)/codespell benchmarks changes examples src tools *.md
	$(BIN)/zizmor --offline --persona=pedantic .github

# a plain `pip install`: no extra, no DALI; the examples get the group examples, in an environment upon it. In CI, it fills the
# minute in which .venv is completed.
test-plain: $(PLAIN)/.python $(RELEASE)/.python | $(filter test,$(MAKECMDGOALS))
	@echo "test-plain: building what is published but the wheel with compiled loops, and installing it in $(PLAIN)"
	rm -rf $(PLAIN)/dist
	$(RELEASE)/bin/python -m build --outdir $(PLAIN)/dist
	$(RELEASE)/bin/twine check --strict $(PLAIN)/dist/*
	$(PLAIN)/bin/python -m pip uninstall --yes --quiet penstock
	$(PLAIN)/bin/python $(INSTALL) $(PLAIN)/dist/*.whl
	@echo "test-plain: README, operators and codecs without extras"
	$(CACHED) $(FEW) $(PLAIN)/bin/python -m pytest $(WORKERS) -m "not slow" $(ON_PLAIN)
	@echo "test-plain: the demo and the other examples, with what the group examples installs"
	$(PLAIN)/examples/bin/python $(INSTALL) --group examples
	$(CACHED) $(PLAIN)/examples/bin/python -m pytest $(WORKERS) tests/test_examples.py

test-newer: $(NEWER)/.test
	$(NEWER)/bin/python -V
	$(CACHED) $(FEW) $(NEWER)/bin/python -m pytest $(WORKERS) -m "not slow" $(ON_NEWER)

# what CI begins with, while the system's packages are installed
environments: $(VENV)/.test $(if $(NEWER_PYTHON),$(NEWER)/.test)

# everything that a release publishes for this Python and platform: sources, the wheel for every platform, and the wheel
# with compiled loops, which takes about two minutes. `make test-all` leaves it out: the loops that it would save from being
# compiled in .venv-plain are needed by the tests in .venv, which find them in the cache.
wheel: $(RELEASE)/.python
	rm -rf dist
	$(RELEASE)/bin/python -m build
	HATCH_BUILD_HOOKS_ENABLE=true $(RELEASE)/bin/python -m build --wheel
	$(RELEASE)/bin/twine check --strict dist/*

format: $(VENV)/.test
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf $(VENV) $(PLAIN) $(NEWER) $(RELEASE) dist out docs/_build

$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --upgrade pip
	touch $@

$(VENV)/.demo: $(VENV)/.python pyproject.toml
	$(BIN)/python $(INSTALL) --editable . --group examples
	touch $@

$(VENV)/.test: $(VENV)/.python pyproject.toml
	@echo "installing the packages of the quick tests: 1.5 GB on disk"
	$(BIN)/python $(INSTALL) --editable . --group test --group lint
	touch $@ $(VENV)/.demo

# pyright takes more than a minute, so it runs only if something changed
$(VENV)/.types: $(VENV)/.test $(shell find src typings -name '*.py' -o -name '*.pyi')
	$(BIN)/pyright --pythonpath $(BIN)/python
	touch $@

# not while the quick tests run, which do without
$(VENV)/.test-all: $(VENV)/.test | $(if $(filter test test-all,$(MAKECMDGOALS)),test)
	@echo "installing what Penstock is compared with, such as DALI: 1.5 GB more"
	$(BIN)/python $(INSTALL) --editable . --group test-all --group dali
	touch $@

$(VENV)/.docs: $(VENV)/.python pyproject.toml | $(if $(filter test-all,$(MAKECMDGOALS)),$(VENV)/.test-all)
	$(BIN)/python $(INSTALL) --editable . --group docs
	touch $@

$(RELEASE)/.python: pyproject.toml
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python $(INSTALL) --upgrade pip
	$(RELEASE)/bin/python $(INSTALL) --group release
	touch $@

# a file of paths makes the packages of the plain environment visible in the one for the examples, and not vice versa
$(PLAIN)/.python: pyproject.toml
	rm -rf $(PLAIN)
	$(PYTHON) -m venv $(PLAIN)
	$(PLAIN)/bin/python $(INSTALL) --upgrade pip
	$(PLAIN)/bin/python $(INSTALL) hypothesis pytest pytest-timeout pytest-xdist
	$(PYTHON) -m venv --without-pip $(PLAIN)/examples
	$(PLAIN)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> $$($(PLAIN)/examples/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/plain.pth
	touch $@

$(NEWER)/.test: pyproject.toml
	$(NEWER_PYTHON) -m venv $(NEWER)
	$(NEWER)/bin/python $(INSTALL) --upgrade pip
	$(NEWER)/bin/python $(INSTALL) --editable . --group test-all
	touch $@
