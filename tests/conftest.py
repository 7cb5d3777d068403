"""Every test: no log warning goes unnoticed, and no thread or child process outlives the test that started it."""

from __future__ import annotations

import importlib.util
import logging
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

_QUIET = ("matplotlib", "PIL")


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
def nothing_left_running(request: pytest.FixtureRequest) -> Iterator[None]:
    """Threads and child processes that a test starts end with it; a second of grace for those told to stop."""
    threads_before, children_before = _threads(), _children()
    yield
    if request.node.get_closest_marker("leaves_threads") is not None:
        return
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline and (_threads() - threads_before or _children() - children_before):
        time.sleep(0.02)
    threads = [thread.name for thread in _threads() - threads_before]
    if threads:
        pytest.fail(f"threads left running: {threads}")
    if children := _children() - children_before:
        pytest.fail(f"child processes left running: {sorted(children)}")


def _threads() -> set[threading.Thread]:
    # Libraries keep pools of daemon threads for their process's life; our own threads are all named.
    return {thread for thread in threading.enumerate() if thread.is_alive() and thread.name.startswith("evprof")}


def _children() -> set[int]:
    import psutil

    found = set()
    for child in psutil.Process().children():
        try:
            if child.status() != psutil.STATUS_ZOMBIE and "resource_tracker" not in " ".join(child.cmdline()):
                found.add(child.pid)
        except psutil.Error:
            continue
    return found


@pytest.fixture(scope="session")
def legacy_shapes() -> ModuleType:
    """The builders of small result files in `legacy_shapes.py` and `legacy_family_shapes.py`, as one."""
    module, others = (_module_beside(name) for name in ("legacy_shapes", "legacy_family_shapes"))
    vars(module).update({name: value for name, value in vars(others).items() if not name.startswith("__")})
    return module


def _module_beside(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def cell_runs() -> ModuleType:
    """The builder of configurations in `cell_runs.py`."""
    spec = importlib.util.spec_from_file_location("cell_runs", Path(__file__).with_name("cell_runs.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclass looks its own module up.
    sys.modules["cell_runs"] = module
    spec.loader.exec_module(module)
    return module
