"""The window's thread gives way while something is measured; what it starts does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no nice of its own")

PROGRAM = """
import concurrent.futures.thread, os, subprocess, sys, threading
from evprof.run.processes.giving_way import GivingWay

def nice(): return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
def child(): return int(subprocess.run(["/bin/sh", "-c", "nice"], capture_output=True).stdout)

if sys.argv[1] == "ordinary" and os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
way, before = GivingWay(), nice()
found = [way.start(child) - before]
way.begin()
way.begin()
found += [nice() - before, child() - before, way.start(child) - before]
other = []
thread = threading.Thread(target=lambda: other.append(way.start(child) - before))
thread.start()
thread.join()
way.end()
found += [*other, nice() - before, int(way.is_lowered), way.start(child) - before]
print(found)
"""


def _found(who: str) -> list[int]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, who], capture_output=True, text=True, check=True)
    return [int(part) for part in done.stdout.strip("[]\n").split(",")]


def test_who_may_not_raise_it_again_stays_low_and_starts_processes_as_before() -> None:
    assert _found("ordinary") == [0, 10, 10, 0, 0, 10, 1, 0]


def test_who_may_raise_it_does_so_when_nothing_is_measured_any_more() -> None:
    *during, after, is_lowered, started = _found("as we are")
    assert during == [0, 10, 10, 0, 0]
    # Whether we may is the system's to say; both ends fit together.
    assert (after, is_lowered) in ((0, 0), (10, 1))
    assert started == 0
