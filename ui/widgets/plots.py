"""The two plots of the distributions window, drawn with pyqtgraph: a cumulative curve, and bars by position.

Importing this loads pyqtgraph, which takes some tenths of a second: only what opens that window may do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import NamedTuple

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QMouseEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QToolTip

from evprof.core.texts import plain
from evprof.core.units import ms_text
from evprof.view.distributions import (
    CumulativeShares,
    Floats,
    PlaceOutcomes,
    cumulative,
    log_bounds,
    log_ticks,
    staircase,
)
from ui.style.theme import SMALL_PX, Theme, ThemeHolder, points

PERCENT_TICKS = tuple((float(percent), f"{percent} %") for percent in (0, 25, 50, 75, 100))
_AXIS_WIDTH, _AXIS_HEIGHT = 52, 38
_AROUND_PX = 60
"""What axis and margins take of a plot's width."""

_UNKNOWN_MS = 1.0, 100.0
"""Ends of the time axis while there is nothing to show."""


class Curve(NamedTuple):
    """Values to draw the distribution of, the name of the stage whose colour it has, and whose times they are."""

    values: Sequence[float]
    color: str
    title: str


class PlotView(pg.GraphicsView):
    """Two thin axes around a box, in the theme's colours. What is drawn inside is remade by `draw`."""

    def __init__(self, themes: ThemeHolder, bottom_label: str) -> None:
        super().__init__(useOpenGL=False)
        self._themes = themes
        self._bottom_label = bottom_label
        self.words: list[pg.TextItem] = []
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumHeight(120)
        self.setInteractive(False)
        # A ViewBox and axes of its own: a PlotItem brings menus and forms that nobody opens.
        self.box = pg.ViewBox(enableMenu=False, enableMouse=False, defaultPadding=0)
        self.left = pg.AxisItem("left", maxTickLength=0)
        self.bottom = pg.AxisItem("bottom", maxTickLength=4)
        layout = pg.GraphicsLayout(border=None)
        layout.setContentsMargins(0, 6, 8, 0)
        layout.setSpacing(0)
        layout.addItem(self.left, 0, 0)
        layout.addItem(self.box, 0, 1)
        layout.addItem(self.bottom, 1, 1)
        for axis in (self.left, self.bottom):
            axis.linkToView(self.box)
        self.left.setWidth(_AXIS_WIDTH)
        self.left.setTicks([PERCENT_TICKS])
        self.bottom.setStyle(hideOverlappingLabels=20)
        self.bottom.setHeight(_AXIS_HEIGHT)
        self.setCentralItem(layout)
        themes.changed.connect(self._restyle)
        self._restyle()

    def sizeHint(self) -> QSize:
        return QSize(640, 200)

    @property
    def theme(self) -> Theme:
        return self._themes.theme

    def _restyle(self) -> None:
        theme = self.theme
        self.setBackground(theme.window)
        font = theme.font(SMALL_PX)
        for axis in (self.left, self.bottom):
            axis.setPen(pg.mkPen(theme.line, width=1))
            axis.setTickPen(pg.mkPen(theme.line, width=1))
            axis.setTextPen(theme.text_dim)
            axis.setTickFont(font)
        self.bottom.label.setFont(font)
        self.bottom.setLabel(
            self._bottom_label, **{"color": theme.text_dim.name(), "font-size": f"{points(SMALL_PX):.2f}pt"}
        )
        self.draw()

    def draw(self) -> None:
        """Draws what is to be shown."""

    def _clear(self) -> None:
        # ViewBox.clear() lets Python forget the items before the scene does, and knows nothing of words.
        for item in (*self.box.addedItems, *self.words):
            self.box.removeItem(item)
        self.words.clear()

    def _write(self, text: str, at: tuple[float, float], color: QColor, anchor: tuple[float, float]) -> None:
        """Words at a place of the plot, which do not widen it; `anchor` is their own point there, 0…1."""
        label = pg.TextItem(text, color=color, anchor=anchor)
        label.setFont(self.theme.font(SMALL_PX))
        label.setPos(*at)
        self.words.append(label)
        self.box.addItem(label, ignoreBounds=True)

    def _line(self, x: Floats, y: Floats, color: QColor, width: float, *, is_dotted: bool) -> None:
        style = Qt.PenStyle.DotLine if is_dotted else Qt.PenStyle.SolidLine
        # Pens that keep their width under the plot's scale count the screen's own pixels.
        pen = pg.mkPen(color, width=width * self.devicePixelRatioF(), style=style)
        self.box.addItem(pg.PlotCurveItem(x, y, pen=pen, antialias=not is_dotted))


