"""How the window's thread gives way to the engine: a lower priority, and processes that do not inherit it.

Linux keeps a priority ("nice") for each thread. Anybody may lower one; raising it again takes rights that ordinary
users do not have, so it may stay low. A process has the priority of the thread that starts it: what measures must not
be started by a lowered one. Elsewhere nothing is lowered.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

LOWER_BY = 10
"""Steps of nice: of a processor that both want, an ordinary thread gets nine times as much."""

_Result = TypeVar("_Result")


class GivingWay:
    """The priority of one thread, the one that calls `begin` first; not for others."""

    def __init__(self) -> None:
        self._ordinary = 0
        self._starter: ThreadPoolExecutor | None = None
        self.is_lowered = False
        """Whether other threads go first; stays once it cannot be undone."""
        self.is_sparing = False
        """Whether the thread is to do less as well: what is measured needs the few cores there are."""
        self.stretch = 1.0
        """How many times as long as usual it waits from one piece of work to the next."""

    def begin(self) -> None:
        """From now on others go first."""
        if sys.platform != "linux" or self.is_lowered:
            return
        if self._starter is None:
            from concurrent.futures import ThreadPoolExecutor  # not at the window's start

            self._starter = ThreadPoolExecutor(1, "evprof-starter")
            self._starter.submit(int).result()  # its thread is made now, and has the priority of now
        thread = threading.get_native_id()
        self._ordinary = os.getpriority(os.PRIO_PROCESS, thread)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, self._ordinary + LOWER_BY)
            self.is_lowered = True

    def end(self) -> None:
        """As before, where that is allowed."""
        if sys.platform == "linux" and self.is_lowered:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._ordinary)
                self.is_lowered = False

    def close(self) -> None:
        """Lets the thread go that starts processes; one that could not be raised again is still needed."""
        self.end()
        self.is_sparing, self.stretch = False, 1.0
        if self._starter is not None and not self.is_lowered:
            self._starter.shutdown()
            self._starter = None

    def start(self, work: Callable[[], _Result]) -> _Result:
        """Does `work`, which starts a process, so that the process has ordinary priority; from any thread."""
        return work() if self._starter is None else self._starter.submit(work).result()


WINDOW = GivingWay()
"""The window's thread: a process has one."""
