"""What makes up the difference between two runs or two configurations: by stage, in decoding, and in their tokens.

Everything is a mean over the samples that both measured, of every sample over its repeats: means add up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from evprof.core.run_log import RunLog
from evprof.metrics.figures.stages import END_TO_END

if TYPE_CHECKING:
    from evprof.metrics.arithmetic.statistics import Interval
    from evprof.metrics.configurations.gathering import Configuration
    from evprof.metrics.estimates.estimates import ProcessSpread
    from evprof.metrics.figures.partition import Block

TOKEN_MATCH_DEFINITION = "same id at the same position"

UNATTRIBUTED, OVERLAP, REMAINDER = "unattributed", "overlap", "remainder"
"""Parts of a difference besides stages: what no stage covers; what several cover at once (a negative time); and what
cannot be told, because only one side measured it."""

_NOTHING_MS = 1e-6


@dataclass(frozen=True)
class Matched:
    """Runs of two columns to be compared, `before` the baseline's: the repeats of one sample are a list.

    `is_paired`: the i-th of both are of one sample. `files`: the sessions they came from.
    """

    before: list[list[RunLog]]
    after: list[list[RunLog]]
    is_paired: bool
    files: tuple[str, str] = ("", "")


def matched(baseline: Configuration, other: Configuration) -> Matched:
    """The runs of all samples that both measured; of all samples when they share none."""
    from evprof.metrics.configurations.gathering import by_sample, on_machines_of_both

    files = baseline.session, other.session
    if not (baseline.is_cell or other.is_cell):
        return Matched([[*baseline.runs]], [[*other.runs]], True, files)
    sides = on_machines_of_both(baseline, other)
    one, two = (
        column.samples() if side is column.runs else by_sample(side)
        for column, side in zip((baseline, other), sides, strict=True)
    )
    common = [key for key in one if key in two]
    if common:
        return Matched([one[key] for key in common], [two[key] for key in common], True, files)
    return Matched(list(one.values()), list(two.values()), False, files)


def mean_of_repeats(runs: Sequence[RunLog], read: Callable[[RunLog], float | None]) -> float | None:
    """A figure's mean over the repeats of one sample; None when one of them does not have it."""
    from statistics import fmean

    values = [value for run in runs if (value := read(run)) is not None]
    return fmean(values) if values and len(values) == len(runs) else None


def common_blocks(listed: Sequence[Configuration], basis: str = END_TO_END) -> list[Block]:
    """The finest division of the stages that all these columns can answer."""
    from evprof.metrics.comparison.figures import stages_of
    from evprof.metrics.figures.partition import partition, shape_of

    return partition({shape_of(run) for column in listed for run in column.runs}, stages_of(basis))


def configuration_contributions(
    baseline: Configuration, other: Configuration, basis: str = END_TO_END, blocks: Sequence[Block] | None = None
) -> list[dict[str, Any]]:
    """What each stage (all roles), and what no stage covers, adds to the difference other - baseline.

    By `blocks` of stages (default: the finest that both can answer). `share` is of the difference of the totals on this
    basis; None while that is unknown or 0.
    """
    divided = common_blocks((baseline, other), basis) if blocks is None else blocks
    return contributions_of(matched(baseline, other), basis, divided)


def contributions_of(
    pairs: Matched,
    basis: str,
    blocks: Sequence[Block],
    processes: ProcessSpread | None = None,
    reader_of: Callable[[Block], Callable[[RunLog], float | None]] | None = None,
) -> list[dict[str, Any]]:
    """The same of runs that were matched already.

    `ci95` is the 95 % interval of `delta_ms` (see `estimates`), which `processes` belongs to. Parts that only one side
    measured are left to "remainder", so that the parts add up to the difference of the totals where both are known.
    `reader_of` reads a block's time off a run (`part_reader`; one that remembers, where runs are read many times).
    """
    from statistics import fmean

    from evprof.metrics.comparison.figures import stages_of
    from evprof.metrics.figures import stages
    from evprof.metrics.figures.partition import name_of
    from evprof.metrics.figures.stages import MODEL_ONLY

    pairs, whole = _with_totals(pairs, basis)
    names = [name_of(block) for block in blocks] + [UNATTRIBUTED] * (basis != MODEL_ONLY)
    read = reader_of or part_reader
    readers = {name_of(block): read(block) for block in blocks} | {UNATTRIBUTED: stages.unattributed_ms}
    before, after = ([_parts(run, readers) for run in runs] for runs in (pairs.before, pairs.after))
    found, is_all_told = [], {name for block in blocks for name in block} >= set(stages_of(basis))
    for name in names:
        values = [part[name] for part in before], [part[name] for part in after]
        one, two = _known(values[0]), _known(values[1])
        if one is not None and two is not None:
            delta = fmean(two) - fmean(one)
            found.append(_entry(name, delta, whole, _interval(pairs, readers[name], delta, processes)))
        elif any(value is not None for side in values for value in side):
            is_all_told = False
    if whole is not None and abs(left := whole - sum(part["delta_ms"] for part in found)) > _NOTHING_MS:
        found.append(_entry(OVERLAP if is_all_told else REMAINDER, left, whole, None))
    return found


def _parts(runs: Sequence[RunLog], readers: Mapping[str, Callable[[RunLog], float | None]]) -> dict[str, float | None]:
    return {name: mean_of_repeats(runs, read) for name, read in readers.items()}


class PartReaders:
    """`part_reader`s that remember what they read. They hold for as long as no run changes."""

    def __init__(self) -> None:
        self._known: dict[Block, Callable[[RunLog], float | None]] = {}

    def __call__(self, block: Block) -> Callable[[RunLog], float | None]:
        """The reader of a block."""
        if block not in self._known:
            read, found = part_reader(block), dict[int, float | None]()

            def look(run: RunLog) -> float | None:
                key = id(run)
                if key not in found:
                    found[key] = read(run)
                return found[key]

            self._known[block] = look
        return self._known[block]


