# Every target is complete on a fresh machine with Python 3.11+ and make: it sets up .venv first.
PYTHON ?= python3
BIN := .venv/bin
# One stamp for each set of packages. The larger sets contain the smaller ones.
CORE := .venv/.core
STUDIO := .venv/.studio
DEV := .venv/.dev
# Tests of one file share prepared scenes, so a file stays in one process.
PYTEST := $(BIN)/pytest -n auto --dist loadfile
INSTALL = $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e

.PHONY: help setup demo studio reproduce check test test-long test-browser lint bench fuzz kill extremes clean

help:
	@echo "make demo   a ball is bowled at ten pins made of Gaussians: film, page, glb"
	@echo "make studio a scene in the browser: click an object, pull its arrow, download the result"
	@echo "make reproduce  the paper: every table, figure and claim on one page, an hour on two cores; resumes"
	@echo "make check  lint, type check and the quick tests"
	@echo "make test   lint, type check and every test but the longest"
	@echo "make test-long  the longest tests: Ray, the paper's full tables, kills, the wheel"
	@echo "make bench  speed of every part, beside its limit and its peers"
	@echo "make fuzz N=100000  damaged files through every reader; resumes where it stopped"
	@echo "make kill N=200     signals at random moments of every command that writes; resumes too"
	@echo "make extremes N=10000000  extreme states through both engines and every fast path"
	@echo "make setup  only the environment in .venv, with everything the tests need"

setup: $(DEV)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "newtongs needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv .venv

$(CORE): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) '.[formats,video]'
	@touch $@

$(STUDIO): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) '.[formats,studio,video]'
	@touch $@ $(CORE)

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) '.[dev]'
	@touch $@ $(STUDIO) $(CORE)

demo: $(CORE)
	$(BIN)/newtongs animate bowling --out demo --loose --velocity 6 0 0.15 --spin 0 0 -24 --mass 3 \
	  --restitution 0.3 --seconds 2.5 --size 640 360
	@echo
	@echo "Look at demo/bowling.mp4 and demo/bowling.png; open demo/bowling.html in a browser, it needs no network."
	@echo "Then try a capture of your own:"
	@echo "  $(BIN)/newtongs inspect SCENE.ply"
	@echo "  $(BIN)/newtongs animate SCENE.ply --out moving --velocity 1.5 3 0 --spin 0 0 -4"
	@echo "  $(BIN)/newtongs animate SCENE.ply --out moving --background kitchen_table"

studio: $(STUDIO)
	$(BIN)/newtongs studio

# QUICK=--quick takes small data: minutes.
reproduce: $(DEV)
	$(BIN)/newtongs reproduce --out report --small $(QUICK)

# NEWTONGS_BROWSER names a folder with playwright-core; see tests/test_export_browser.py.
test-browser: $(DEV)
	$(PYTEST) tests/test_export_browser.py tests/test_studio_browser.py

check: lint
	$(PYTEST) -m "not slow and not long"

test: lint
	$(PYTEST) -m "not long"

test-long: $(DEV)
	$(PYTEST) -m long

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(DEV)
	for part in state32 gaussian32 same32 dynamics rollout training context formats compression captures transform render film export \
	  animate world nearby rooms studio studio_walk factory factory_films factory_warp style; do \
	  $(BIN)/python -W ignore benchmarks/$$part.py || exit; done

# Hours at the sizes of SECURITY.md; the suite runs a slice of each.
fuzz: $(DEV)
	$(BIN)/python tests/harness/fuzz.py --files $(or $(N),10000)

kill: $(DEV)
	$(BIN)/python tests/harness/kill.py --kills $(or $(N),60)

extremes: $(DEV)
	$(BIN)/python tests/harness/extremes.py --states $(or $(N),100000)

clean:
	rm -rf .venv demo build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
