"""One errand at a time on a thread, of which only the newest counts: for figures that take longer than a frame."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal

MANY_RUNS = 50
"""Figures of more runs are worked out by an errand."""


class NewestErrand(QObject):
    """Runs what was asked for last; answers to what was asked before are dropped.

    Signals:
        done(object): the result, on the window's thread; None when the work failed, or goes on (`begin`).
    """

    done = Signal(object)
    _came = Signal(int, object)

    def __init__(self, name: str, parent: QObject | None = None) -> None:
        """`name` is the thread's."""
        super().__init__(parent)
        self._name = name
        self._lock = threading.Lock()
        self._asked = self._answered = 0
        self._work: Callable[[], Any] | None = None
        self._thread: threading.Thread | None = None
        self._came.connect(self._take, Qt.ConnectionType.QueuedConnection)

    @property
    def is_busy(self) -> bool:
        with self._lock:
            return self._answered != self._asked

    def ask(self, work: Callable[[], Any]) -> None:
        """Wants the result of `work`, which must touch no widget, instead of whatever was asked for before."""
        with self._lock:
            self._asked += 1
            self._work = work
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def begin(self, work: Callable[[], Any], runs: int) -> None:
        """Does `work` over so many runs at once; over more than `MANY_RUNS` emits None, and does it on the thread."""
        self.forget()
        if runs > MANY_RUNS:
            self.done.emit(None)
            self.ask(work)
        else:
            self.done.emit(work())

    def forget(self) -> None:
        with self._lock:
            self._asked += 1
            self._answered = self._asked
            self._work = None

    def wait(self, timeout_s: float = 10.0) -> None:
        """Waits for the thread's end; who owns it must call this before it goes away."""
        self.forget()
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            with self._lock:
                work, self._work, number = self._work, None, self._asked
                if work is None:
                    self._thread = None
                    return
            try:
                result = work()
            except BaseException:
                # A defect: the window's net tells it, and the next errand gets a thread of its own.
                with self._lock:
                    self._thread = None
                self._came.emit(number, None)
                raise
            self._came.emit(number, result)

    def _take(self, number: int, result: object) -> None:
        if number == self._asked:
            self._answered = number
            self.done.emit(result)
