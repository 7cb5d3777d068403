"""Break-even: the predicted speed over drafted tokens, the measured one, and sliders for other assumptions.

Importing this loads pyqtgraph, which takes some tenths of a second: only what opens the clinic may do it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import log
from typing import NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QLabel, QPushButton, QSlider, QWidget

from evprof.core.units import count_text, ms_text, percent_text
from evprof.core.vocabulary.modes import KV_ADAPTED, PARALLEL_PREFILL, mode_of
from evprof.metrics.speculation import break_even
from evprof.metrics.speculation.break_even import GAMMAS, Chance, RoundCosts, steady_rounds
from evprof.metrics.speculation.payoff import DECODE, MeasuredSpeedup, Prediction
from ui.clinic.pages import Clinic
from ui.clinic.plots import BreakEvenPlot
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.label import Label
from ui.widgets.panel_parts import EmptyState, ToneLabel, scrolling, sentence

GAMMA, ALPHA, TOKENS, VERIFY = "gamma", "alpha", "tokens", "verify"
"""What can be changed."""

_NOTHING_HEAD = "Break-even is not known yet"
_NOTHING = (
    "How much faster decoding would be for any number of drafted tokens appears here, beside what was measured. "
    "This needs a run with rounds and a plain run of the same target on the same sample; then choose this run again."
)
_RUN_ALONE = "Run the target alone"
_WITHOUT_ROUNDS = {
    PARALLEL_PREFILL: "No rounds follow this prefill",
    KV_ADAPTED: "Nothing is drafted in this run",
}
_CAPTION = (
    "Line: decoding, predicted from these rounds; extrapolated beyond. Dots: with the draft's own "
    "stages counted. Square: measured, with its 95 % interval where it is known. Circle: where the sliders stand."
)


@dataclass(frozen=True)
class WhatIf:
    """A measured prediction and the values that are assumed instead, by name.

    ALPHA is a chance per token, TOKENS the answer's length, VERIFY the cost of a verification in plain steps.
    """

    measured: Prediction
    assumed: Mapping[str, float] = field(default_factory=dict)

    def with_value(self, name: str, value: float) -> WhatIf:
        """The same with one value assumed."""
        return WhatIf(self.measured, {**self.assumed, name: value})

    def value(self, name: str) -> float:
        """The assumed value, or the measured one."""
        found = self.measured
        measured = {GAMMA: found.mean_gamma, ALPHA: found.alpha or 0.0, TOKENS: float(found.tokens), VERIFY: found.v}
        return self.assumed.get(name, measured[name])

    @property
    def mix(self) -> int | Mapping[int, float]:
        """Drafted tokens a round: as many as assumed, else the shares that were measured."""
        return round(self.assumed[GAMMA]) if GAMMA in self.assumed else self.measured.gamma

    @property
    def chance(self) -> Chance:
        """Acceptance: the assumed one for every place, else the measured ones by place."""
        return self.assumed.get(ALPHA, self.measured.by_place)

    @property
    def costs(self) -> RoundCosts:
        """The measured costs, verification as assumed."""
        costs = self.measured.costs
        if VERIFY not in self.assumed or self.measured.v <= 0:
            return costs
        scale = self.assumed[VERIFY] / self.measured.v
        return replace(costs, rest_ms={count: value * scale for count, value in costs.rest_ms.items()})

    @property
    def length(self) -> int:
        """Tokens of the answer, at least two: the first is the prefill's."""
        return max(2, round(self.value(TOKENS)))

    def decode_curve(self) -> list[tuple[int, float]]:
        """(drafted per round, speed of decoding against plain decoding)."""
        return [(gamma, self._speed(gamma, 0.0)) for gamma in GAMMAS]

    def whole_curve(self) -> list[tuple[int, float]]:
        """The same with the draft's own stages counted; empty where there are none."""
        prepared = self.measured.preparation_ms
        return [(gamma, self._speed(gamma, prepared)) for gamma in GAMMAS] if prepared > 0 else []

    def _speed(self, gamma: int | Mapping[int, float], preparation_ms: float) -> float:
        return break_even.answer_speedup(self.costs, gamma, self.chance, self.length, preparation_ms)

    @property
    def speed(self) -> float:
        """How many times as fast decoding would be here."""
        return self._speed(self.mix, 0.0)

    @property
    def saved_ms(self) -> float:
        """What an answer would save, the draft's own stages counted; below 0 what it would cost."""
        prepared = self.measured.preparation_ms
        plain_ms = (self.length - 1) * self.costs.step_ms
        return plain_ms - break_even.answer_ms(self.costs, self.mix, self.chance, self.length, prepared)

    @property
    def sentence(self) -> str:
        """Would it pay, by how much, and from which acceptance on."""
        saved = self.saved_ms
        head = f"would save {ms_text(saved)}" if saved > 0 else f"would cost {ms_text(-saved)}"
        guessed = GAMMA in self.assumed and self.mix not in self.measured.costs.rest_ms
        width = f"{self.value(GAMMA):.3g} drafted tokens a round{' (a guess: no such rounds here)' * guessed}"
        where = f"{width}, {percent_text(self.value(ALPHA))} accepted each"
        answer = f"an answer of {count_text(self.length, 'token')}"
        fast = f"decoding {self.speed:.2f} times as fast"
        return f"With {where}, speculation {head} of {answer} ({fast}); {self._threshold(saved)}."

    def _threshold(self, saved_ms: float) -> str:
        prepared = self.measured.preparation_ms
        needed = break_even.break_even_alpha(self.costs, self.mix, self.length, prepared)
        if needed is None:
            most, cost = self.value(GAMMA) + 1, self.costs.round_ms(self.mix) / self.costs.step_ms
            if cost >= most:
                return (
                    f"it cannot pay at any acceptance: a round takes as long as {cost:.1f} plain steps and gives at "
                    f"most {most:.1f} tokens"
                )
            return "at this length it cannot pay at any acceptance"
        if needed == 0:
            return "it pays at any acceptance"
        pays = "pays" if saved_ms > 0 else "would pay"
        return f"it {pays} where more than {percent_text(needed)} of the judged tokens stand"


