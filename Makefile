# make run           set up once, then open the window with the bundled demo (without a display: headless, with a picture)
# make test          set up once, then check everything
# make quick         what one edits: lint, and for a minute the tests nearest to what is changed
# make bench-check   the ratios that are promised, measured
.PHONY: run test quick bench-check test-light test-main test-near lint format setup frozen clean
PYTHON := .venv/bin/python

setup:
	@packaging/setup.sh dev

run: setup
	@$(PYTHON) -m evprof demo

lint: setup
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-cache

format: setup
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

# The ground floor, in an environment that has neither Qt nor torch; test-main runs all other tests.
LIGHT := tests/core tests/loaders tests/session tests/run tests/metrics tests/export tests/view tests/models

test-light: setup
	@packaging/test_light.sh $(LIGHT)

test-main: setup
	@QT_QPA_PLATFORM=offscreen OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n 2 --dist worksteal $(LIGHT:%=--ignore=%)

# All three, whatever comes of them; each is told in a line at the end. The first two run beside the third.
test: setup
	@$(PYTHON) packaging/check.py lint test-light test-main

test-near: setup
	@QT_QPA_PLATFORM=offscreen OMP_NUM_THREADS=1 $(PYTHON) packaging/nearest_tests.py

quick: setup
	@$(PYTHON) packaging/check.py lint test-near

bench-check: setup
	@OMP_NUM_THREADS=1 $(PYTHON) packaging/bench_check.py

frozen:
	@packaging/setup.sh dev frozen
	@.venv/bin/pyinstaller --noconfirm --distpath dist --workpath build packaging/evprof.spec
	@$(PYTHON) packaging/selftest.py dist/evprof/evprof

clean:
	rm -rf build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis
