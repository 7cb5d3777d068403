"""What the demo runs, with and without a window."""

from __future__ import annotations

from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.loaders.bundled import bundled_sample

BUNDLED_DRAFT, BUNDLED_TARGET = "evprof-tiny-eventgpt", "evprof-tiny-video-llava"
BUNDLED_HEAD = "evprof-tiny-eagle"

_REPEATS, _DRAFTED = 3, 4
"""A verdict needs three runs a side. `docs/adapters.md` measures the bundled head with four tokens a round, too."""


def demo_requests() -> list[RunRequest]:
    """Side by side, then speculative with the bundled EAGLE head, three times each after a warm-up, of the bundled
    models on the bundled sample. The head needs the second warm-up: its first use takes longer than the others.

    Raises UserError without a sample.
    """
    from evprof.loaders.adapters import drafter_of

    sample = bundled_sample()
    draft, target = ModelChoice(BUNDLED_DRAFT), ModelChoice(BUNDLED_TARGET)
    drafter, head = drafter_of(BUNDLED_HEAD, None)
    speculation = SpeculationSettings(drafter, str(head.folder) if head else None, _DRAFTED)
    speculative = GenerationSettings(speculation=speculation)
    return [
        RunRequest("side-by-side", sample, draft, target, GenerationSettings(), repeat=_REPEATS, warmup=None),
        RunRequest("speculative", sample, draft, target, speculative, repeat=_REPEATS, warmup=1),
    ]
