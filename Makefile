# Every target is complete on a fresh machine with Python 3.11+ and make: it sets up .venv first.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: help setup demo studio test test-browser lint bench fuzz kill extremes clean

help:
	@echo "make demo   a ball knocks over ten pins made of Gaussians: film, page, glb"
	@echo "make studio a scene in the browser: click an object, pull its arrow, download what happens"
	@echo "make test   lint, type check and the whole test suite"
	@echo "make bench  speed of every part, beside its limit and its peers"
	@echo "make fuzz N=100000  damaged files through every reader; goes on where it stopped"
	@echo "make kill N=200     signals at random moments of every command that writes; likewise"
	@echo "make extremes N=10000000  extreme states through both engines and every fast path"
	@echo "make setup  only the environment in .venv"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "newtongs needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)
	$(BIN)/newtongs animate bowling --out demo --loose --velocity 6 0 0.15 --spin 0 0 -24 --mass 3 \
	  --restitution 0.3 --seconds 2.5 --size 640 360
	@echo
	@echo "Look at demo/bowling.mp4 and demo/bowling.png; open demo/bowling.html in a browser, it needs no network."
	@echo "Then try a capture of your own:"
	@echo "  $(BIN)/newtongs inspect SCENE.ply"
	@echo "  $(BIN)/newtongs animate SCENE.ply --out moving --velocity 1.5 3 0 --spin 0 0 -4"
	@echo "  $(BIN)/newtongs animate SCENE.ply --out moving --background kitchen_table"

studio: $(STAMP)
	$(BIN)/newtongs studio

# NEWTONGS_BROWSER names a folder with playwright-core; see tests/test_export_browser.py.
test-browser: $(STAMP)
	$(BIN)/pytest tests/test_export_browser.py tests/test_studio_browser.py

test: lint
	$(BIN)/pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	for part in state32 gaussian32 same32 dynamics rollout training context formats compression captures transform render film export \
	  animate world nearby studio studio_walk factory factory_films factory_warp style; do \
	  $(BIN)/python -W ignore benchmarks/$$part.py || exit; done

# Hours at the sizes of SECURITY.md; the suite runs a slice of each.
fuzz: $(STAMP)
	$(BIN)/python tests/harness/fuzz.py --files $(or $(N),10000)

kill: $(STAMP)
	$(BIN)/python tests/harness/kill.py --kills $(or $(N),60)

extremes: $(STAMP)
	$(BIN)/python tests/harness/extremes.py --states $(or $(N),100000)

clean:
	rm -rf .venv demo build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
