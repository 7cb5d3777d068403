"""What the demo runs, with and without a window."""

from __future__ import annotations

from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import ModelChoice
from evprof.loaders.bundled import bundled_sample

BUNDLED_DRAFT, BUNDLED_TARGET = "evprof-tiny-eventgpt", "evprof-tiny-video-llava"


def demo_requests() -> list[RunRequest]:
    """Side by side, then speculative, of the bundled pair on the bundled sample. Raises UserError without a sample."""
    sample = bundled_sample()
    draft, target = ModelChoice(BUNDLED_DRAFT), ModelChoice(BUNDLED_TARGET)
    return [RunRequest(mode, sample, draft, target, warmup=None) for mode in ("side-by-side", "speculative")]
