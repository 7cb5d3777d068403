"""Several prompts as one batch against one after the other: the rows of `evprof bench switches` that no run carries.

A run answers one prompt, so a batch is not asked of an Engine but of a BatchEngine. Everything is off otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from evprof.core.errors import Cancelled
from evprof.core.protocols import StopFlag
from evprof.core.request import RunRequest
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.run.switches.figures import MeasuredSide, head_of, in_turns, row_of
from evprof.run.switches.variants import Variant

QUESTIONS = (
    "Describe the scene in one sentence.",
    "What is moving, and where does it go?",
    "Is it day or night?",
    "Which vehicles can be seen on the road, and how far away are they?",
    "What stands beside the road?",
    "Does the road bend?",
    "What should a driver pay attention to in the next few seconds of this scene?",
)
"""Asked beside the sample's own prompt. Of unequal length, so that a batch has to be padded."""


@dataclass(frozen=True)
class BatchTurn:
    """Some prompts answered together: ms up to stage vision and in the language model, ids by row, bytes at the end."""

    before_ms: float
    llm_ms: float
    answers: tuple[tuple[int, ...], ...]
    kv_bytes: int
    peak_bytes: int | None


@dataclass(frozen=True)
class BatchModel:
    """A model that was made ready, and what that took (None: it was)."""

    weight_bytes: int
    setup_ms: float | None
    peak_of: str


class BatchEngine(Protocol):
    """Answers several prompts about one sample at once. Made by the composition root."""

    def ready(self, request: RunRequest, role: str, stop: StopFlag) -> BatchModel:
        """Loads the model of `role`, and lets others go. Raises UserError and Cancelled."""

    def answer(self, prompts: Sequence[str], settings: GenerationSettings, stop: StopFlag) -> BatchTurn:
        """The answers of the model that is ready. Raises UserError, when memory runs out too, and Cancelled."""

    def close(self) -> None:
        """Frees everything."""


def measure_batch(
    engine: BatchEngine, request: RunRequest, variant: Variant, plain: RunLog, *, repeat: int, stop: StopFlag
) -> dict[str, Any]:
    """The row of one batch size. Raises UserError when it cannot be measured, Cancelled when stopped."""
    role, settings = request.mode, request.settings
    model = engine.ready(request, role, stop)
    prompts = (request.sample.prompt, *QUESTIONS)[: int(variant.value)]

    def turn(is_on: bool, how: GenerationSettings) -> BatchTurn:
        if stop.is_set():
            raise Cancelled
        if is_on:
            return engine.answer(prompts, how, stop)
        return one_after_the_other([engine.answer([prompt], how, stop) for prompt in prompts])

    natural = replace(settings, ignore_eos=False)
    firsts = turn(False, natural), turn(True, natural)
    turns = in_turns(repeat, lambda is_on: turn(is_on, settings))
    off, on = (
        MeasuredSide(
            [each.before_ms + each.llm_ms for each in side],
            [each.llm_ms for each in side],
            first.answers,
            setup_ms,
            first.llm_ms,
            model.weight_bytes,
            max(each.kv_bytes for each in side),
            max((each.peak_bytes for each in side if each.peak_bytes is not None), default=None),
        )
        for first, side, setup_ms in zip(firsts, turns, (model.setup_ms, None), strict=True)
    )
    return row_of(head_of(variant, variant.name, role, plain), variant.expects, off, on, peak_of=model.peak_of)


def one_after_the_other(turns: Sequence[BatchTurn]) -> BatchTurn:
    """Turns of one prompt each as one: times add up, of the caches and peaks the largest counts."""
    return BatchTurn(
        sum(turn.before_ms for turn in turns),
        sum(turn.llm_ms for turn in turns),
        tuple(answer for turn in turns for answer in turn.answers),
        max(turn.kv_bytes for turn in turns),
        max((turn.peak_bytes for turn in turns if turn.peak_bytes is not None), default=None),
    )
