"""The loss curves of a training: examples trained on, examples kept aside, and the step that was kept.

Importing this loads pyqtgraph, which takes some tenths of a second: only what opens the curves may do it.
"""

from __future__ import annotations

from math import ceil, floor, log10

import numpy as np
import pyqtgraph as pg
from PySide6.QtWidgets import QWidget

from ui.style.theme import ThemeHolder
from ui.training.curves import TrainingCurve
from ui.widgets.plots import PlotView


class TrainingPlot(PlotView):
    """One training at a time."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        self.curve: TrainingCurve | None = None
        super().__init__(themes, "step", parent)
        self.setMinimumHeight(180)
        self.setAccessibleName("Loss by step")

    def show_curve(self, curve: TrainingCurve | None) -> None:
        """Shows another training."""
        self.curve = curve
        self.setAccessibleDescription("" if curve is None else curve.sentence)
        self.draw()

    def draw(self) -> None:
        """Training thin, validation thick with a point each time it was looked at, the kept step as a line."""
        self._clear()
        curve = self.curve
        if curve is None:
            return
        theme = self.theme
        losses = (*curve.loss, *curve.validation_loss)
        last = max((*curve.steps, *curve.validation_steps, 1.0))
        low, high = min(losses), max(losses)
        margin = 0.06 * (high - low) or max(abs(high), 1.0) * 0.1
        floor_y = max(0.0, low - margin) if low >= 0 else low - margin
        self.box.setRange(xRange=(-0.01 * last, last * 1.02), yRange=(floor_y, high + margin), padding=0)
        self.bottom.setTicks([_ticks(0.0, last)])
        self.left.setTicks([_ticks(floor_y, high + margin)])
        if curve.best_step is not None:
            best = float(curve.best_step)
            self._line(np.array([best, best]), np.array([floor_y, high + margin]), theme.good, 1, is_dotted=True)
            self._write(f"kept: step {curve.best_step:,}", (best, high + margin), theme.good, _anchor(best, last))
        if curve.steps:
            self._line(np.array(curve.steps), np.array(curve.loss), theme.stage("load"), 1.25, is_dotted=False)
        if curve.validation_steps:
            x, y = np.array(curve.validation_steps), np.array(curve.validation_loss)
            self._line(x, y, theme.stage("decode"), 2, is_dotted=False)
            marks = pg.ScatterPlotItem(
                x=x, y=y, size=6, pen=pg.mkPen(None), brush=pg.mkBrush(theme.stage("decode")), symbol="o"
            )
            self.box.addItem(marks)


def _anchor(at: float, last: float) -> tuple[float, float]:
    """Words stand right of a line on the left, and left of one on the right."""
    return (1.02, 0.0) if at > 0.6 * last else (-0.02, 0.0)


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """About five round marks between two ends."""
    span = high - low
    if span <= 0:
        return [(low, f"{low:g}")]
    rough = span / 5
    size = 10.0 ** floor(log10(rough))
    step = next(factor * size for factor in (1, 2, 5, 10) if factor * size >= rough)
    first = ceil(low / step)
    return [(count * step, f"{count * step:,.6g}") for count in range(first, floor(high / step + 1e-9) + 1)]
