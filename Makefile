.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' Makefile)
PYTHON := .venv/bin/python
# Tests start a thousand programs: none compiles evprof for itself.
unexport PYTHONDONTWRITEBYTECODE

help:  # this list
	@sed -n 's/^\([a-z-]*\):[^#]*# /  make \1\t/p' Makefile | expand -t 21

# What running takes; `setup` adds what testing takes.
ready:
	@packaging/setup.sh

setup:
	@packaging/setup.sh dev

run: ready  # set up once, then open the window with a demo running in it (without a display: headless, with a picture)
	@$(PYTHON) -m evprof demo

lint: setup
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-cache

format: setup  # let ruff format
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

# The ground floor, in an environment that has neither Qt nor torch; test-main runs all other tests.
LIGHT := tests/core tests/loaders tests/session tests/run tests/metrics tests/export tests/view tests/models

test-light: setup
	@packaging/test_light.sh $(LIGHT)

test-main: setup
	@QT_QPA_PLATFORM=offscreen OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n 2 --dist worksteal $(LIGHT:%=--ignore=%)

# All three, whatever comes of them; each is told in a line at the end. The first two run beside the third.
test: setup  # check everything: lint, the tests that need neither Qt nor torch, all others
	@$(PYTHON) packaging/check.py lint test-light test-main

test-near: setup
	@QT_QPA_PLATFORM=offscreen OMP_NUM_THREADS=1 $(PYTHON) packaging/nearest_tests.py

quick: setup  # while you edit: lint, and for a minute the tests nearest to what you changed
	@$(PYTHON) packaging/check.py lint test-near

bench-check: setup  # measure the ratios that are promised
	@OMP_NUM_THREADS=1 $(PYTHON) packaging/bench_check.py

fuzz: setup  # feed every parser damaged files for half an hour (SECONDS=600 for each, PARSER=npy for one)
	@$(PYTHON) packaging/fuzz/run.py --seconds $(or $(SECONDS),40) $(PARSER:%=--parser %)

docs: setup  # build the documentation as a site that opens from disk: assets/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --quiet
	@echo "assets/site/index.html"

faults: setup  # kill 200 programs at random moments, and tell what is left of their sessions
	@PYTHONPATH=.:packaging OMP_NUM_THREADS=1 $(PYTHON) -m faults.kill --kills 200 --out out/faults

soak: setup  # use evprof for very long, and tell whether it grows
	@PYTHONPATH=.:packaging:tests OMP_NUM_THREADS=1 $(PYTHON) -m faults.soak --out out/soak

pictures: setup  # draw the documentation's pictures anew, and every panel and dialog of the window: out/pictures
	@OMP_NUM_THREADS=1 $(PYTHON) packaging/site_pictures.py
	@OMP_NUM_THREADS=1 PYTHONPATH=. $(PYTHON) packaging/window_pictures.py out/pictures

frozen: docs  # build the frozen program and try it
	@packaging/setup.sh dev frozen
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target build/bundled \
		"$$(packaging/ffmpeg/build.sh build/wheels $(PYTHON) | tail -1)"
	@PYTHONPATH=build/bundled packaging/frozen/build.sh
	@$(PYTHON) packaging/selftest.py dist/evprof/evprof

installer: frozen  # build of it a .deb, a .run and a .tar.zst in dist
	@LC_ALL=C.UTF-8 $(PYTHON) packaging/installer/make.py dist/evprof dist

wheel: setup  # build the wheel and the source archive: dist
	@$(PYTHON) -m hatchling build -d dist

release: setup  # changelog, commit, all files with checksums, tag; SHOW=1 only shows the steps
	@$(PYTHON) packaging/release.py $(if $(SHOW),--dry-run)

release-files: setup
	@$(PYTHON) packaging/release.py --files

# Where the packages of torch's CUDA build can be downloaded (2.7 GB); `evprof cuda install` then needs no network.
cuda-addon: ready  # download the CUDA add-on for this Python: dist/evprof-cuda
	@$(PYTHON) packaging/addon/wheelhouse.py dist/evprof-cuda

clean:  # remove what was built
	rm -rf build dist out assets/site .pytest_cache .mypy_cache .ruff_cache .hypothesis
