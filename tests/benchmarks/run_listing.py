"""What the window's list does with a session of very many runs, without a window: opens, lists, filters, picks."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from evprof.core.run_log import RunBook
from evprof.session.opened import open_session
from ui.runs.run_entries import CELL, RunEntries

IN_SIGHT = 40
"""Lines of the list that are seen at once."""

WORDS = "7 frames failed"
"""What is looked for: some of one number of frames."""


def measure_listing(path: str) -> int:
    """Prints the seconds that each step takes, by the clock and of the processor, as JSON."""
    found: dict[str, tuple[float, float]] = {}
    began = time.perf_counter(), time.process_time()

    def note(step: str) -> None:
        nonlocal began
        now = time.perf_counter(), time.process_time()
        found[step] = now[0] - began[0], now[1] - began[1]
        began = now

    session = open_session(Path(path))
    book = RunBook(session.recording)
    book.update()
    note("open")
    entries = RunEntries()
    lines = entries.slots(book.runs)
    for entry in lines[:IN_SIGHT]:
        entry.make()
    note("list")
    first = next(slot.key for slot in lines)
    if isinstance(first, tuple) and first[0] == CELL:
        below = entries.slots(book.runs, {first})
        for entry in below[:IN_SIGHT]:
            entry.make()
    note("unfold")
    matching = entries.slots(book.runs, (), WORDS)
    for entry in matching[:IN_SIGHT]:
        entry.make()
    note("filter")
    run = book.runs[next(reversed(list(book.runs)))]
    len(run.tokens), len(run.spans)
    note("pick")
    json.dump(found, sys.stdout)
    return 0
