"""Every test: no log warning goes unnoticed, no thread or child process outlives the test that started it, no clock."""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, settings

# No example is timed: a busy machine takes as long as it takes.
for name, examples in (("evprof", 25), ("thorough", 200)):  # `make test-all` takes the second
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
settings.load_profile("evprof")

LIMIT_S = 300.0
"""How long a test waits for what must happen; far beyond what it takes on a machine that is busy with other things."""

_QUIET = ("matplotlib", "PIL")

_OF_LIBRARIES = ("resource_tracker", "torch/_inductor/compile_worker")
"""In the command lines of child processes that libraries keep for their process's life."""


_COMPUTING = ("engine", "cli", "frozen", "interpreted")
"""Folders of tests that may import torch."""

_WITHOUT_QT = ("core", "loaders", "session", "run", "metrics", "export", "view", "models")
"""Folders of tests that import neither torch nor Qt."""

_end = pytest.StashKey[float]()
_ran = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--for-seconds", type=float, help="begin no test after so long; at least one test has to run")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_ran] = set[str]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Starts the time limit, and exempts collected objects from garbage collection.

    Tests of the window collect garbage after every test.
    """
    if "torch" in sys.modules and not any(_folder(item.path) in _COMPUTING for item in session.items):
        raise pytest.UsageError(f"torch was imported while tests were collected of which only {_COMPUTING} may")
    gc.collect()
    gc.freeze()
    limit = session.config.getoption("--for-seconds")
    session.config.stash[_end] = math.inf if limit is None else time.monotonic() + limit


def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.monotonic() > item.config.stash[_end]:
        pytest.skip("left to make test")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and not report.skipped:
        item.config.stash[_ran].add(item.nodeid)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Under a time limit, fails if no test has run."""
    if session.config.getoption("--for-seconds") is not None and not session.config.stash[_ran]:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def pytest_unconfigure(config: pytest.Config) -> None:
    """Prints under a time limit how many tests have run, after pytest's own closing line."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if config.getoption("--for-seconds") is not None and reporter is not None:
        reporter.write_line(f"ran {len(config.stash[_ran]):,} of {reporter._numcollected:,} tests")


def _folder(path: Path) -> str:
    return path.relative_to(Path(__file__).parent).parts[0]


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(level=logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith(_QUIET):
            self.lines.append(f"{record.name}: {record.getMessage()}")


@pytest.fixture(autouse=True)
def log_warnings_fail(request: pytest.FixtureRequest) -> Iterator[None]:
    """A warning in any log fails the test, unless it is marked `logs_warnings`."""
    collector = _Collector()
    logging.getLogger().addHandler(collector)
    yield
    logging.getLogger().removeHandler(collector)
    if request.node.get_closest_marker("logs_warnings") is None and collector.lines:
        pytest.fail("logged: " + "; ".join(collector.lines))


@pytest.fixture(autouse=True)
def imports_no_more_than_its_folder_may(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test whose folder does without torch, or without Qt, and which imports it first in its process."""
    folder = _folder(request.path)
    excluded = {"torch"} if folder not in _COMPUTING else set()
    if folder in _WITHOUT_QT:
        excluded.add("PySide6")
    excluded -= sys.modules.keys()
    yield
    if imported := excluded & sys.modules.keys():
        pytest.fail(f"imported {', '.join(imported)}; tests/{folder} does without it")


@pytest.fixture(autouse=True)
def nothing_left_running(request: pytest.FixtureRequest) -> Iterator[None]:
    """Threads and child processes that a test starts end with it; those told to stop get time to do so."""
    threads_before, children_before = _threads(), _children()
    yield
    if (apart := "evprof.loaders.videos.apart") in sys.modules:
        import_module(apart).decode_here()  # a thread may just be importing it: that is waited for
    if request.node.get_closest_marker("leaves_threads") is not None:
        return
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline and (_threads() - threads_before or _children() - children_before):
        time.sleep(0.02)
    threads = [thread.name for thread in _threads() - threads_before]
    if threads:
        pytest.fail(f"threads left running: {threads}")
    if children := _children() - children_before:
        for child in children:
            with contextlib.suppress(psutil.Error):
                psutil.Process(child).kill()
        pytest.fail(f"child processes left running: {sorted(children)}")


def _threads() -> set[threading.Thread]:
    # Libraries keep pools of daemon threads for their process's life; our own threads are all named.
    return {thread for thread in threading.enumerate() if thread.is_alive() and thread.name.startswith("evprof")}


def _children() -> set[int]:
    found = set()
    for pid in _child_pids():
        try:
            child = psutil.Process(pid)
            words = " ".join(child.cmdline())
            if child.status() != psutil.STATUS_ZOMBIE and not any(name in words for name in _OF_LIBRARIES):
                found.add(child.pid)
        except psutil.Error:
            continue
    return found


def _child_pids() -> list[int]:
    # Linux lists the children of each thread; psutil reads every process of the machine, which takes a hundred times
    # as long, twice for each test.
    lists = list(Path("/proc/self/task").glob("*/children"))
    if not lists:
        return [child.pid for child in psutil.Process().children()]
    found: list[int] = []
    for path in lists:
        with contextlib.suppress(OSError):  # a thread that has ended since
            found += map(int, path.read_text().split())
    return found


@pytest.fixture
def wait_until() -> Callable[..., Any]:
    """Waits until a condition gives something true, and gives that; fails the test when it does not come."""

    def wait(condition: Callable[[], Any], *, meanwhile: Callable[[], object] = lambda: None) -> Any:
        deadline = time.monotonic() + LIMIT_S
        while not (found := condition()):
            if time.monotonic() > deadline:
                pytest.fail(f"did not happen within {LIMIT_S:.0f} s")
            meanwhile()
            time.sleep(0.005)
        return found

    return wait
