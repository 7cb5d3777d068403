"""Pans and zooms over a timeline as full as any, in turns with pyqtgraph's own items over the same data.

Importing this loads pyqtgraph.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QDeadlineTimer, Qt, QThread
from PySide6.QtWidgets import QApplication

from benchmarks.crowd import COUNTERS, SPANS, crowded_recording
from benchmarks.first_paint import paint_all
from evprof.core.protocols import RunEnded, monotonic_ns
from evprof.core.recording import Texts
from evprof.core.records import END, ORIGIN_TARGET, SETTLED, STAGES, TARGET
from evprof.core.run_info import FINISHED
from ui.state.selection import TimeRange
from ui.window.main_window import MainWindow

_Turn = TypeVar("_Turn")

STEPS, THEIR_STEPS = 240, 12
"""Views that are timed; every twentieth of them in pyqtgraph as well."""

SETTLING_MS, AT_LEAST_MS = 20_000, 1_000
"""How long the window may take to come to rest after a run, and what it gets at least."""

LIVE_FRAMES, THEIR_LIVE_FRAMES = 60, 6
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
    counter points; `crowd_vs_…` are medians of ours by theirs, smaller is faster."""
    counters = spans * COUNTERS // SPANS
    recording = crowded_recording(spans, counters)
    window.controller.replace_recording(recording)
    window.selection.set_runs(1, 2)
    application.processEvents()
    timeline, theirs = window.timeline, _TheirTimeline(window)

    def grow(_: int) -> None:
        _append(window)
        window.controller.pull()
        timeline.repaint()
        paint_all(application)

    def their_growth(_: int) -> None:
        _append(window)
        theirs.show_grown()

    grow(0)
    live, their_live = _in_turns(range(LIVE_FRAMES), grow, their_growth, THEIR_LIVE_FRAMES)
    note(f"growing by {LIVE_ROWS} records a picture: {_median(live):.1f} ms, pyqtgraph {_median(their_live):.0f} ms")
    recording.post(RunEnded(2, FINISHED, facts={"end_ns": monotonic_ns(), "text": None}))
    _settle(application, window)

    def ours(view: TimeRange) -> None:
        window.selection.set_view_range(view)
        timeline.repaint()
        paint_all(application)

    views = list(_views(timeline.scene.extent()))
    ours(views[0])
    theirs.show_view(views[0])
    pans, their_pans = _in_turns(views, ours, theirs.show_view, THEIR_STEPS)
    note(f"{spans:,} spans: {_median(pans):.1f} ms a pan or zoom, pyqtgraph {_median(their_pans):.0f} ms")
    theirs.close()
    return {
        "crowd_spans": spans,
        "crowd_counters": counters,
        **_figures("crowd_pan_zoom", pans, their_pans),
        **_figures("crowd_live", live, their_live),
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


def _in_turns(
    turns: Sequence[_Turn], ours: Callable[[_Turn], None], theirs: Callable[[_Turn], None], count: int
) -> tuple[list[Took], list[Took]]:
    own, other = [], []
    every = max(1, len(turns) // count)
    for place, turn in enumerate(turns):
        own.append(_took(partial(ours, turn)))
        if place % every == 0:
            other.append(_took(partial(theirs, turn)))
    return own, other


def _took(work: Callable[[], None]) -> Took:
    wall, cpu = time.perf_counter(), time.thread_time()
    work()
    return Took(1000 * (time.perf_counter() - wall), 1000 * (time.thread_time() - cpu))


def _figures(name: str, ours: list[Took], theirs: list[Took]) -> dict[str, float]:
    return {
        f"{name}_median_ms": _median(ours),
        f"{name}_p99_ms": float(np.percentile([one.wall_ms for one in ours], 99)),
        f"{name}_cpu_median_ms": statistics.median(one.cpu_ms for one in ours),
        f"{name}_cpu_p99_ms": float(np.percentile([one.cpu_ms for one in ours], 99)),
        f"{name}_pyqtgraph_ms": _median(theirs),
        f"{name}_vs_pyqtgraph": _median(ours) / _median(theirs),
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


class _TheirTimeline:
    """The same spans as pyqtgraph's bars, a colour for each name, and the same counters as its curves, thinned out by
    its own means."""

    def __init__(self, window: MainWindow) -> None:
        self._window = window
        self._view = pg.PlotWidget(background=window.timeline.scene.theme.panel)
        self._view.resize(window.timeline.size())
        self._view.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen)
        self._bars: dict[tuple[int, str], pg.BarGraphItem] = {}
        self._curves: dict[tuple[int, str], pg.PlotDataItem] = {}
        self._take_in()
        self._view.show()

    def show_view(self, view: TimeRange) -> None:
        self._view.setXRange(view.start_ns / 1e6, view.end_ns / 1e6, padding=0)
        self._view.viewport().repaint()
        QApplication.processEvents()

    def show_grown(self) -> None:
        self._take_in()
        self._view.viewport().repaint()
        QApplication.processEvents()

    def close(self) -> None:
        self._view.close()
        self._view.deleteLater()

    def _take_in(self) -> None:
        theme = self._window.timeline.scene.theme
        for run_id, run in self._window.controller.runs.items():
            spans, zero_ns = run.span_columns, run.info.start_ns or 0
            for code, name in enumerate(spans.name_words):
                own = spans.names == code
                edges = {"x0": (spans.starts[own] - zero_ns) / 1e6, "x1": (spans.ends[own] - zero_ns) / 1e6}
                brush = theme.stage(name) if name in STAGES else theme.text_dim
                place = run_id + (0.0 if name in STAGES else 0.5)
                look = {"y0": place, "height": 0.4, "pen": None, "brush": brush}
                if (run_id, name) in self._bars:
                    self._bars[run_id, name].setOpts(**edges)
                else:
                    bars = self._bars[run_id, name] = pg.BarGraphItem(**edges, **look)
                    self._view.addItem(bars)
            for stream, column in (("kv", "nbytes"), ("memory", "rss_bytes")):
                times, levels = (
                    np.concatenate([block.column(name) for block in run.blocks(stream)]) for name in ("t_ns", column)
                )
                curve = self._curves.get((run_id, stream))
                if curve is None:
                    curve = self._curves[run_id, stream] = pg.PlotDataItem(
                        pen=theme.stage("decode"), autoDownsample=True, downsampleMethod="peak", clipToView=True
                    )
                    self._view.addItem(curve)
                curve.setData((times - zero_ns) / 1e6, 3 + levels / levels.max())
