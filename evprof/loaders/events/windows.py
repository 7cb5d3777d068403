"""Cuts a recording into consecutive windows of fixed duration or fixed event number; every event is in exactly one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.recording import NO_EVENTS, EventRecording, joined

MOST_WINDOWS = 10_000_000
"""Time windows that one recording may make: 2.8 hours of milliseconds."""


@dataclass(frozen=True, eq=False)
class EventWindow:
    """Events of start_us <= t < stop_us, in file order; there may be none."""

    start_us: int
    stop_us: int
    events: EventArray


def windows_by_time(source: EventRecording | EventArray, window_us: int) -> Iterator[EventWindow]:
    """Windows of `window_us` each from the earliest event on, empty ones included, up to the one with the last event.

    An open recording is read once, in chunks, and only two windows and a chunk are held. Times may run backwards by as
    much as one window; raises UserError for more, and for a window length that makes more than MOST_WINDOWS.
    """
    if window_us < 1:
        raise UserError(f"Time windows must be at least 1 µs long, not {window_us}.")
    if isinstance(source, EventRecording):
        return _streamed(source.chunks(), source.origin_us(), window_us, source.path)
    if len(source) == 0:
        return iter(())
    return _streamed((source,), int(source.t_us.min()), window_us, "The recording")


def windows_by_count(source: EventRecording | EventArray, count: int) -> Iterator[EventWindow]:
    """Windows of `count` events each in file order; the last one has what is left. Times span what is in the window."""
    if count < 1:
        raise UserError(f"Windows must hold at least 1 event, not {count}.")
    chunks = source.chunks() if isinstance(source, EventRecording) else iter((source,))
    return (EventWindow(int(part.t_us.min()), int(part.t_us.max()) + 1, part) for part in _counted(chunks, count))


def _counted(chunks: Iterable[EventArray], count: int) -> Iterator[EventArray]:
    kept: list[EventArray] = []
    held = 0
    for chunk in chunks:
        start = 0
        while len(chunk) - start >= count - held:
            stop = start + count - held
            kept.append(chunk.slice_count(start, stop))
            yield joined(kept)
            kept, held, start = [], 0, stop
        if start < len(chunk):
            kept.append(chunk.slice_count(start, len(chunk)))
            held += len(chunk) - start
    if held:
        yield joined(kept)


def _streamed(chunks: Iterable[EventArray], origin: int, window_us: int, name: str) -> Iterator[EventWindow]:
    """Holds back the window that is filling and the one before, for events that come a little late."""
    done = 0
    held = NO_EVENTS
    for chunk in chunks:
        if int(chunk.t_us.min()) < origin + done * window_us:
            raise UserError(
                f"{name}: times run backwards by more than a window of {window_us} µs; sort the recording by time, "
                "or use longer windows."
            )
        held = joined((held, chunk))
        filling = (int(held.t_us.max()) - origin) // window_us
        if filling >= MOST_WINDOWS:
            raise UserError(
                f"{name}: makes {filling + 1:,} time windows, more than the {MOST_WINDOWS:,} allowed; use longer ones."
            )
        if filling - 1 > done:
            held = _by_window(held, origin, window_us)
            yield from _split(held, origin, window_us, range(done, filling - 1))
            done = filling - 1
            held = held.slice_count(_first_of(held, origin, window_us, done), len(held))
    if len(held):
        filling = (int(held.t_us.max()) - origin) // window_us
        yield from _split(_by_window(held, origin, window_us), origin, window_us, range(done, filling + 1))


def _by_window(events: EventArray, origin_us: int, window_us: int) -> EventArray:
    """Events window after window, each in file order; the same object when time does not run backwards."""
    if events.is_sorted:
        return events
    return events.taken(np.argsort((events.t_us - origin_us) // window_us, kind="stable"))


def _split(events: EventArray, origin_us: int, window_us: int, numbers: range) -> Iterator[EventWindow]:
    """The windows of these numbers, of events that `_by_window` has put in order and that begin with the first."""
    first = 0
    for number in numbers:
        last = first + _first_of(events.slice_count(first, len(events)), origin_us, window_us, number + 1)
        start = origin_us + number * window_us
        yield EventWindow(start, start + window_us, events.slice_count(first, last))
        first = last


def _first_of(events: EventArray, origin_us: int, window_us: int, number: int) -> int:
    """Index of the first event in window `number` or later: bisection over windows, whose order is certain."""
    low, high = 0, len(events)
    while low < high:
        middle = (low + high) // 2
        if (int(events.t_us[middle]) - origin_us) // window_us < number:
            low = middle + 1
        else:
            high = middle
    return low
