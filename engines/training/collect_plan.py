"""What is collected of whom. It knows neither torch nor files, so that it travels to processes that set up both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evprof.core.records import DRAFT, TARGET
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import SPECULATIVE


@dataclass(frozen=True)
class CollectPlan:
    """What is collected of whom; without a `draft` only the target's part, and of its prompt the last `positions` (0:
    all)."""

    samples: Sequence[Sample]
    target: ModelChoice
    draft: ModelChoice | None
    settings: GenerationSettings
    folder: Path
    overwrite: bool = False
    positions: int = 0

    @property
    def keeps_positions(self) -> bool:
        """Whether only the prompt's end is kept: what a draft takes part in looks at all of it."""
        return self.draft is None and self.positions > 0

    @property
    def choices(self) -> dict[str, ModelChoice]:
        """The models by role, the target first."""
        return {TARGET: self.target, **({} if self.draft is None else {DRAFT: self.draft})}

    def request(self) -> RunRequest:
        """The pair as one run asks for it: what must fit in memory. Raises UserError for settings that mean nothing."""
        mode = TARGET if self.draft is None else SPECULATIVE
        request = RunRequest(mode, self.samples[0], self.draft, self.target, self.settings)
        self.settings.validate()
        for role, choice in self.choices.items():
            choice.validate(role)
        return request