class Scale(NamedTuple):
    """How a slider's whole numbers stand for values."""

    name: str
    words: str
    tip: str
    most: int
    of: Callable[[int], float]
    to: Callable[[float], int]
    text: Callable[[float], str]


_LONGEST = 1024

SCALES = (
    Scale(
        GAMMA,
        "drafted per round γ",
        "How many tokens a round drafts.",
        len(GAMMAS) - 1,
        lambda place: float(GAMMAS[place]),
        lambda value: round(value) - GAMMAS[0],
        lambda value: f"{value:.3g}",
    ),
    Scale(
        ALPHA,
        "acceptance of one token α",
        "The chance that the next drafted token is accepted. Of all drafted tokens fewer are: after a wrong one the "
        "rest of its round is dropped.",
        100,
        lambda place: place / 100,
        lambda value: round(100 * value),
        percent_text,
    ),
    Scale(
        TOKENS,
        "output length",
        "Tokens of an answer: what is paid once weighs less in a long one.",
        100,
        lambda place: float(round(2 * (_LONGEST / 2) ** (place / 100))),
        lambda value: round(100 * log(max(value, 2.0) / 2) / log(_LONGEST / 2)),
        lambda value: f"{value:,.0f} tok",
    ),
    Scale(
        VERIFY,
        "verify cost v",
        "All of a round but drafting, in plain steps of the target.",
        195,
        lambda place: 0.25 + place * 0.05,
        lambda value: round((value - 0.25) / 0.05),
        lambda value: f"{value:.2f} steps",
    ),
)


