"""Break-even: the predicted speed over drafted tokens beside the measured one, and two sliders for other assumptions.

The import of this module loads pyqtgraph, which takes some tenths of a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QPushButton, QSlider, QWidget

from evprof.core.units import TIMES, count_text, ms_text, percent_text
from evprof.metrics.estimates.estimates import Verdict
from evprof.metrics.speculation import break_even
from evprof.metrics.speculation.break_even import GAMMAS, Chance
from evprof.metrics.speculation.payoff import Prediction
from evprof.metrics.speculation.verdicts import pays_words
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import in_role, stacked
from ui.widgets.label import Label
from ui.widgets.plots import PlotView

_MOST_INTERVAL = 1.5
"""How far an interval may extend the scale beyond the curve and the points, as a factor."""


@dataclass(frozen=True)
class WhatIf:
    """A measured prediction, and the drafted tokens of a round and the acceptance of a token that replace its own."""

    measured: Prediction
    gamma: int | None = None
    alpha: float | None = None

    @property
    def is_assumed(self) -> bool:
        return self.gamma is not None or self.alpha is not None

    @property
    def mix(self) -> int | Mapping[int, float]:
        """Drafted tokens of a round: the assumed number, or the measured shares of rounds."""
        return self.measured.gamma if self.gamma is None else self.gamma

    @property
    def mean_gamma(self) -> float:
        return self.measured.mean_gamma if self.gamma is None else float(self.gamma)

    @property
    def chance(self) -> Chance:
        """Acceptance: the assumed one at every place, or the measured ones by place."""
        return self.measured.by_place if self.alpha is None else self.alpha

    @property
    def rate(self) -> float:
        """Acceptance of one token."""
        return (self.measured.alpha or 0.0) if self.alpha is None else self.alpha

    @property
    def length(self) -> int:
        """Tokens of the answer, at least two: the prefill gives the first."""
        return max(2, self.measured.tokens)

    def curve(self) -> list[tuple[int, float]]:
        """(drafted tokens of a round, speed of decoding against the baseline)."""
        points = break_even.curve(self.measured.costs, self.chance, self.length)
        return [(point.gamma, point.speedup) for point in points]

    @property
    def speed(self) -> float:
        """The speed of decoding against the baseline."""
        return break_even.answer_speedup(self.measured.costs, self.mix, self.chance, self.length)

    @property
    def saved_ms(self) -> float:
        """Time that an answer saves, with the draft's own stages counted; negative where it costs time."""
        costs, prepared = self.measured.costs, self.measured.preparation_ms
        plain_ms = (self.length - 1) * costs.step_ms
        return plain_ms - break_even.answer_ms(costs, self.mix, self.chance, self.length, prepared)

    @property
    def sentence(self) -> str:
        """Whether speculation pays, by how much, and from which acceptance on."""
        saved, costs = self.saved_ms, self.measured.costs
        head = f"would save {ms_text(saved)}" if saved > 0 else f"would cost {ms_text(-saved)}"
        is_guess = self.gamma is not None and self.gamma not in costs.rest_ms
        width = f"{self.mean_gamma:.3g} drafted tokens a round{' (extrapolated)' * is_guess}"
        needed = break_even.break_even_alpha(costs, self.mix, self.length, self.measured.preparation_ms)
        return (
            f"With {width} and {percent_text(self.rate)} acceptance of a token, speculation {head} of an answer of "
            f"{count_text(self.length, 'token')} (decoding {self.speed:.2f} times as fast). "
            f"{pays_words(needed, 'acceptance of a token')}."
        )