def part_reader(block: Block) -> Callable[[RunLog], float | None]:
    """Reads the time in ms of a block of stages off a run."""
    from evprof.metrics.figures.partition import measured_ms, shape_of

    return lambda run: measured_ms(run, shape_of(run), block)


def _with_totals(pairs: Matched, basis: str) -> tuple[Matched, float | None]:
    """The runs whose totals are known, both of a pair, and the difference of those; all runs where no total is."""
    from statistics import fmean

    from evprof.metrics.figures import stages

    before, after = (
        [mean_of_repeats(runs, partial(stages.total_ms, basis=basis)) for runs in side]
        for side in (pairs.before, pairs.after)
    )
    if pairs.is_paired:
        both = [one is not None and two is not None for one, two in zip(before, after, strict=True)]
        keeps = both, both
    else:
        keeps = [one is not None for one in before], [two is not None for two in after]
    if not (any(keeps[0]) and any(keeps[1])):
        return pairs, None
    kept = replace(pairs, before=_kept(pairs.before, keeps[0]), after=_kept(pairs.after, keeps[1]))
    one, two = (
        fmean(total for total, keep in zip(totals, keep_of, strict=True) if keep and total is not None)
        for totals, keep_of in zip((before, after), keeps, strict=True)
    )
    return kept, two - one


def _kept(samples: Sequence[list[RunLog]], keeps: Sequence[bool]) -> list[list[RunLog]]:
    return [runs for runs, keep in zip(samples, keeps, strict=True) if keep]


def _known(values: Sequence[float | None]) -> list[float] | None:
    """The values when all of them are known: a mean over some of the samples would not add up."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def _interval(
    pairs: Matched, read: Callable[[RunLog], float | None], delta: float, processes: ProcessSpread | None
) -> Interval | None:
    """The interval of a difference, which is `delta` over all runs."""
    from evprof.metrics.estimates.estimates import difference_of, observe

    before, after = (
        observe((run for runs in side for run in runs), read, file)
        for side, file in zip((pairs.before, pairs.after), pairs.files, strict=True)
    )
    found = difference_of(before, after, processes)
    if found is None or found.interval is None:
        return None
    low, high = found.interval
    return min(low, delta), max(high, delta)


def _entry(name: str, delta_ms: float, whole: float | None, interval: tuple[float, float] | None) -> dict[str, Any]:
    return {
        "stage": name,
        "delta_ms": delta_ms,
        "share": delta_ms / whole if whole else None,
        "ci95": None if interval is None else list(interval),
    }


def generation(baseline: RunLog, other: RunLog) -> dict[str, float | None]:
    """Ratio of decode times as decoded-token ratio (n - 1: the first is prefill's) times time-per-token ratio."""
    return _generation([[baseline]], [[other]])


def configuration_generation(baseline: Configuration, other: Configuration) -> dict[str, float | None]:
    """Like `generation`, of two columns: mean numbers of tokens, and mean decode time per mean number of tokens."""
    return generation_of(matched(baseline, other))


def generation_of(pairs: Matched) -> dict[str, float | None]:
    """The same of runs that were matched already."""
    before, after = pairs.before, pairs.after
    if pairs.is_paired:
        both = [bool(_steps(one) and _steps(two)) for one, two in zip(before, after, strict=True)]
        before, after = _kept(before, both), _kept(after, both)
    return _generation(before, after)


def _steps(runs: Sequence[RunLog]) -> float | None:
    from evprof.metrics.figures import decoding

    return mean_of_repeats(runs, decoding.decode_steps)


def _generation(before: Sequence[list[RunLog]], after: Sequence[list[RunLog]]) -> dict[str, float | None]:
    from evprof.metrics.comparison.rows import ratio_of

    counts = [_mean([_steps(runs) for runs in side]) for side in (before, after)]
    each = [_ms_per_token(side) for side in (before, after)]
    tokens, per_token = ratio_of(counts[1], counts[0]), ratio_of(each[1], each[0])
    product = None if tokens is None or per_token is None else tokens * per_token
    return {"token_count_ratio": tokens, "time_per_token_ratio": per_token, "product": product}


def _mean(values: Sequence[float | None]) -> float | None:
    from statistics import fmean

    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _ms_per_token(samples: Sequence[list[RunLog]]) -> float | None:
    """Decode time of all samples by their decoded tokens."""
    found = [(_steps(runs), mean_of_repeats(runs, _decode_ms)) for runs in samples]
    known = [(steps, time) for steps, time in found if steps and time is not None]
    return sum(time for _, time in known) / sum(steps for steps, _ in known) if known else None


def _decode_ms(run: RunLog) -> float | None:
    from evprof.metrics.figures import decoding

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
    """The same of runs that were matched already."""
    return _token_match(pairs.before, pairs.after) if pairs.is_paired else _token_match([], [])


def _token_match(before: Sequence[list[RunLog]], after: Sequence[list[RunLog]]) -> dict[str, Any]:
    from evprof.metrics.figures.decoding import answer_ids

    matches = [
        left == right
        for one, other in zip(before, after, strict=True)
        for left, right in zip(answer_ids(one[0]), answer_ids(other[0]), strict=False)
        if left is not None and right is not None
    ]
    return {
        "definition": TOKEN_MATCH_DEFINITION,
        "matched": sum(matches),
        "compared": len(matches),
        "rate": sum(matches) / len(matches) if matches else None,
    }
