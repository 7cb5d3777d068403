"""How much of the processors is idle: what the operating system counts, between two looks."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import psutil
import pytest

from evprof.loaders.videos import track
from evprof.run.processes.idle_cores import IdleCores


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time now and how long the processors have idled, of a machine whose every processor may be used."""
    now = SimpleNamespace(s=1000.0, idle=500.0, iowait=20.0)
    monkeypatch.setattr(time, "monotonic", lambda: now.s)
    monkeypatch.setattr(psutil, "cpu_times", lambda: SimpleNamespace(idle=now.idle, iowait=now.iowait))
    monkeypatch.setattr(track, "usable_threads", os.cpu_count)
    return now


def test_idle_time_is_told_since_the_last_look(clock: SimpleNamespace) -> None:
    cores = IdleCores()
    assert cores.since_last() == 0.0  # nobody has looked before
    clock.s, clock.idle, clock.iowait = 1002.0, 502.0, 21.0
    assert cores.since_last() == pytest.approx(1.5)
    clock.s = 1003.0
    assert cores.since_last() == 0.0
    assert cores.since_last() == 0.0  # in the same moment


def test_nothing_is_told_where_others_may_have_the_other_processors(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(track, "usable_threads", lambda: (os.cpu_count() or 1) - 1)
    cores = IdleCores()
    cores.since_last()
    clock.s, clock.idle = 1002.0, 504.0
    assert cores.since_last() == 0.0
