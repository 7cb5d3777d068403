"""Ctrl-C while something runs in this process: the first one asks it to stop, the second one breaks it off."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def first_interrupt(stops: Callable[[], None]) -> Iterator[None]:
    """Inside, the first Ctrl-C calls `stops` and the next one raises KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
        return

    interrupts = 0

    def hear(_number: int, _frame: FrameType | None) -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            raise KeyboardInterrupt
        stops()

    before = signal.signal(signal.SIGINT, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def stop_flag(tell: Callable[[], None] = lambda: None) -> Iterator[threading.Event]:
    """A flag that the first Ctrl-C sets, after which `tell` is called."""
    stop = threading.Event()

    def stops() -> None:
        stop.set()
        tell()

    with first_interrupt(stops):
        yield stop
