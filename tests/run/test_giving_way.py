"""The window's thread gives way while something is measured; what measures does not."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from evprof.run.processes.giving_way import LOWER_BY, GivingWay

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux alone")


def _nice() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def _in_a_thread(work: Callable[[], None]) -> None:
    """A thread of its own: where a priority may not be raised again, the test's own stays as it is."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def test_one_thread_is_lowered_and_what_it_starts_is_not() -> None:
    def work() -> None:
        before, way = _nice(), GivingWay()
        way.begin()
        way.begin()  # once is enough
        try:
            assert way.is_lowered
            assert _nice() == min(19, before + LOWER_BY)
            assert way.start(_nice) == before
        finally:
            way.end()
            is_back = not way.is_lowered
            way.close()
            if way._starter is not None:
                way._starter.shutdown()
        assert _nice() == (before if is_back else min(19, before + LOWER_BY))

    _in_a_thread(work)


def test_without_a_begin_work_is_done_in_place() -> None:
    way = GivingWay()
    assert way.start(threading.get_ident) == threading.get_ident()
    way.end()
    way.close()
    assert not way.is_lowered


def test_where_a_priority_may_not_be_raised_it_stays_and_so_does_who_starts_processes(monkeypatch) -> None:
    now = {"nice": 0}

    def set_priority(_which: int, _who: int, priority: int) -> None:
        if priority < now["nice"]:
            raise PermissionError
        now["nice"] = priority

    monkeypatch.setattr(os, "getpriority", lambda _which, _who: now["nice"])
    monkeypatch.setattr(os, "setpriority", set_priority)
    way = GivingWay()
    way.begin()
    way.end()
    assert way.is_lowered
    way.begin()
    assert now["nice"] == LOWER_BY  # not twice as low
    way.close()
    assert way._starter is not None
    assert way.start(lambda: 7) == 7
    way._starter.shutdown()