class WhatIfSliders(QWidget):
    """A slider for each thing that could be otherwise, and the way back to what was measured.

    Signals:
        moved(str, float): a slider was moved by the person: its name and the value it stands for.
        reset(): back to what was measured.
    """

    moved = Signal(str, float)
    reset = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.sliders: dict[str, QSlider] = {}
        self._values: dict[str, QLabel] = {}
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(GRID)
        grid.setVerticalSpacing(GRID // 2)
        for place, scale in enumerate(SCALES):
            name, value, slider = Label(scale.words), Label(), QSlider(Qt.Orientation.Horizontal)
            name.setProperty("role", "dim")
            name.setBuddy(slider)
            value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            slider.setRange(0, scale.most)
            slider.setPageStep(max(1, scale.most // 10))
            slider.setAccessibleName(scale.words)
            for widget in (name, slider):
                widget.setToolTip(scale.tip)
            slider.valueChanged.connect(lambda place, scale=scale: self.moved.emit(scale.name, scale.of(place)))
            grid.addWidget(name, 2 * place, 0)
            grid.addWidget(value, 2 * place, 1)
            grid.addWidget(slider, 2 * place + 1, 0, 1, 2)
            self.sliders[scale.name], self._values[scale.name] = slider, value
        self.back = in_role(QPushButton("Back to what was measured"), "link")
        self.back.clicked.connect(self.reset)
        grid.addWidget(self.back, 2 * len(SCALES), 0, 1, 2)
        grid.setRowStretch(2 * len(SCALES) + 1, 1)
        self.setMinimumWidth(26 * GRID)

    def show_state(self, state: WhatIf) -> None:
        """Shows what holds, without telling it as moved."""
        for scale in SCALES:
            slider, value = self.sliders[scale.name], state.value(scale.name)
            was_blocked = slider.blockSignals(True)
            slider.setValue(scale.to(value))
            slider.blockSignals(was_blocked)
            slider.setAccessibleDescription(scale.text(value))
            measured = "" if scale.name in state.assumed else "  measured"
            self._values[scale.name].setText(f"{scale.text(value)}{measured}")
        self.back.setEnabled(bool(state.assumed))


class BreakEvenPage(QWidget):
    """Sentence, plot and sliders."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.state: WhatIf | None = None
        self._clinic: Clinic | None = None
        self.empty = EmptyState(_NOTHING_HEAD, _NOTHING, _RUN_ALONE)
        self.sentence = ToneLabel(wraps=True, alignment=Qt.AlignmentFlag.AlignLeft)
        self.plot = BreakEvenPlot(themes)
        self.sliders = WhatIfSliders()
        self.caption = sentence("small")
        self.caption.setText(_CAPTION)
        self.caption.show()
        middle = beside((self.plot, 1), self.sliders, spacing=2 * GRID)
        self.body = QWidget()
        # As high as the sliders at least: they must not be pressed together.
        self.plot.setMinimumHeight(self.sliders.sizeHint().height())
        stacked(self.sentence, (middle, 1), self.caption, on=self.body, spacing=GRID)
        self.ground = scrolling(self.body)
        stacked(self.empty, (self.ground, 1), on=self, margins=(0, 2 * GRID, 0, 0))
        self.sliders.moved.connect(self._move)
        self.sliders.reset.connect(self._reset)
        self.show_clinic(None)

    def show_clinic(self, clinic: Clinic | None) -> None:
        """Shows a run's prediction; what the sliders say is kept while the run stays the same."""
        found = None if clinic is None else clinic.prediction
        is_same = self._clinic is not None and clinic is not None and self._clinic.run is clinic.run
        self._clinic = clinic
        self.empty.setVisible(found is None)
        self.ground.setVisible(found is not None)
        if clinic is None or found is None:
            self.state = None
            self._explain(clinic)
            return
        self.state = WhatIf(found, self.state.assumed if is_same and self.state is not None else {})
        self.caption.setText(f"{clinic.best} {_CAPTION}".strip())
        self._show()

    def _explain(self, clinic: Clinic | None) -> None:
        """What is missing; where no round ever comes, what can be said without."""
        head = None if clinic is None or steady_rounds(clinic.run) else _WITHOUT_ROUNDS.get(clinic.run.info.mode)
        if clinic is None or head is None:
            self.empty.say(_NOTHING_HEAD, _NOTHING)
        else:
            self.empty.say(head, clinic.sentence)

    def _move(self, name: str, value: float) -> None:
        if self.state is not None:
            self.state = self.state.with_value(name, value)
            self._show()

    def _reset(self) -> None:
        if self.state is not None:
            self.state = WhatIf(self.state.measured)
            self._show()

    def _show(self) -> None:
        state, clinic = self.state, self._clinic
        if state is None or clinic is None:
            return
        self.sliders.show_state(state)
        if not state.assumed:
            self.sentence.say(clinic.sentence, clinic.judgement)
        else:
            self.sentence.say(state.sentence, "good" if state.saved_ms > 0 else "warn")
        here = (state.value(GAMMA), state.speed) if state.assumed else None
        self.plot.show_curves(state.decode_curve(), state.whole_curve(), here, _measured_of(clinic, state.measured))

    def restyle(self) -> None:
        """Takes the theme's colours."""
        self.plot.restyle()


def _measured_of(clinic: Clinic, found: Prediction) -> tuple[float, MeasuredSpeedup] | None:
    """The measured speed of decoding, which the curve predicts; not where decoding began with hidden tokens."""
    if mode_of(clinic.run.info.mode).is_parallel:
        return None
    decode = found.of(DECODE)
    return None if decode is None else (found.mean_gamma, decode)
