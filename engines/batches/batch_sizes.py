"""The same requests answered in batches of several sizes: what a session notes as "batches".

Every size answers the same prompts about the same samples, so that sizes differ in nothing but how many go at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, islice
from statistics import median

from engines.batches.batching import BatchAnswer, generate_batch
from engines.measuring.stage_memory import StageMemory
from engines.stages.model import VisionLanguageModel
from evprof.core.batches import BatchRow
from evprof.core.protocols import StopFlag
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.run.switches.batches import QUESTIONS

SIZES = (1, 2, 4)
REPEAT = 3
MOST_TOKENS = 32
"""Tokens of a timed answer, at most: a step costs the same at the end of a long answer but for its context."""


def batch_rows(
    model: VisionLanguageModel,
    role: str,
    samples: Sequence[Sample],
    settings: GenerationSettings,
    stop: StopFlag,
    *,
    sizes: Sequence[int] = SIZES,
    repeat: int = REPEAT,
) -> list[BatchRow]:
    """A row for each size: medians over `repeat` rounds after one that is not counted.

    Rounds take the sizes in turn, forwards and backwards. Raises UserError for bad input and Cancelled when stopped.
    """
    asked = requests_for(samples, max(sizes))
    timed = replace(settings, ignore_eos=True, max_new_tokens=min(settings.max_new_tokens, MOST_TOKENS))
    rounds: dict[int, list[_Round]] = {size: [] for size in sizes}
    for number in range(repeat + 1):
        for size in sizes if number % 2 == 0 else reversed(sizes):
            found = _Round(model, asked, timed, size, stop)
            if number:
                rounds[size].append(found)
    return [_row(model, role, size, rounds[size], timed) for size in sizes]


def requests_for(samples: Sequence[Sample], count: int) -> list[tuple[Sample, str]]:
    """`count` pairs of sample and prompt: each sample's own prompt first, then other questions about them."""
    own = [(sample, sample.prompt) for sample in samples]
    others = zip(cycle(samples), cycle(QUESTIONS), strict=False)
    return [*own, *islice(others, max(count - len(own), 0))][:count]


class _Round:
    """All requests once, in batches of `size`: sums of times in ms, the largest of bytes."""

    def __init__(
        self,
        model: VisionLanguageModel,
        asked: Sequence[tuple[Sample, str]],
        settings: GenerationSettings,
        size: int,
        stop: StopFlag,
    ) -> None:
        memory = StageMemory([model.device])
        self.requests = len(asked)
        self.answers: list[BatchAnswer] = []
        for first in range(0, len(asked), size):
            with memory.stage("decode"):
                self.answers.append(generate_batch(model, asked[first : first + size], settings, stop=stop))
        facts = memory.facts(model.facts.weight_bytes or 0)
        self.peak_bytes = facts.peak_allocated_bytes or facts.peak_rss_bytes

    @property
    def before_ms(self) -> float:
        """Load, preprocess and vision, one sample after the other whatever the size."""
        return sum(answer.vision_ms or 0.0 for answer in self.answers)

    @property
    def prefill_ms(self) -> float:
        """All prefills."""
        return sum(answer.prefill_ms for answer in self.answers)

    @property
    def decode_ms(self) -> float:
        """All decoding."""
        return sum(answer.decode_ms for answer in self.answers)

    @property
    def decoded(self) -> int:
        """Tokens behind the first of each answer."""
        return sum(answer.tokens - len(answer.ids) for answer in self.answers)


def _row(
    model: VisionLanguageModel, role: str, size: int, rounds: Sequence[_Round], settings: GenerationSettings
) -> BatchRow:
    peaks = [each.peak_bytes for each in rounds if each.peak_bytes is not None]
    answers = rounds[0].answers
    return BatchRow(
        model=model.facts.name,
        role=role,
        device=model.facts.device,
        dtype=model.facts.dtype,
        batch=size,
        requests=rounds[0].requests,
        n=len(rounds),
        positions=max(length for answer in answers for length in answer.prompt_lengths),
        new_tokens=settings.max_new_tokens,
        tokens=sum(answer.tokens for answer in answers),
        before_ms=median(each.before_ms for each in rounds),
        prefill_ms=median(each.prefill_ms for each in rounds),
        decode_ms=median(each.decode_ms for each in rounds),
        samples_per_s=median(
            1000 * each.requests / (each.before_ms + each.prefill_ms + each.decode_ms) for each in rounds
        ),
        decode_tok_s=median(1000 * each.decoded / each.decode_ms for each in rounds) if rounds[0].decoded else None,
        peak_bytes=max(peaks) if peaks else None,
        peak_of="allocated" if model.device.type == "cuda" else "rss",
        cache_bytes=max(answer.cache.stored for answer in answers),
    )
