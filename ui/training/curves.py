"""The training of adapters as a session tells it, checked: whatever else stands in its facts, nothing here breaks.

It knows no widget and reads no file.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

from evprof.core.units import count_text, percent_text
from evprof.session.training import MOST_TRAININGS, trainings
from ui.settings.drafter_choice import adapter_words

_MOST_POINTS = 200_000
_LONGEST_NAME = 80


@dataclass(frozen=True)
class TrainingCurve:
    """One adapter's training: losses by step, of the examples trained on and of those kept aside.

    `matches` are shares of kept-aside tokens that the adapter got right, by validation step. `best_step` is the one
    that was kept. Counts are None where the session does not say.
    """

    adapter: str
    kind: str
    started_at: str
    steps: tuple[float, ...]
    loss: tuple[float, ...]
    validation_steps: tuple[float, ...]
    validation_loss: tuple[float, ...]
    matches: tuple[float, ...]
    best_step: int | None
    stopped_early: bool
    examples: int | None
    validation_examples: int | None

    @property
    def title(self) -> str:
        """`EAGLE · tiny-eagle`."""
        return adapter_words(self.kind, self.adapter) if self.kind else self.adapter

    @property
    def began(self) -> str:
        """When it began, to the minute."""
        return self.started_at.replace("T", " ")[:16]

    @property
    def best_loss(self) -> float | None:
        """The validation loss at the step that was kept; None where it was not looked at then."""
        pairs = zip(self.validation_steps, self.validation_loss, strict=True)
        return next((loss for step, loss in pairs if step == self.best_step), None)

    @property
    def best_match(self) -> float | None:
        """The share of right tokens at the step that was kept."""
        pairs = zip(self.validation_steps, self.matches, strict=False)
        return next((share for step, share in pairs if step == self.best_step), None)

    @property
    def sentence(self) -> str:
        """How it went, in a line or two."""
        last = max((*self.steps, *self.validation_steps), default=0)
        parts = []
        if self.examples is not None:
            aside = "" if self.validation_examples is None else f", {self.validation_examples:,} kept aside"
            parts.append(f"{count_text(self.examples, 'example')}{aside}")
        parts.append(count_text(round(last), "step"))
        if self.best_step is not None:
            best = f"best at step {self.best_step:,}"
            best += "" if self.best_loss is None else f", loss {self.best_loss:.3g}"
            best += "" if self.best_match is None else f", {percent_text(self.best_match, 1)} of tokens right"
            parts.append(best)
        parts.append("stopped early: no more improvement" if self.stopped_early else "ran to its end")
        return " · ".join(parts)


def training_curves(facts: dict[str, Any]) -> list[TrainingCurve]:
    """The trainings of a session in order; entries that make no sense are left out."""
    found = (_curve(entry) for entry in trainings(facts)[-MOST_TRAININGS:])
    return [curve for curve in found if curve is not None]


def _curve(entry: dict[str, Any]) -> TrainingCurve | None:
    steps, loss = _pairs(entry.get("steps"), entry.get("loss"))
    validation_steps, validation_loss = _pairs(entry.get("validation_steps"), entry.get("validation_loss"))
    match_steps, matches = _pairs(entry.get("validation_steps"), entry.get("validation_match"))
    if not steps and not validation_steps:
        return None
    return TrainingCurve(
        _words(entry.get("adapter")) or "adapter",
        _words(entry.get("kind")),
        _words(entry.get("started_at")),
        steps,
        loss,
        validation_steps,
        validation_loss,
        matches if match_steps == validation_steps else (),
        _count(entry.get("best_step")),
        entry.get("stopped_early") is True,
        _count(entry.get("examples")),
        _count(entry.get("validation_examples")),
    )


def _pairs(first: Any, second: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Two equally long series of finite numbers; what has no finite partner is left out."""
    if not isinstance(first, list) or not isinstance(second, list):
        return (), ()
    both = list(zip(first, second, strict=False))[:_MOST_POINTS]
    known = [(float(x), float(y)) for x, y in both if _is_number(x) and _is_number(y)]
    return tuple(x for x, _ in known), tuple(y for _, y in known)


def _is_number(value: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return abs(value) < 1e15 if isinstance(value, int) else isfinite(value) and abs(value) < 1e15


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15
    return value if is_count else None


def _words(value: Any) -> str:
    text = " ".join(str(value).split()) if isinstance(value, str) else ""
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"
