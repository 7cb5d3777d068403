"""The plots of the acceptance clinic: acceptance by place, accepted tokens per round, speed over drafted tokens.

Importing this loads pyqtgraph, which takes some tenths of a second: only what opens the clinic may do it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QWidget

from evprof.core.units import TIMES, count_text
from evprof.metrics.speculation.break_even import GAMMAS
from evprof.metrics.speculation.clinic import PlaceAcceptance
from evprof.metrics.speculation.payoff import MeasuredSpeedup
from ui.style.theme import ThemeHolder
from ui.widgets.plots import BarPlot, PlotView


class PlacePlot(BarPlot):
    """Acceptance by place in the draft: of what was judged there, of what was drafted, and 1 - TV as a diamond."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        self.positions: tuple[PlaceAcceptance, ...] = ()
        super().__init__(themes, "place in the round's draft", parent)
        self.setAccessibleName("Acceptance by place in the draft")

    def show_positions(self, positions: Sequence[PlaceAcceptance]) -> None:
        """Shows other counts."""
        self.positions = tuple(positions)
        told = (f"{entry.accepted:,} of {entry.judged:,} judged at {entry.place + 1}" for entry in self.positions)
        self.setAccessibleDescription(", ".join(told))
        self.draw()

    def draw(self) -> None:
        """Two bars a place: judged (full) and drafted (pale); a diamond where probabilities are known."""
        self._clear()
        count = len(self.positions)
        self.box.setRange(xRange=(0.4, max(count, 1) + 0.6), yRange=(0, 116), padding=0)
        self._bottom_ticks(
            [entry.place + 1 for entry in self.positions], [str(entry.place + 1) for entry in self.positions]
        )
        if not count:
            return
        theme = self.theme
        places = [entry.place + 1 for entry in self.positions]
        judged = [100 * (entry.conditional or 0.0) for entry in self.positions]
        drafted = [100 * (entry.unconditional or 0.0) for entry in self.positions]
        self._bars([place - 0.19 for place in places], judged, 0.34, theme.good)
        self._bars([place + 0.19 for place in places], drafted, 0.34, theme.alpha(theme.good, 0.35))
        known = [(entry.place + 1, 100 * entry.overlap) for entry in self.positions if entry.overlap is not None]
        if known:
            x, y = zip(*known, strict=True)
            marks = pg.ScatterPlotItem(
                x=x, y=y, symbol="d", size=9, pen=pg.mkPen(theme.window, width=1), brush=pg.mkBrush(theme.warn)
            )
            self.box.addItem(marks)
        words = [f"{entry.accepted:,} / {entry.judged:,}" for entry in self.positions]
        self._words([place - 0.19 for place in places], judged, words, 1.35 * count)


