# Every target is complete on a fresh machine with Python 3.11+ and make: it sets up .venv first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: help setup demo test lint bench clean

help:
	@echo "make demo   a small State-32, the baselines against the paper, one picture"
	@echo "make test   lint, type check and the whole test suite"
	@echo "make bench  speed of data generation and evaluation"
	@echo "make setup  only the environment in .venv"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "newtongs needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)
	$(BIN)/newtongs data state32 --out demo/state32 --per-motion 64
	$(BIN)/newtongs evaluate --data demo/state32 --compare
	$(BIN)/newtongs figure motions --out demo/motions.png
	@echo
	@echo "Look at demo/motions.png. With 64 sequences a motion the figures above carry a sampling"
	@echo "error of a few percent; at the paper's size (50 s and 7.4 GB) they agree to 0.4 %:"
	@echo "  $(BIN)/newtongs data state32 --out data/state32"
	@echo "  $(BIN)/newtongs evaluate --data data/state32 --compare --per-motion"

test: lint
	$(BIN)/pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python benchmarks/state32.py

clean:
	rm -rf .venv demo build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
