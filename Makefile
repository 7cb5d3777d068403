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

format: setup  # let ruff format
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

style: setup
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .

# Keyed by the pins: clones and worktrees share what mypy knows about the same packages.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/evprof
types: setup
	@MYPY_CACHE_DIR=$(CACHE)/mypy/$(word 1,$(shell cksum constraints.txt)) .venv/bin/mypy

layers: setup
	@.venv/bin/lint-imports --no-cache

lint: setup  # check style, types and layers, without tests
	@$(PYTHON) packaging/check.py style types layers

# Each list of folders is one pytest process. Only the first two import torch, and the last imports no Qt either.
PYTEST := QT_QPA_PLATFORM=offscreen OMP_NUM_THREADS=1 $(PYTHON) -m pytest -q --durations=30 \
	$(if $(ALL),--hypothesis-profile=thorough,-m "not whole")

test-engine: setup
	@$(PYTEST) tests/engine

test-commands: setup
	@$(PYTEST) tests/cli tests/frozen

test-window: setup
	@$(PYTEST) tests/gui tests/architecture

test-ground: setup
	@$(PYTEST) tests/core tests/loaders tests/session tests/run tests/metrics tests/export tests/view tests/models

# The longest first.
CHECKS := style test-engine test-window test-commands test-ground types layers

test: setup  # check what every change has to pass: style, types, layers, and all tests but those of whole programs
	@$(PYTHON) packaging/check.py $(CHECKS)

# Without pins: newer packages than ours come in, as on a stranger's machine.
try-wheel: setup
	@$(PYTHON) packaging/try_wheel.py

test-all: setup  # the same with tests of whole programs, eight times as many examples, and the wheel without pins
	@ALL=1 $(PYTHON) packaging/check.py $(CHECKS) try-wheel

test-near: setup
	@QT_QPA_PLATFORM=offscreen OMP_NUM_THREADS=1 $(PYTHON) packaging/nearest_tests.py

quick: setup  # while you edit: lint, and for a minute the tests nearest to what you changed
	@$(PYTHON) packaging/check.py style test-near types layers

bench: setup  # run a benchmark of evprof itself: NAME=ui, events, video, parts, sessions, coverage, engine, engine-process
	@$(PYTHON) tests/benchmarks/run.py $(NAME)

bench-check: setup  # measure the ratios that are promised
	@OMP_NUM_THREADS=1 $(PYTHON) packaging/bench_check.py

fuzz: setup  # feed every parser damaged files for half an hour (SECONDS=600 for each, PARSER=npy for one)
	@$(PYTHON) packaging/fuzz/run.py --seconds $(or $(SECONDS),40) $(PARSER:%=--parser %)

docs: setup  # build the documentation as a site that opens from disk: assets/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --quiet
	@echo "assets/site/index.html"

faults: setup  # kill 200 programs at random moments, and check what remains
	@$(PYTHON) packaging/kills.py --kills 200 --out out/kills

soak: setup  # use evprof for a long time, and check that it does not grow
	@OMP_NUM_THREADS=1 $(PYTHON) packaging/soak.py

pictures: setup  # draw the documentation's pictures anew, and every panel and dialog of the window: out/pictures
	@OMP_NUM_THREADS=1 $(PYTHON) packaging/site_pictures.py
	@OMP_NUM_THREADS=1 PYTHONPATH=.:tests $(PYTHON) packaging/window_pictures.py out/pictures

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

# Where the packages of torch's CUDA build can be downloaded (2.7 GB); `evprof doctor --install-cuda` then needs no network.
cuda-addon: ready  # download the CUDA add-on for this Python: dist/evprof-cuda
	@$(PYTHON) packaging/addon/wheelhouse.py dist/evprof-cuda

clean:  # remove what was built
	rm -rf build dist out assets/site .pytest_cache .mypy_cache .ruff_cache .hypothesis
