"""What makes up the difference between two runs or two configurations: by stage, in decoding, and in their tokens.

Every difference is one of means over the samples that both measured, so that parts add up to the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from evprof.core.run_log import RunLog
from evprof.metrics.arithmetic.statistics import Interval
from evprof.metrics.comparison.figures import stages_of
from evprof.metrics.configurations.gathering import Configuration, on_machines_of_both
from evprof.metrics.estimates.estimates import Read
from evprof.metrics.estimates.paired import compare
from evprof.metrics.figures import decoding
from evprof.metrics.figures.partition import Block, measured_ms, name_of, partition, shape_of
from evprof.metrics.figures.stages import END_TO_END, MODEL_ONLY, total_ms, unattributed_ms

if TYPE_CHECKING:
    from evprof.metrics.configurations.gathering import Configuration


TOKEN_MATCH_DEFINITION = "same id at the same position"

UNATTRIBUTED, OVERLAP, REMAINDER = "unattributed", "overlap", "remainder"
"""Parts of a difference besides stages: time outside all stages; time of several stages at once (negative); and what
only one side measured."""

_NOTHING_MS = 1e-6


def same_questions(baseline: Configuration, other: Configuration) -> list[tuple[RunLog, RunLog]]:
    """The first runs of both on every sample that both have; of two runs or requests their first runs."""
    if not (baseline.is_cell or other.is_cell):
        return [(baseline.runs[0], other.runs[0])]
    one, two = (
        replace(side, runs=tuple(runs)).samples()
        for side, runs in zip((baseline, other), on_machines_of_both(baseline, other), strict=True)
    )
    return [(one[key][0], two[key][0]) for key in one if key in two]


def common_blocks(listed: Sequence[Configuration], basis: str = END_TO_END) -> list[Block]:
    """The finest division of the stages that all these columns can answer."""
    return partition({shape_of(run) for column in listed for run in column.runs}, stages_of(basis))


def part_reader(block: Block) -> Read:
    """Reads the time in ms of a block of stages off a run."""
    return lambda run: measured_ms(run, shape_of(run), block)


def configuration_contributions(
    baseline: Configuration, other: Configuration, basis: str = END_TO_END, blocks: Sequence[Block] | None = None
) -> list[dict[str, Any]]:
    """What each stage (all roles), and the time outside all stages, adds to the difference other - baseline.

    By `blocks` of stages (default: the finest that both can answer). `share` is of the difference of the totals on this
    basis, None while that is unknown or 0; `ci95` is the 95 % interval of `delta_ms`. Parts that only one side measured
    stand in "remainder", so that the parts add up to the difference of the totals.
    """
    divided = common_blocks((baseline, other), basis) if blocks is None else blocks
    total = partial(total_ms, basis=basis)
    totals = compare(baseline, other, total)
    whole = None if totals is None else totals.delta
    sides = [[run for run in side.runs if totals is None or total(run) is not None] for side in (baseline, other)]
    kept = [replace(side, runs=tuple(runs)) for side, runs in zip((baseline, other), sides, strict=True)]
    readers = {name_of(block): part_reader(block) for block in divided}
    if basis != MODEL_ONLY:
        readers[UNATTRIBUTED] = unattributed_ms
    found, has_all_parts = [], {name for block in divided for name in block} >= set(stages_of(basis))
    for name, read in readers.items():
        known = [[read(run) is not None for run in side] for side in sides]
        if all(map(all, known)) and (part := compare(kept[0], kept[1], read)) is not None:
            found.append(_entry(name, part.delta, whole, part.delta_interval))
        elif any(map(any, known)):
            has_all_parts = False
    if whole is not None and abs(left := whole - sum(part["delta_ms"] for part in found)) > _NOTHING_MS:
        found.append(_entry(OVERLAP if has_all_parts else REMAINDER, left, whole, None))
    return found


def _entry(name: str, delta_ms: float, whole: float | None, interval: Interval | None) -> dict[str, Any]:
    return {
        "stage": name,
        "delta_ms": delta_ms,
        "share": delta_ms / whole if whole else None,
        "ci95": None if interval is None else list(interval),
    }


def ratio_of(value: float | None, base: float | None) -> float | None:
    """value / base; None when either is missing or the base is 0."""
    return None if value is None or not base else value / base


def configuration_generation(baseline: Configuration, other: Configuration) -> dict[str, float | None]:
    """Ratio of decode times as decoded-token ratio (n - 1: the first is prefill's) times time-per-token ratio.

    Of configurations: mean numbers of tokens, and decode time of all samples by their tokens.
    """
    counts = compare(baseline, other, lambda run: decoding.decode_steps(run) or None)
    timed = compare(baseline, other, lambda run: decoding.decode_steps(run) if _decode_ms(run) is not None else None)
    spent = compare(baseline, other, _decode_ms)
    tokens = None if counts is None else counts.ratio
    each = None if timed is None or spent is None else ratio_of(spent.ratio, timed.ratio)
    product = None if tokens is None or each is None else tokens * each
    return {"token_count_ratio": tokens, "time_per_token_ratio": each, "product": product}


def _decode_ms(run: RunLog) -> float | None:
    steps, each = decoding.decode_steps(run), decoding.decode_ms_per_token(run)
    return steps * each if steps and each is not None else None


def configuration_token_match(baseline: Configuration, other: Configuration) -> dict[str, Any]:
    """Tokens with the same id at the same position, over the length of the shorter answer; rate None over nothing.

    Summed over the samples that both columns answered. Of repeats the first counts.
    """
    matched, compared = decoding.matching_ids(same_questions(baseline, other))
    rate = matched / compared if compared else None
    return {"definition": TOKEN_MATCH_DEFINITION, "matched": matched, "compared": compared, "rate": rate}
