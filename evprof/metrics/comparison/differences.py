"""What makes up the difference between two runs or two configurations: by stage, in decoding, and in their tokens.

Everything is a mean over the samples that both measured, of every sample over its repeats: means add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
from statistics import fmean
from typing import Any

from evprof.core.run_log import RunLog
from evprof.metrics.arithmetic.statistics import Interval
from evprof.metrics.comparison.figures import stages_of
from evprof.metrics.configurations.gathering import Configuration, by_sample, on_machines_of_both
from evprof.metrics.estimates.estimates import Read, observe, verdict
from evprof.metrics.figures import decoding
from evprof.metrics.figures.partition import Block, measured_ms, name_of, partition, shape_of
from evprof.metrics.figures.stages import END_TO_END, MODEL_ONLY, total_ms, unattributed_ms

TOKEN_MATCH_DEFINITION = "same id at the same position"

UNATTRIBUTED, OVERLAP, REMAINDER = "unattributed", "overlap", "remainder"
"""Parts of a difference besides stages: time outside all stages; time of several stages at once (negative); and what
only one side measured."""

_NOTHING_MS = 1e-6

Samples = Sequence[list[RunLog]]
"""Runs of one side, the repeats of a sample together."""


@dataclass(frozen=True)
class Matched:
    """Runs of two columns to compare, `before` the baseline's: the repeats of one sample are a list.

    `is_paired`: the i-th of both are of one sample. `files`: the sessions they came from.
    """

    before: list[list[RunLog]]
    after: list[list[RunLog]]
    is_paired: bool
    files: tuple[str, str] = ("", "")


def matched(baseline: Configuration, other: Configuration) -> Matched:
    """The runs of all samples that both measured; of all samples when they share none."""
    files = baseline.session, other.session
    if not (baseline.is_cell or other.is_cell):
        return Matched([[*baseline.runs]], [[*other.runs]], True, files)
    one, two = map(by_sample, on_machines_of_both(baseline, other))
    common = [key for key in one if key in two]
    if common:
        return Matched([one[key] for key in common], [two[key] for key in common], True, files)
    return Matched(list(one.values()), list(two.values()), False, files)


def mean_of_repeats(runs: Sequence[RunLog], read: Read) -> float | None:
    """A figure's mean over the repeats of one sample; None when one of them does not have it."""
    values = [value for run in runs if (value := read(run)) is not None]
    return fmean(values) if values and len(values) == len(runs) else None


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
    pairs = matched(baseline, other)
    before, after, whole = _with_totals(pairs, basis)
    readers = {name_of(block): part_reader(block) for block in divided}
    if basis != MODEL_ONLY:
        readers[UNATTRIBUTED] = unattributed_ms
    found, has_all_parts = [], {name for block in divided for name in block} >= set(stages_of(basis))
    for name, read in readers.items():
        one, two = ([mean_of_repeats(runs, read) for runs in side] for side in (before, after))
        known = [[value for value in side if value is not None] for side in (one, two)]
        if len(known[0]) == len(one) and len(known[1]) == len(two):
            delta = fmean(known[1]) - fmean(known[0])
            found.append(_entry(name, delta, whole, _interval(before, after, read, delta, pairs.files)))
        elif any(known):
            has_all_parts = False
    if whole is not None and abs(left := whole - sum(part["delta_ms"] for part in found)) > _NOTHING_MS:
        found.append(_entry(OVERLAP if has_all_parts else REMAINDER, left, whole, None))
    return found


