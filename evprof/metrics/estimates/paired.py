"""A figure of one configuration over its samples, and of two configurations over the samples that both measured."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from statistics import fmean

from evprof.core.records import COVERS
from evprof.core.run_log import RunLog
from evprof.metrics.configurations.gathering import Configuration, sample_key
from evprof.metrics.estimates import estimates
from evprof.metrics.estimates.estimates import Verdict, verdict
from evprof.metrics.estimates.observations import Read, observe
from evprof.metrics.figures.decoding import decode_ms, decode_steps, output_length
from evprof.metrics.figures.partition import Block, measured_ms, partition, shape_of
from evprof.metrics.figures.stages import Rate


def by_sample(column: Configuration, read: Read) -> dict[Hashable, float]:
    """The figure by sample (the mean of its repeats), of repeats of one request by repeat; only what was measured."""
    found: dict[Hashable, list[float]] = {}
    for run in column.runs:
        if (value := read(run)) is not None:
            key: Hashable = sample_key(run) if column.is_cell else run.info.repeat
            found.setdefault(key, []).append(value)
    return {key: fmean(values) for key, values in found.items()}


def values_of(column: Configuration, read: Read) -> list[float]:
    return list(by_sample(column, read).values())


def mean_of(column: Configuration, read: Read) -> float | None:
    """Mean over samples, or repeats; None when none measured it."""
    return estimates.mean_of(observe(column.runs, read))


def compare(base: Configuration, other: Configuration, read: Read, other_read: Read | None = None) -> Verdict | None:
    """The verdict on a figure of two configurations; None when either measured nothing.

    `other_read` reads the other's, where that is another figure.
    """
    return verdict(observe(base.runs, read, base.session), observe(other.runs, other_read or read, other.session))


DECODE: Block = ("decode",)


@dataclass(frozen=True)
class Generation:
    """Two configurations' answers: `stages` are those whose time is told, `tokens` what they gave, `total_ms` their
    time, `each_ms` the time per token."""

    stages: Block
    tokens: Verdict
    total_ms: Verdict
    each_ms: Verdict

    @property
    def name(self) -> str:
        """The stages: `decode`, or `vision+prefill+decode` where they were timed in one piece."""
        return COVERS.join(self.stages)

    @property
    def token_share(self) -> float | None:
        """The part of the logarithm of the time ratio that the token counts make up; None when times are equal.

        Logarithms, because the ratios multiply. Above 1 when more time per token takes some of it back.
        """
        tokens, whole = self.tokens.ratio, self.total_ms.ratio
        if not tokens or not whole or math.isclose(whole, 1.0, rel_tol=1e-9):
            return None
        return math.log(tokens) / math.log(whole)


def generation_stages(*columns: Configuration) -> Block:
    """The smallest piece with decode in it that all runs of these configurations timed."""
    shapes = {shape_of(run) for column in columns for run in column.runs}
    return next((block for block in partition(shapes) if "decode" in block), DECODE)


def fewer_or_faster(base: Configuration, other: Configuration) -> Generation | None:
    """Token counts and times of two configurations; None while either was not measured."""
    stages = generation_stages(base, other)

    def tokens(run: RunLog) -> float | None:
        return None if duration(run) is None else _count(run, stages)

    def duration(run: RunLog) -> float | None:
        # A time of 0 counts as not measured: nothing can be divided by it.
        spent = decode_ms(run) if stages == DECODE else measured_ms(run, shape_of(run), stages)
        return (spent or None) if _count(run, stages) else None

    found = [compare(base, other, read) for read in (tokens, duration, Rate(duration, tokens))]
    known = [compared for compared in found if compared is not None]
    return Generation(stages, *known) if len(known) == len(found) else None


def _count(run: RunLog, stages: Block) -> float | None:
    """Tokens that the piece gave: the decode steps' alone, or, where the piece begins before them, all."""
    return decode_steps(run) if stages == DECODE else output_length(run)


def is_mostly_cut_off(column: Configuration) -> bool:
    """Whether most answers are as long as allowed though they might have ended: their length is the limit's."""
    if any(run.info.settings.ignore_eos for run in column.runs):
        return False
    limits = [(output_length(run), run.info.given_settings.get("max_new_tokens")) for run in column.runs]
    cut = sum(isinstance(limit, int) and length is not None and length >= limit for length, limit in limits)
    return cut > len(limits) / 2
