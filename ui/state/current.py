"""The one value that says what the window is about: what is shown, and what the next run measures.

Button, lists, players, prompt, mode and the request of the next run read it and nothing else. It uses no Qt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from evprof.core.request import OF_MEASURING
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import MODES
from evprof.run.requests import BUNDLED_DRAFT, BUNDLED_TARGET
from evprof.view.columns import RunPair

NO_RUNS: RunPair = (None, None)


def _measuring() -> Mapping[str, Any]:
    return {entry.key: entry.default for entry in OF_MEASURING}


@dataclass(frozen=True)
class Current:
    """`sample` holds the prompt; `is_typed`: a person typed it. `mode` is the chosen one, whether or not it can run.

    `runs` are the ids in columns A and B. With a `cell` they stand for all runs of that cell of a suite or an import.
    """

    sample: Sample = field(default_factory=Sample)
    is_typed: bool = False
    mode: str = next(iter(MODES))
    draft: ModelChoice = field(default_factory=partial(ModelChoice, BUNDLED_DRAFT))
    target: ModelChoice = field(default_factory=partial(ModelChoice, BUNDLED_TARGET))
    settings: GenerationSettings = field(default_factory=GenerationSettings)
    measuring: Mapping[str, Any] = field(default_factory=_measuring)
    runs: RunPair = NO_RUNS
    cell: str = ""


class CurrentState:
    """Holds the current value. A prompt that was typed stays with every sample until its field is emptied; otherwise
    the prompt is that of the chosen sample or run.

    `listeners` are called in order when the value is another one. `sample_of` gives the sample of a pair of runs, None
    where it is not known.
    """

    def __init__(self) -> None:
        self.now = Current()
        self.listeners: list[Callable[[], object]] = []
        self.sample_of: Callable[[RunPair], Sample | None] = lambda _: None

    def change(self, **fields: Any) -> None:
        """Replaces fields of the value, all at once."""
        now = replace(self.now, **fields)
        if now != self.now:
            self.now = now
            for listener in self.listeners:
                listener()

    def choose_sample(self, sample: Sample) -> None:
        """Makes a sample current; no run is shown."""
        self.change(sample=self._asked(sample), runs=NO_RUNS, cell="")

    def show_runs(self, runs: RunPair, cell: str = "") -> None:
        """Shows runs. Their sample becomes current: that of B, or of A where B is empty."""
        sample = self.sample_of(runs)
        self.change(runs=runs, cell=cell, sample=self.now.sample if sample is None else self._asked(sample))

    def type_prompt(self, text: str) -> None:
        self.change(sample=replace(self.now.sample, prompt=text), is_typed=bool(text.strip()))

    def take_request(self, sample: Sample, **fields: Any) -> None:
        """Makes what was asked before current, with exactly its prompt."""
        self.change(sample=sample, is_typed=False, **fields)

    def _asked(self, sample: Sample) -> Sample:
        return replace(sample, prompt=self.now.sample.prompt) if self.now.is_typed else sample
