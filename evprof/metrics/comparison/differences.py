"""What makes up the difference between two runs or two configurations: by stage, in decoding, and in their tokens.

Everything is a mean over the samples that both measured, of every sample over its repeats: means add up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evprof.core.run_log import RunLog
from evprof.metrics.figures.stages import END_TO_END

if TYPE_CHECKING:
    from evprof.metrics.arithmetic.statistics import Interval, Values
    from evprof.metrics.configurations.gathering import Configuration
    from evprof.metrics.estimates.estimates import ProcessSpread
    from evprof.metrics.estimates.observations import Layout
    from evprof.metrics.figures.partition import Block

TOKEN_MATCH_DEFINITION = "same id at the same position"

UNATTRIBUTED, OVERLAP, REMAINDER = "unattributed", "overlap", "remainder"
"""Parts of a difference besides stages: what no stage covers; what several cover at once (a negative time); and what
cannot be told, because only one side measured it."""

_NOTHING_MS = 1e-6

Mask = npt.NDArray[np.bool_]


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

    (before, after), whole = _with_totals(pairs, basis)
    names = [name_of(block) for block in blocks] + [UNATTRIBUTED] * (basis != MODEL_ONLY)
    read = reader_of or part_reader
    readers = {name_of(block): read(block) for block in blocks} | {UNATTRIBUTED: stages.unattributed_ms}
    found, is_all_told = [], {name for block in blocks for name in block} >= set(stages_of(basis))
    for name in names:
        one, two = before.read(readers[name]), after.read(readers[name])
        if one.is_whole and two.is_whole:
            delta = fmean(two.means.tolist()) - fmean(one.means.tolist())
            found.append(_entry(name, delta, whole, _interval(one, two, delta, processes)))
        elif one.is_known.any() or two.is_known.any():
            is_all_told = False
    if whole is not None and abs(left := whole - sum(part["delta_ms"] for part in found)) > _NOTHING_MS:
        found.append(_entry(OVERLAP if is_all_told else REMAINDER, left, whole, None))
    return found


class _Side:
    """The runs of one side of a pair, one after the other, each sample's repeats together."""

    def __init__(self, samples: Sequence[list[RunLog]], file: str) -> None:
        from evprof.metrics.estimates.observations import groups_of

        self._samples = samples
        self._file = file
        self.runs = [run for runs in samples for run in runs]
        counts = [len(runs) for runs in samples]
        self.groups = groups_of(np.repeat(np.arange(len(samples)), counts), len(samples))

    @cached_property
    def layout(self) -> Layout:
        """What its runs share."""
        from evprof.metrics.estimates.observations import Layout

        return Layout.of_runs(self.runs, self._file)

    def read(self, read: Callable[[RunLog], float | None]) -> _FigureOfSide:
        """A figure of every run."""
        return _FigureOfSide(self, np.array([read(run) for run in self.runs], dtype=np.float64))

    def where(self, keep: Mask) -> _Side:
        """Some of the samples."""
        return self if keep.all() else _Side(_kept(self._samples, keep.tolist()), self._file)


@dataclass(frozen=True, eq=False)
class _FigureOfSide:
    """A figure of every run of a side; NaN where a run does not have it."""

    side: _Side
    values: Values

    @cached_property
    def means(self) -> Values:
        """Of every sample the mean over its repeats; NaN where one of them does not have it."""
        from evprof.metrics.estimates.observations import means_of

        return means_of(self.values, self.side.groups)

    @property
    def is_known(self) -> Mask:
        """Which samples have it."""
        return ~np.isnan(self.means)

    @property
    def is_whole(self) -> bool:
        """Whether all have it: a mean over some of the samples would not add up."""
        return bool(self.is_known.all())


def _sides(pairs: Matched) -> tuple[_Side, _Side]:
    return _Side(pairs.before, pairs.files[0]), _Side(pairs.after, pairs.files[1])


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


def _with_totals(pairs: Matched, basis: str) -> tuple[tuple[_Side, _Side], float | None]:
    """The runs whose totals are known, both of a pair, and the difference of those; all runs where no total is."""
    from statistics import fmean

    from evprof.metrics.figures import stages

    sides = _sides(pairs)
    one, two = (side.read(partial(stages.total_ms, basis=basis)) for side in sides)
    both = one.is_known & two.is_known if pairs.is_paired else None
    keep, keep_two = (one.is_known, two.is_known) if both is None else (both, both)
    if not (keep.any() and keep_two.any()):
        return sides, None
    whole = fmean(two.means[keep_two].tolist()) - fmean(one.means[keep].tolist())
    return (sides[0].where(keep), sides[1].where(keep_two)), whole


def _kept(samples: Sequence[list[RunLog]], keeps: Sequence[bool]) -> list[list[RunLog]]:
    return [runs for runs, keep in zip(samples, keeps, strict=True) if keep]


def _interval(one: _FigureOfSide, two: _FigureOfSide, delta: float, processes: ProcessSpread | None) -> Interval | None:
    """The interval of a difference, which is `delta` over all runs."""
    from evprof.metrics.estimates.estimates import difference_of
    from evprof.metrics.estimates.observations import Observations

    before, after = (Observations.read(figure.values, figure.side.layout) for figure in (one, two))
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
    return generation_of(Matched([[baseline]], [[other]], is_paired=False))


def configuration_generation(baseline: Configuration, other: Configuration) -> dict[str, float | None]:
    """Like `generation`, of two columns: mean numbers of tokens, and mean decode time per mean number of tokens."""
    return generation_of(matched(baseline, other))


def generation_of(pairs: Matched) -> dict[str, float | None]:
    """The same of runs that were matched already."""
    from statistics import fmean

    from evprof.metrics.comparison.rows import ratio_of
    from evprof.metrics.figures import decoding

    sides = _sides(pairs)
    steps, times = ([side.read(read).means for side in sides] for read in (decoding.decode_steps, _decode_ms))
    if pairs.is_paired:
        both = (steps[0] > 0) & (steps[1] > 0)
        steps, times = ([values[both] for values in of] for of in (steps, times))
    counts = [fmean(known) if (known := values[~np.isnan(values)].tolist()) else None for values in steps]
    each = list(map(_ms_per_token, steps, times))
    tokens, per_token = ratio_of(counts[1], counts[0]), ratio_of(each[1], each[0])
    product = None if tokens is None or per_token is None else tokens * per_token
    return {"token_count_ratio": tokens, "time_per_token_ratio": per_token, "product": product}


def _ms_per_token(steps: Values, times: Values) -> float | None:
    """Decode time of all samples by their decoded tokens."""
    known = (steps > 0) & ~np.isnan(times)
    return sum(times[known].tolist()) / sum(steps[known].tolist()) if known.any() else None


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