class WhatIfSliders(QWidget):
    """Sliders for the drafted tokens of a round and the acceptance of a token.

    Signals:
        changed(object): the WhatIf after a slider moved, or after the button restored the measured values.
    """

    changed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._state: WhatIf | None = None
        self.gamma = _slider("Drafted tokens of a round γ", GAMMAS[0], GAMMAS[-1])
        self.alpha = _slider("Acceptance of one token α, in percent", 0, 100)
        self._gamma_text, self._alpha_text = in_role(Label(), "dim"), in_role(Label(), "dim")
        self.back = in_role(QPushButton("Back to the measured values"), "link")
        stacked(self._gamma_text, self.gamma, self._alpha_text, self.alpha, self.back, None, on=self, spacing=GRID // 2)
        self.gamma.valueChanged.connect(lambda value: self._change(gamma=value))
        self.alpha.valueChanged.connect(lambda value: self._change(alpha=value / 100))
        self.back.clicked.connect(lambda: self._change(gamma=None, alpha=None))
        self.setMinimumWidth(26 * GRID)

    def show_state(self, state: WhatIf) -> None:
        """Shows a state without a signal."""
        self._state = state
        for slider, value in ((self.gamma, state.mean_gamma), (self.alpha, 100 * state.rate)):
            with QSignalBlocker(slider):
                slider.setValue(round(value))
        measured = ("" if value is not None else ", measured" for value in (state.gamma, state.alpha))
        self._gamma_text.setText(f"drafted tokens of a round: {state.mean_gamma:.3g}{next(measured)}")
        self._alpha_text.setText(f"acceptance of one token: {percent_text(state.rate)}{next(measured)}")
        self.back.setEnabled(state.is_assumed)

    def _change(self, **assumed: Any) -> None:
        if self._state is not None:
            self.show_state(replace(self._state, **assumed))
            self.changed.emit(self._state)


def _slider(name: str, least: int, most: int) -> QSlider:
    slider = QSlider(Qt.Orientation.Horizontal)
    slider.setRange(least, most)
    slider.setPageStep(max(1, (most - least) // 10))
    slider.setAccessibleName(name)
    return slider


class BreakEvenPlot(PlotView):
    """Predicted speed over drafted tokens of a round, the measured point with its interval, and the line of no gain."""

    def __init__(self, themes: ThemeHolder) -> None:
        self.state: WhatIf | None = None
        self.measured: Verdict | None = None
        super().__init__(themes, "tokens drafted per round")
        self.setMinimumHeight(170)
        self.setAccessibleName("Predicted speed over drafted tokens")

    def show_state(self, state: WhatIf, measured: Verdict | None) -> None:
        """Shows the curve of a state, and the measured speed of decoding, which is None where nothing measured it."""
        self.state, self.measured = state, measured
        values = ", ".join(f"{speed:.2f} times at {gamma}" for gamma, speed in state.curve())
        self.setAccessibleDescription(f"{values}; measured {measured.ratio:.2f} times" if measured else values)
        self.draw()

    def draw(self) -> None:
        self._clear()
        if self.state is None:
            return
        theme, curve = self.theme, self.state.curve()
        top = max(1.25, *(speed for _, speed in curve), (self.measured.ratio or 0.0) if self.measured else 0.0)
        if self.measured is not None and self.measured.interval is not None:
            top = max(top, min(_MOST_INTERVAL * top, self.measured.interval[1]))
        top *= 1.12
        ends = np.array([GAMMAS[0] - 0.5, GAMMAS[-1] + 0.5])
        self.box.setRange(xRange=tuple(ends), yRange=(0, top), padding=0)
        self.bottom.setTicks([[(float(gamma), str(gamma)) for gamma in GAMMAS]])
        step = next(step for step in (0.25, 0.5, 1, 2, 5, 10, 50, 1e9) if top / step <= 6)
        self.left.setTicks([[(float(mark), f"{mark:g}{TIMES}") for mark in np.arange(0, top, step)]])
        self._line(ends, np.ones(2), theme.text_dim, 1, is_dotted=True)
        x, y = (np.array(part, dtype=float) for part in zip(*curve, strict=True))
        self._line(x, y, theme.stage("decode"), 2.25, is_dotted=False)
        if self.measured is not None:
            gamma, speed = self.state.measured.mean_gamma, self.measured.ratio or 0.0
            low, high = self.measured.interval or (speed, speed)
            self._line(np.array([gamma, gamma]), np.array([low, high]), theme.text, 1.5, is_dotted=False)
            self._mark(gamma, speed, "s")
        if self.state.is_assumed:
            self._mark(self.state.mean_gamma, self.state.speed, "o")

    def _mark(self, x: float, y: float, symbol: str) -> None:
        theme = self.theme
        pen, brush = pg.mkPen(theme.window, width=1), pg.mkBrush(theme.text if symbol == "s" else theme.accent)
        self.box.addItem(pg.ScatterPlotItem(x=[x], y=[y], symbol=symbol, size=10, pen=pen, brush=brush))