class LatencyPlot(PlotView):
    """Cumulative distributions of times in ms on a logarithmic axis, one curve each."""

    def __init__(self, themes: ThemeHolder) -> None:
        self.curves: tuple[Curve, ...] = ()
        self._steps: list[tuple[Curve, CumulativeShares]] = []
        super().__init__(themes, "ms since the previous token")
        self.setAccessibleName("Time per token, cumulative")

    def show_curves(self, curves: Sequence[Curve]) -> None:
        """Shows other distributions; one without values has no curve."""
        self.curves = tuple(curves)
        self.draw()

    def draw(self) -> None:
        self._clear()
        values = [value for curve in self.curves for value in curve.values]
        low, high = log_bounds(values) or _UNKNOWN_MS
        ends = np.log10([low, high])
        self.box.setRange(xRange=tuple(ends), yRange=(0, 102), padding=0)
        self.bottom.setTicks([[(log10(mark), text) for mark, text in log_ticks(low, high)]])
        self._line(ends, np.array([50.0, 50.0]), self.theme.line, 1, is_dotted=True)
        found = [(curve, cumulative(curve.values)) for curve in self.curves]
        self._steps = [(curve, steps) for curve, steps in found if steps is not None]
        for curve, steps in self._steps:
            x, y = staircase(steps, low, high)
            self._line(x, y, self.theme.stage(curve.color), 1.75, is_dotted=False)

    def reading(self, time_ms: float) -> str:
        """What the curves say of a time: `within 23.0 ms: Video-LLaVA 87 %`; empty without curves."""
        shares = (f"{curve.title} {steps.share(time_ms):.0f} %" for curve, steps in self._steps)
        return f"within {ms_text(time_ms)}: {', '.join(shares)}" if self._steps else ""

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        scene = self.mapToScene(event.position().toPoint())
        is_inside = self.box.sceneBoundingRect().contains(scene)
        text = self.reading(10 ** self.box.mapSceneToView(scene).x()) if is_inside else ""
        QToolTip.showText(event.globalPosition().toPoint(), plain(text), self)


class AcceptancePlot(PlotView):
    """How many percent of the tokens drafted at each position were accepted, as bars with their counts above, where
    there is room for those."""

    def __init__(self, themes: ThemeHolder) -> None:
        self.positions: tuple[PlaceOutcomes, ...] = ()
        super().__init__(themes, "position in the round's draft")
        self.setAccessibleName("Accepted drafts by position")

    def resizeEvent(self, event: object) -> None:
        super().resizeEvent(event)
        # pyqtgraph's own constructor resizes before there is anything to draw.
        if hasattr(self, "bottom"):
            self.draw()

    def show_positions(self, positions: Sequence[PlaceOutcomes]) -> None:
        self.positions = tuple(positions)
        self.setAccessibleDescription(", ".join(f"{_counts(position)} at {position.place}" for position in positions))
        self.draw()

    def draw(self) -> None:
        self._clear()
        count = len(self.positions)
        self.box.setRange(xRange=(0.4, max(count, 1) + 0.6), yRange=(0, 118), padding=0)
        places = [position.place for position in self.positions]
        self.bottom.setTicks([[(float(place), str(place)) for place in places]])
        if not count:
            return
        shares = [position.share or 0.0 for position in self.positions]
        # Drawn with no pen at all: pyqtgraph's own outline is a pixel of another colour.
        look = {"width": min(0.62, 0.12 + 0.1 * count), "pen": pg.mkPen(None), "brush": pg.mkBrush(self.theme.good)}
        self.box.addItem(pg.BarGraphItem(x=places, height=shares, **look))
        words, metrics = list(map(_counts, self.positions)), QFontMetricsF(self.theme.font(SMALL_PX))
        if max(map(metrics.horizontalAdvance, words)) <= (self.width() - _AROUND_PX) / (count + 0.2) - 4:
            for place, height, word in zip(places, shares, words, strict=True):
                self._write(word, (place, height), self.theme.text, (0.5, 1.0))


def _counts(position: PlaceOutcomes) -> str:
    return f"{position.accepted} / {position.drafted}"
