"""What is collected from which models. Imports no torch: workers read it before they set their CPU threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evprof.core.errors import USAGE, UserError
from evprof.core.records import DRAFT, TARGET
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import SPECULATIVE

AUTO = "auto"
MOST_LAYERS = 8


@dataclass(frozen=True)
class CollectPlan:
    """What is collected from which models; without a `draft` the target's part, with the last `positions` of its prompt
    (0: all). `layers` of the target: "2,16,29", AUTO as EAGLE-3 heads choose, or ""."""

    samples: Sequence[Sample]
    target: ModelChoice
    draft: ModelChoice | None
    settings: GenerationSettings
    folder: Path
    overwrite: bool = False
    positions: int = 0
    layers: str = ""

    def layers_of(self, count: int) -> tuple[int, ...]:
        """The layers kept of a target that has so many. Raises UserError (exit code 2) for what names none."""
        if self.layers == AUTO:
            # Of a shallow model the second, the middle and the last one.
            deep, middle = (2, count // 2, count - 3), count // 2
            return deep if deep[0] < deep[1] < deep[2] else tuple(sorted({1, max(1, middle), max(1, count - 1)}))
        try:
            found = tuple(int(part) for part in self.layers.split(",")) if self.layers else ()
        except ValueError:
            found = (0,)
        if (
            list(found) != sorted(set(found))
            or len(found) > MOST_LAYERS
            or not all(1 <= each <= count for each in found)
        ):
            usual = ",".join(map(str, replace(self, layers=AUTO).layers_of(count)))
            raise UserError(
                f"--keep-layers must be auto or up to {MOST_LAYERS} rising numbers from 1 to {count}, such as {usual}, "
                f"not '{self.layers[:40]}'.",
                exit_code=USAGE,
            )
        return found

    @property
    def keeps_positions(self) -> bool:
        """Whether only the prompt's end is kept: what a draft takes part in looks at all of it."""
        return self.draft is None and self.positions > 0

    @property
    def choices(self) -> dict[str, ModelChoice]:
        return {TARGET: self.target, **({} if self.draft is None else {DRAFT: self.draft})}

    def request(self) -> RunRequest:
        """The pair as one run asks for it: what must fit in memory. Raises UserError for settings that mean nothing."""
        mode = TARGET if self.draft is None else SPECULATIVE
        request = RunRequest(mode, self.samples[0], self.draft, self.target, self.settings)
        self.settings.validate()
        for role, choice in self.choices.items():
            choice.validate(role)
        return request
