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
from evprof.metrics.comparison.document import TOKEN_MATCH_DEFINITION
from evprof.run.switches.figures import measured_row, pair_ratio, verdict
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
    alone, together = turn(False, natural), turn(True, natural)
    pairs = []
    for index in range(repeat):
        order = (False, True) if index % 2 == 0 else (True, False)
        made = {is_on: turn(is_on, settings) for is_on in order}
        pairs.append((made[False], made[True]))
    whole = pair_ratio([off.before_ms + off.llm_ms for off, _ in pairs], [on.before_ms + on.llm_ms for _, on in pairs])
    llm = pair_ratio([off.llm_ms for off, _ in pairs], [on.llm_ms for _, on in pairs])
    memory: dict[str, Any] = {"peak_of": model.peak_of}
    for name, turns in (("off", [off for off, _ in pairs]), ("on", [on for _, on in pairs])):
        peaks = [each.peak_bytes for each in turns if each.peak_bytes is not None]
        memory |= {
            f"weights_{name}_bytes": model.weight_bytes,
            f"kv_{name}_bytes": max(each.kv_bytes for each in turns),
            f"peak_{name}_bytes": max(peaks) if peaks else None,
        }
    return measured_row(variant, variant.name, role, plain, pairs=len(pairs), whole=whole, stage=llm) | {
        **memory,
        "agreement": agreement_of_rows(alone.answers, together.answers),
        "setup_off_ms": model.setup_ms,
        "setup_on_ms": None,
        "first_stage_on_ms": together.llm_ms,
        "verdict": verdict(llm, variant.expects),
        "warnings": [],
    }


def one_after_the_other(turns: Sequence[BatchTurn]) -> BatchTurn:
    """Turns of one prompt each as one: times add up, of the caches and peaks the largest counts."""
    peaks = [turn.peak_bytes for turn in turns if turn.peak_bytes is not None]
    return BatchTurn(
        sum(turn.before_ms for turn in turns),
        sum(turn.llm_ms for turn in turns),
        tuple(answer for turn in turns for answer in turn.answers),
        max(turn.kv_bytes for turn in turns),
        max(peaks) if peaks else None,
    )


def agreement_of_rows(off: Sequence[Sequence[int]], on: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Token match of all rows together, and the earliest position at which a row's two answers part."""
    rows = [list(zip(one, other, strict=False)) for one, other in zip(off, on, strict=True)]
    compared, matched = sum(map(len, rows)), sum(one == other for row in rows for one, other in row)
    parted = [place for row in rows for place, (one, other) in enumerate(row) if one != other]
    return {
        "definition": TOKEN_MATCH_DEFINITION,
        "matched": matched,
        "compared": compared,
        "rate": matched / compared if compared else None,
        "first_divergence": min(parted, default=None),
        "answer_tokens": [sum(map(len, off)), sum(map(len, on))],
    }
