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
            early, held = _cut(held, origin, window_us, range(done, filling - 1))
            yield from early
            done = filling - 1
    if len(held):
        filling = (int(held.t_us.max()) - origin) // window_us
        yield from _cut(held, origin, window_us, range(done, filling + 1))[0]


def _cut(
    events: EventArray, origin_us: int, window_us: int, numbers: range
) -> tuple[Iterator[EventWindow], EventArray]:
    """The windows of these numbers, each in file order, and the events of later windows."""
    windows = (events.t_us - origin_us) // window_us
    if not events.is_sorted:
        order = np.argsort(windows, kind="stable")
        events, windows = events.taken(order), windows[order]

    def cut() -> Iterator[EventWindow]:
        first = 0
        for number in numbers:
            last = int(np.searchsorted(windows, number + 1))
            start = origin_us + number * window_us
            yield EventWindow(start, start + window_us, events.slice_count(first, last))
            first = last

    return cut(), events.slice_count(int(np.searchsorted(windows, numbers.stop)), len(events))
