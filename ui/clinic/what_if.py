"""Break-even as a what-if: measured costs with some of them changed, the curve they give, and one plain sentence.

The arithmetic is `evprof.metrics.speculation.break_even`'s; here is only what sliders may change and how it is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from evprof.core.units import count_text, ms_text, percent_text
from evprof.metrics.speculation import break_even
from evprof.metrics.speculation.break_even import GAMMAS, Chance, RoundCosts
from evprof.metrics.speculation.payoff import Prediction

GAMMA, ALPHA, TOKENS, VERIFY = "gamma", "alpha", "tokens", "verify"
"""What can be changed."""


@dataclass(frozen=True)
class WhatIf:
    """A measured prediction and what is assumed instead: None stands for what was measured.

    `alpha` is a chance per token, `tokens` the answer's length, `verify` the cost of a verification in plain steps.
    """

    measured: Prediction
    gamma: int | None = None
    alpha: float | None = None
    tokens: int | None = None
    verify: float | None = None

    @property
    def is_measured(self) -> bool:
        """Whether nothing is assumed."""
        return self == WhatIf(self.measured)

    def with_value(self, name: str, value: float) -> WhatIf:
        """The same with one thing assumed."""
        match name:
            case "gamma":
                return replace(self, gamma=round(value))
            case "tokens":
                return replace(self, tokens=round(value))
            case "alpha":
                return replace(self, alpha=float(value))
            case _:
                return replace(self, verify=float(value))

    def value(self, name: str) -> float:
        """What holds now: assumed or measured."""
        assumed = {GAMMA: self.gamma, ALPHA: self.alpha, TOKENS: self.tokens, VERIFY: self.verify}[name]
        if assumed is not None:
            return float(assumed)
        found = self.measured
        if name == GAMMA:
            return found.mean_gamma
        return {ALPHA: found.alpha or 0.0, TOKENS: float(found.tokens), VERIFY: found.v}[name]

    @property
    def mix(self) -> int | Mapping[int, float]:
        """Drafted tokens a round: as many as assumed, else the shares that were measured."""
        return self.measured.gamma if self.gamma is None else self.gamma

    @property
    def chance(self) -> Chance:
        """Acceptance: the assumed one for every place, else the measured ones by place."""
        return self.measured.by_place if self.alpha is None else self.alpha

    @property
    def costs(self) -> RoundCosts:
        """The measured costs, verification as assumed."""
        costs, asked = self.measured.costs, self.verify
        if asked is None or self.measured.v <= 0:
            return costs
        scale = asked / self.measured.v
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
        guessed = self.gamma is not None and self.gamma not in self.measured.costs.rest_ms
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
