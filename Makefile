# make demo   trains a network on real images over eight devices, fed by a penstock pipeline
# make test   checks everything that CI checks
# Both set up what they need in environments of their own: .venv, and .venv-newer for a newer Python.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
NEWER := .venv-newer
# tests of several processes wait for each other now and then, so two cores have work for three
WORKERS := -n 3 --dist worksteal
# what says little about Python and JAX
ON_ONE_PYTHON := $(addprefix --ignore tests/,data ops plan rocal test_benchmarks.py test_examples.py \
	$(addprefix operators/,decoders filters follow geometry image tensors))
# modules become bytecode when they are first imported: to compile all of them takes longer than everything else
INSTALL = -m pip install --disable-pip-version-check --no-compile

# the newest interpreter from 3.12 on that is found and runs, on the path or among pyenv's
NEWER_PYTHON ?= $(shell for python in python3.14 python3.13 python3.12 \
	$$(ls -d $$(pyenv root 2>/dev/null)/versions/3.1[2-9]*/bin/python 2>/dev/null | sort -rV); do \
	$$python -c 'import sys, ssl; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && echo $$python && break; done)

.PHONY: demo test lint test-newer format clean

demo: $(VENV)/.demo
	@echo "the first run imports its packages for about ten seconds"
	$(BIN)/python examples/train_mnist.py

test: lint
	$(BIN)/python -m pytest $(WORKERS)
	$(if $(NEWER_PYTHON),$(MAKE) --no-print-directory test-newer,@echo "no newer Python was found: tested on $$($(BIN)/python -V) only")

lint: $(VENV)/.test
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports --no-logo
	$(BIN)/pyright --pythonpath $(BIN)/python

test-newer: $(NEWER)/.test
	$(NEWER)/bin/python -V
	$(NEWER)/bin/python -m pytest $(WORKERS) -m "not slow" tests $(ON_ONE_PYTHON)

format: $(VENV)/.test
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf $(VENV) $(NEWER) out

$(VENV)/.python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --upgrade pip
	touch $@

$(VENV)/.demo: $(VENV)/.python pyproject.toml
	$(BIN)/python $(INSTALL) --editable . --group examples
	touch $@

$(VENV)/.test: $(VENV)/.python pyproject.toml
	$(BIN)/python $(INSTALL) --editable . --group test --group lint --group dali
	touch $@ $(VENV)/.demo

$(NEWER)/.test: pyproject.toml
	$(NEWER_PYTHON) -m venv $(NEWER)
	$(NEWER)/bin/python $(INSTALL) --upgrade pip
	$(NEWER)/bin/python $(INSTALL) --editable . --group test
	touch $@