class HistogramPlot(BarPlot):
    """How many rounds accepted each number of tokens."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        self.counts: dict[int, int] = {}
        super().__init__(themes, "accepted tokens of a round", parent)
        self.setAccessibleName("Rounds by accepted tokens")

    def show_counts(self, counts: Mapping[int, int]) -> None:
        """Shows other counts."""
        self.counts = dict(counts)
        told = (f"{count_text(rounds, 'round')} accepted {accepted}" for accepted, rounds in self.counts.items())
        self.setAccessibleDescription(", ".join(told))
        self.draw()

    def draw(self) -> None:
        """One bar a number; heights as shares of all rounds."""
        self._clear()
        total = sum(self.counts.values())
        last = max(self.counts, default=0)
        self.box.setRange(xRange=(-0.6, max(last, 1) + 0.6), yRange=(0, 116), padding=0)
        self._bottom_ticks(list(self.counts), [str(accepted) for accepted in self.counts])
        if not total:
            return
        shares = [100 * rounds / total for rounds in self.counts.values()]
        # The tallest bar need not reach 100 %: the axis says what it is a share of.
        top = max(shares)
        self.box.setRange(yRange=(0, 1.18 * top), padding=0)
        step = next(step for step in (2, 5, 10, 20, 25, 50) if top / step <= 5)
        self.left.setTicks([[(float(share), f"{share} %") for share in range(0, int(top) + 1, step)]])
        self._bars(list(self.counts), shares, 0.62, self.theme.stage("verify"))
        words = [f"{rounds:,}" if rounds else "" for rounds in self.counts.values()]
        self._words(list(self.counts), shares, words, last + 1.2)


_MOST_INTERVAL = 1.5
"""How much higher than curves and points an interval may make the scale."""


class BreakEvenPlot(PlotView):
    """Predicted speed over drafted tokens a round, the measured point with its interval, and the line of no gain."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        self.decode: list[tuple[int, float]] = []
        self.whole: list[tuple[int, float]] = []
        self.here: tuple[float, float] | None = None
        self.measured: tuple[float, MeasuredSpeedup] | None = None
        super().__init__(themes, "tokens drafted per round", parent)
        self.setMinimumHeight(170)
        self.setAccessibleName("Predicted speed over drafted tokens")

    def show_curves(
        self,
        decode: list[tuple[int, float]],
        whole: list[tuple[int, float]],
        here: tuple[float, float] | None,
        measured: tuple[float, MeasuredSpeedup] | None,
    ) -> None:
        """Shows other curves; `here` is where the sliders stand, `measured` lies at its mean of drafted tokens."""
        self.decode, self.whole, self.here, self.measured = decode, whole, here, measured
        told = ", ".join(f"{speed:.2f} times at {gamma}" for gamma, speed in decode)
        self.setAccessibleDescription(f"{told}; measured {measured[1].speedup:.2f} times" if measured else told)
        self.draw()

    def draw(self) -> None:
        """Lines, then points above them."""
        self._clear()
        theme = self.theme
        top = self._top()
        self.box.setRange(xRange=(GAMMAS[0] - 0.5, GAMMAS[-1] + 0.5), yRange=(0, top), padding=0)
        self.bottom.setTicks([[(float(gamma), str(gamma)) for gamma in GAMMAS]])
        step = next(step for step in (0.25, 0.5, 1, 2, 5, 10, 50, 1e9) if top / step <= 6)
        marks = np.arange(0, top, step)
        self.left.setTicks([[(float(mark), f"{mark:g}{TIMES}") for mark in marks]])
        ends = np.array([GAMMAS[0] - 0.5, GAMMAS[-1] + 0.5])
        self._line(ends, np.ones(2), theme.text_dim, 1, is_dotted=True)
        for points, color, is_dotted in ((self.whole, "draft", True), (self.decode, "decode", False)):
            if points:
                x, y = (np.array(part, dtype=float) for part in zip(*points, strict=True))
                self._line(x, y, theme.stage(color), 2 if is_dotted else 2.25, is_dotted=is_dotted)
        self._draw_measured()
        if self.here is not None:
            self._dot(self.here, theme.accent, 11, theme.text)

    def _top(self) -> float:
        """The scale's end: curves and points, and intervals as far as they leave these their size. An interval's end
        without a bar lies beyond it."""
        speeds = [speed for _, speed in (*self.decode, *self.whole)]
        if self.measured is not None:
            speeds.append(self.measured[1].speedup)
        if not speeds:
            return 1.4
        most = max(1.25, *speeds)
        interval = self.measured[1].interval if self.measured is not None else None
        return 1.12 * max(most, min(_MOST_INTERVAL * most, interval[1] if interval else 0.0))

    def _draw_measured(self) -> None:
        if self.measured is None:
            return
        gamma, found = self.measured
        theme = self.theme
        if found.interval is not None:
            low, high = found.interval
            bar = pg.ErrorBarItem(
                x=np.array([gamma]),
                y=np.array([found.speedup]),
                top=np.array([max(0.0, high - found.speedup)]),
                bottom=np.array([max(0.0, found.speedup - low)]),
                beam=0.18,
                pen=pg.mkPen(theme.text, width=1.5 * self.devicePixelRatioF()),
            )
            self.box.addItem(bar)
        mark = pg.ScatterPlotItem(
            x=[gamma],
            y=[found.speedup],
            symbol="s",
            size=9,
            pen=pg.mkPen(theme.window, width=1),
            brush=pg.mkBrush(theme.text),
        )
        self.box.addItem(mark)

    def _dot(self, at: tuple[float, float], color: QColor, size: int, edge: QColor) -> None:
        dot = pg.ScatterPlotItem(
            x=[at[0]], y=[at[1]], symbol="o", size=size, pen=pg.mkPen(edge, width=1.5), brush=pg.mkBrush(color)
        )
        self.box.addItem(dot)
