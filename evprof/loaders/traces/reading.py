"""Finds a trace of torch's profiler, and reads it with its progress until it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from evprof.core.budget import MOST_BYTES, Budget
from evprof.core.errors import Cancelled, UserError
from evprof.core.rows.trace_columns import TraceColumns
from evprof.core.units import count_text
from evprof.loaders.paths import readable_file, unreadable
from evprof.loaders.traces.gathering import TraceGathering
from evprof.loaders.traces.scanning import NO_JSON, TraceBytes, TraceText

ENDINGS = (".pt.trace.json", ".pt.trace.json.gz")

_DEPTHS = ("", "*/", "*/*/")
"""`--torch-trace` writes a folder for each run, and several runs may lie in one folder."""

_MOST_TOLD = 8


def trace_at(path: str | Path) -> Path:
    """The file itself, or the only trace in a folder. Raises UserError, which names them, where it holds several."""
    place = Path(path)
    if not place.is_dir():
        return place
    patterns = (f"{depth}*{ending}" for depth in _DEPTHS for ending in ENDINGS)
    found = sorted(chain.from_iterable(map(place.glob, patterns)))
    if not found:
        raise UserError(f"{place} holds no *.pt.trace.json[.gz]; name a trace, or a folder with one.")
    if len(found) > 1:
        more = f" and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
        named = ", ".join(map(str, found[:_MOST_TOLD]))
        raise UserError(f"{place} holds {len(found)} traces; name one: {named}{more}.")
    return found[0]


_RATIO = 10
"""Bytes in memory for each byte of text: the shortest slice has 20 bytes and takes a row; Kineto's take a quarter."""


@dataclass(frozen=True)
class TraceProgress:
    """Bytes of the file and entries that were read so far."""

    read_bytes: int
    file_bytes: int
    entries: int


Told = Callable[[TraceProgress], None]
"""Called after every piece, some hundred times a second."""


def read_trace(path: str | Path, told: Told | None = None, stop: threading.Event | None = None) -> TraceColumns:
    """Everything in a trace; of a damaged one what is whole, with a problem that says so.

    Raises UserError where nothing is whole, where it is no trace, or for what is made to fill the memory; Cancelled
    once `stop` is set.
    """
    found = readable_file(path)
    budget, seen = Budget(str(path), 0, _RATIO, 16 << 20, MOST_BYTES), 0
    gathering = TraceGathering(budget)
    try:
        with TraceBytes(found) as source:
            text = TraceText(source)
            for entries in text.pieces():
                budget.take(0, source.text_bytes - seen)
                seen = source.text_bytes
                gathering.add(entries)
                if stop is not None and stop.is_set():
                    raise Cancelled
                if told is not None:
                    told(TraceProgress(source.taken_bytes, source.file_bytes, gathering.entries))
    except OSError as error:
        raise unreadable(path, error) from None
    if text.damage == NO_JSON:
        raise UserError(f"{path}: is no JSON, so it is no torch trace; name a *.pt.trace.json[.gz] file.")
    if text.damage and not gathering.entries:
        raise UserError(f"{path}: the trace is damaged ({text.damage}); record it again.")
    if not text.has_list:
        raise UserError(f'{path}: has no list "traceEvents", so it is no trace; name a *.pt.trace.json[.gz] file.')
    problems: list[str] = []
    if text.damage:
        read = count_text(gathering.entries, "entry").replace("entrys", "entries")
        problems.append(f"The trace is damaged ({text.damage}): the first {read} are shown, the rest is missing.")
    return gathering.columns(text.head(), problems)