def _with_totals(pairs: Matched, basis: str) -> tuple[Samples, Samples, float | None]:
    """The runs whose totals are known, both of a pair, and the difference of those; all runs where no total is."""
    read = partial(total_ms, basis=basis)
    totals = [[mean_of_repeats(runs, read) for runs in side] for side in (pairs.before, pairs.after)]
    keeps = [[total is not None for total in side] for side in totals]
    if pairs.is_paired:
        keeps = [[one and two for one, two in zip(*keeps, strict=True)]] * 2
    if not all(map(any, keeps)):
        return pairs.before, pairs.after, None
    means = [
        fmean(total for total in compress(side, keep) if total is not None)
        for side, keep in zip(totals, keeps, strict=True)
    ]
    kept = [list(compress(side, keep)) for side, keep in zip((pairs.before, pairs.after), keeps, strict=True)]
    return kept[0], kept[1], means[1] - means[0]


def _interval(before: Samples, after: Samples, read: Read, delta: float, files: tuple[str, str]) -> Interval | None:
    """The interval of a difference, which is `delta` over all runs."""
    one, two = (
        observe(chain.from_iterable(side), read, file) for side, file in zip((before, after), files, strict=True)
    )
    found = verdict(one, two)
    if found is None or found.delta_interval is None:
        return None
    low, high = found.delta_interval
    return min(low, delta), max(high, delta)


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


def generation(baseline: RunLog, other: RunLog) -> dict[str, float | None]:
    """Ratio of decode times as decoded-token ratio (n - 1: the first is prefill's) times time-per-token ratio."""
    return generation_of(Matched([[baseline]], [[other]], is_paired=False))


def configuration_generation(baseline: Configuration, other: Configuration) -> dict[str, float | None]:
    """Like `generation`, of two columns: mean numbers of tokens, and decode time of all samples by their tokens."""
    return generation_of(matched(baseline, other))


def generation_of(pairs: Matched) -> dict[str, float | None]:
    sides = [
        [(mean_of_repeats(runs, decoding.decode_steps), mean_of_repeats(runs, _decode_ms)) for runs in side]
        for side in (pairs.before, pairs.after)
    ]
    if pairs.is_paired:
        both = [bool(one[0] and two[0]) for one, two in zip(*sides, strict=True)]
        sides = [list(compress(side, both)) for side in sides]
    counts = [fmean(known) if (known := [steps for steps, _ in side if steps is not None]) else None for side in sides]
    each = [_ms_per_token(side) for side in sides]
    tokens, per_token = ratio_of(counts[1], counts[0]), ratio_of(each[1], each[0])
    product = None if tokens is None or per_token is None else tokens * per_token
    return {"token_count_ratio": tokens, "time_per_token_ratio": per_token, "product": product}


def _ms_per_token(side: Sequence[tuple[float | None, float | None]]) -> float | None:
    known = [(steps, spent) for steps, spent in side if steps and spent is not None]
    return sum(spent for _, spent in known) / sum(steps for steps, _ in known) if known else None


def _decode_ms(run: RunLog) -> float | None:
    steps, each = decoding.decode_steps(run), decoding.decode_ms_per_token(run)
    return None if steps is None or each is None else steps * each


def token_match(one: RunLog, other: RunLog) -> dict[str, Any]:
    """Tokens with the same id at the same position, over the length of the shorter answer; rate None over nothing."""
    return _token_match([[one]], [[other]])


def configuration_token_match(baseline: Configuration, other: Configuration) -> dict[str, Any]:
    """Like `token_match`, summed over the samples that both columns answered; over nothing when they share none.

    Of repeats the first counts.
    """
    return token_match_of(matched(baseline, other))


def token_match_of(pairs: Matched) -> dict[str, Any]:
    return _token_match(pairs.before, pairs.after) if pairs.is_paired else _token_match([], [])


def _token_match(before: Samples, after: Samples) -> dict[str, Any]:
    matches = [
        left == right
        for one, other in zip(before, after, strict=True)
        for left, right in zip(decoding.answer_ids(one[0]), decoding.answer_ids(other[0]), strict=False)
        if left is not None and right is not None
    ]
    return {
        "definition": TOKEN_MATCH_DEFINITION,
        "matched": sum(matches),
        "compared": len(matches),
        "rate": sum(matches) / len(matches) if matches else None,
    }
