"""Pans and zooms over a timeline as full as any, and pictures while records arrive."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from PySide6.QtCore import QDeadlineTimer, QThread
from PySide6.QtWidgets import QApplication

from benchmarks.crowd import COUNTERS, SPANS, crowded_recording
from benchmarks.first_paint import paint_all
from evprof.core.protocols import RunEnded, monotonic_ns
from evprof.core.recording import Texts
from evprof.core.records import END, ORIGIN_TARGET, SETTLED, STAGES, TARGET
from evprof.core.run_info import FINISHED
from ui.state.selection import TimeRange
from ui.window.main_window import MainWindow

STEPS = 240
"""Views that are timed."""

SETTLING_MS, AT_LEAST_MS = 20_000, 1_000
"""How long the window may take to come to rest after a run, and what it gets at least."""

LIVE_FRAMES = 60
LIVE_ROWS = 20_000 // 30
"""What arrives between two pictures at 20,000 records a second."""


class Took(NamedTuple):
    """One step: ms on the clock, and ms of the window thread's processor time."""

    wall_ms: float
    cpu_ms: float


def measure_crowd(
    application: QApplication, window: MainWindow, note: Callable[[str], None], spans: int = SPANS
) -> dict[str, Any]:
    """Figures of pans and zooms, and of pictures while records arrive, over `spans` spans and three tenths as many
    counter points."""
    counters = spans * COUNTERS // SPANS
    recording = crowded_recording(spans, counters)
    window.controller.replace_recording(recording)
    window.selection.set_runs(1, 2)
    application.processEvents()
    timeline = window.timeline

    def grow(_: int) -> None:
        _append(window)
        window.controller.pull()
        timeline.repaint()
        paint_all(application)

    grow(0)
    live = [_took(partial(grow, frame)) for frame in range(LIVE_FRAMES)]
    note(f"growing by {LIVE_ROWS} records a picture: {_median(live):.1f} ms")
    recording.post(RunEnded(2, FINISHED, facts={"end_ns": monotonic_ns(), "text": None}))
    _settle(application, window)

    def show(view: TimeRange) -> None:
        window.selection.set_view_range(view)
        timeline.repaint()
        paint_all(application)

    views = list(_views(timeline.scene.extent()))
    show(views[0])
    pans = [_took(partial(show, view)) for view in views]
    note(f"{spans:,} spans: {_median(pans):.1f} ms a pan or zoom")
    return {
        "crowd_spans": spans,
        "crowd_counters": counters,
        **_figures("crowd_pan_zoom", pans),
        **_figures("crowd_live", live),
    }


def _settle(application: QApplication, window: MainWindow) -> None:
    """Lets the panels' threads work out the figures of the run that ended: they are no part of a pan."""
    deadline = QDeadlineTimer(SETTLING_MS)
    window.controller.pull()
    while not deadline.hasExpired():
        application.processEvents()
        if window.is_at_rest and deadline.remainingTime() < SETTLING_MS - AT_LEAST_MS:
            return
        QThread.msleep(5)


def _views(extent: tuple[int, int]) -> Iterator[TimeRange]:
    """All of it, then closer and closer, panned at each closeness, and out again."""
    length = extent[1] - extent[0]
    for step in range(STEPS):
        turn = step % 40
        share = 0.8 ** (turn if turn < 20 else 40 - turn)
        middle = extent[0] + length * (0.5 + 0.35 * (1 - share) * np.sin(step / 3))
        yield TimeRange(int(middle - length * share / 2), int(middle + length * share / 2))


def _took(work: Callable[[], None]) -> Took:
    wall, cpu = time.perf_counter(), time.thread_time()
    work()
    return Took(1000 * (time.perf_counter() - wall), 1000 * (time.thread_time() - cpu))


def _figures(name: str, steps: list[Took]) -> dict[str, float]:
    return {
        f"{name}_median_ms": _median(steps),
        f"{name}_p99_ms": float(np.percentile([one.wall_ms for one in steps], 99)),
        f"{name}_cpu_median_ms": statistics.median(one.cpu_ms for one in steps),
        f"{name}_cpu_p99_ms": float(np.percentile([one.cpu_ms for one in steps], 99)),
    }


def _median(steps: list[Took]) -> float:
    return statistics.median(one.wall_ms for one in steps)


def _append(window: MainWindow) -> None:
    """A picture's worth of records of the target: of four, a span's begin and end, a token and a cache length."""
    log, run = window.controller.recording, window.controller.runs[2]
    count = LIVE_ROWS // 4
    first, moments = run.count("spans"), monotonic_ns() - np.arange(count, 0, -1, dtype=np.int64) * 100_000
    same, role = np.zeros(count, dtype=np.int64), Texts(np.zeros(count, dtype=np.int64), [TARGET])
    for phase in (END, SETTLED):
        ids = np.arange(first, first + count)
        names = Texts(same, ["head"])
        log.streams["spans"].extend_columns(
            (same + 2, ids, same + len(STAGES) - 1, same + phase, role, names, moments, moments + 90_000)
        )
    origins, pieces = Texts(same, [ORIGIN_TARGET]), Texts(same, [" token"])
    positions = run.count("tokens") + np.arange(count)
    log.streams["tokens"].extend_columns((same + 2, role, positions, same, origins, same - 1, moments, pieces))
    log.streams["kv"].extend_columns((same + 2, role, moments, positions, positions * 8))
