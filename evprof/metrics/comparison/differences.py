"""What makes up the difference between two runs or two configurations: by stage, in decoding, and in their tokens.

Every difference is one of means over the samples that both measured, so that parts add up to the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any

from evprof.core.records import COVERS, DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.core.units import ms_text, ratio_digits, times_text
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.arithmetic.statistics import Interval
from evprof.metrics.comparison.comparability import comparability
from evprof.metrics.comparison.figures import stages_of
from evprof.metrics.configurations.baselines import runs_text
from evprof.metrics.configurations.gathering import BOTH_MODELS, Configuration, on_machines_of_both
from evprof.metrics.estimates.estimates import Verdict, marked
from evprof.metrics.estimates.observations import Read
from evprof.metrics.estimates.paired import DECODE, compare, fewer_or_faster
from evprof.metrics.figures import decoding
from evprof.metrics.figures.partition import Block, measured_ms, name_of, partition, shape_of
from evprof.metrics.figures.stages import END_TO_END, MODEL_ONLY, WITHOUT_LOAD, total_ms, unattributed_ms
from evprof.view.labels import model_title

TOKEN_MATCH_DEFINITION = "same id at the same position"

UNATTRIBUTED, OVERLAP, REMAINDER = "unattributed", "overlap", "remainder"
"""Parts of a difference besides stages: time outside all stages; time of several stages at once (negative); and what
only one side measured."""

TITLES = {
    UNATTRIBUTED: "time outside all stages",
    OVERLAP: "time of several stages at once",
    REMAINDER: "time that only one side divides",
}

SEPARATOR = " · "
"""Between the parts of a configuration's label."""

LEAST_SHARE = 0.2
"""The sentence names the largest part, and every part that is at least this share of the difference."""

_NOTHING_MS = 1e-6

_COUNTED = {END_TO_END: "", WITHOUT_LOAD: "Without loading, ", MODEL_ONLY: "In the models alone, "}


@dataclass(frozen=True)
class Part:
    """What a stage (of all roles) adds to the difference other - baseline.

    `share` is of the difference of the totals, None while that is unknown or 0; `interval` is 95 % of `delta_ms`.
    `is_clear`: the stage by itself may be called longer or shorter, by Holm's correction over the stages.
    """

    stage: str
    delta_ms: float
    share: float | None
    interval: Interval | None = None
    is_clear: bool = False

    @property
    def is_measured(self) -> bool:
        """Whether it is no rest of the difference."""
        return self.stage not in (OVERLAP, REMAINDER)

    @property
    def title(self) -> str:
        return TITLES.get(self.stage, self.stage.replace(COVERS, " + "))

    def to_json(self) -> dict[str, Any]:
        """An entry of `contributions`."""
        ends = None if self.interval is None else list(self.interval)
        return {"stage": self.stage, "delta_ms": self.delta_ms, "share": self.share, "ci95": ends}


@dataclass(frozen=True)
class Difference:
    """The difference other - baseline of the totals on a basis, and its parts, which add up to it.

    `total` is None where a side has no total on this basis. `obstacle` is a sentence where totals cannot be compared.
    """

    baseline: Configuration
    other: Configuration
    basis: str
    total: Verdict | None
    parts: tuple[Part, ...]
    obstacle: str = ""

    @property
    def main_parts(self) -> list[Part]:
        """The parts that the sentence names, largest first."""
        ranked = sorted(self.parts, key=lambda part: -abs(part.delta_ms))
        return ranked[:1] + [part for part in ranked[1:] if abs(part.share or 0.0) >= LEAST_SHARE]

    def why(self, names: Sequence[str] = ()) -> str:
        """Which side takes longer, by how much and in which stages, or the reason why that is not called; its runs.

        "" without a ratio of the totals. `names` are those of baseline and other (default: `names_of`).
        """
        total = self.total
        if total is None or not total.ratio:
            return ""
        sign = 1 if total.delta >= 0 else -1
        shorter, longer = (names or names_of(self.baseline, self.other))[::sign]
        ratio, ends = total.ratio**sign, sorted(end**sign for end in total.interval or ())
        digits = ratio_digits(ratio, ends[1] - ends[0] if ends else 0.0)
        interval = f" [{ends[0]:.{digits}f}, {ends[1]:.{digits}f}]" if ends else ""
        times, delta = f"takes {times_text(ratio, digits)}{interval} as long", f"+{ms_text(abs(total.delta))}"
        clear = self._parts_text(sign, [part for part in self.main_parts if part.is_clear])
        rest = self._parts_text(sign, [part for part in self.main_parts if not part.is_measured])
        unclear = self._parts_text(sign, [part for part in self.main_parts if part.is_measured and not part.is_clear])
        limit = total.reason.removeprefix("not called: ").removeprefix("no interval: ")
        if self.obstacle or not ends or (not total.is_clear and ends[0] > 1):
            reason = self.obstacle[:1].lower() + self.obstacle[1:].rstrip(".") or limit or "the interval is too wide"
            parts = ", ".join(filter(None, (clear, unclear, rest)))
            text, limit = f"{longer} {times} as {shorter} ({delta}: {parts}), not called: {reason}", ""
        elif total.is_clear:
            parts = "; ".join(filter(None, (clear, unclear and f"not clear: {unclear}", rest)))
            text = f"{longer} {times} as {shorter} ({delta}): {parts}"
        else:
            parts = f"; parts that differ: {clear}" if clear else ""
            text = f"{longer} and {shorter} cannot be told apart: the first {times} ({delta}){parts}"
        sides = list(map(runs_text, total.runs[::-sign]))
        runs = f"{'means of ' * (max(total.counts) > 1)}{sides[0]} and {sides[1]}"
        if parts and BOTH_MODELS in (self.baseline.model, self.other.model):
            runs += f"; stages of {BOTH_MODELS} together"
        sentences = f"{_COUNTED[self.basis]}{text}", limit, runs
        return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in sentences if sentence)

    @staticmethod
    def _parts_text(sign: int, parts: Iterable[Part]) -> str:
        """`decode +235 ms, prefill +163 ms`."""
        listed = [(part.title, sign * part.delta_ms) for part in parts]
        return ", ".join(f"{title} {'−' if delta < 0 else '+'}{ms_text(abs(delta))}" for title, delta in listed)

    def to_json(self) -> dict[str, Any]:
        """`why` of the `compare` document."""
        parts = [{**part.to_json(), "is_clear": part.is_clear} for part in self.main_parts]
        return {"sentence": self.why(), "parts": parts}


def names_of(*sides: Configuration) -> list[str]:
    """The shortest names that distinguish these: of their models or modes, or else their labels."""
    for name in (_model_name, _mode_name):
        names = list(map(name, sides))
        if name is _model_name and BOTH_MODELS in [side.model for side in sides]:
            names = [one + " alone" * (side.model != BOTH_MODELS) for one, side in zip(names, sides, strict=True)]
        if len(set(names)) == len(sides) and not any(side.is_cell for side in sides):
            return names
    return without_common_end([side.label for side in sides])


def without_common_end(names: Sequence[str]) -> list[str]:
    """`EventGPT` and `LLaVA` for `EventGPT · rows.json` and `LLaVA · rows.json`."""
    parts = [name.split(SEPARATOR) for name in names]
    while len(parts) > 1 and len({part[-1] for part in parts}) == 1 and all(len(part) > 1 for part in parts):
        parts = [part[:-1] for part in parts]
    return list(map(SEPARATOR.join, parts))


def _model_name(column: Configuration) -> str:
    run = column.runs[0]
    return _mode_name(column) if column.model == BOTH_MODELS else model_title(run, run.info.role)


def _mode_name(column: Configuration) -> str:
    return mode_of(column.runs[0].info.mode).title + f" ({BOTH_MODELS})" * (column.model == BOTH_MODELS)


def pairs_side_by_side(columns: Iterable[Configuration]) -> list[tuple[Configuration, Configuration]]:
    """The draft's and the target's configuration of every request or cell that ran side by side."""
    requests: dict[object, dict[str, Configuration]] = {}
    for column in columns:
        info = column.runs[0].info
        if mode_of(info.mode).is_side_by_side:
            requests.setdefault(info.cell or info.group_id, {}).setdefault(info.role, column)
    return [(request[DRAFT], request[TARGET]) for request in requests.values() if {DRAFT, TARGET} <= set(request)]


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


def difference_of(
    baseline: Configuration, other: Configuration, basis: str = END_TO_END, blocks: Sequence[Block] | None = None
) -> Difference:
    """What each stage (all roles), and the time outside all stages, adds to the difference other - baseline.

    By `blocks` of stages (default: the finest that both can answer). Parts that only one side measured stand in
    REMAINDER, so that the parts add up to the difference of the totals.
    """
    divided = common_blocks((baseline, other), basis) if blocks is None else blocks
    total = partial(total_ms, basis=basis)
    totals = compare(baseline, other, total)
    whole = None if totals is None else totals.delta
    kept = [
        replace(side, runs=tuple(run for run in side.runs if totals is None or total(run) is not None))
        for side in (baseline, other)
    ]
    readers = {name_of(block): part_reader(block) for block in divided}
    if basis != MODEL_ONLY:
        readers[UNATTRIBUTED] = unattributed_ms
    compared: dict[str, Verdict] = {}
    has_all_parts = {name for block in divided for name in block} >= set(stages_of(basis))
    for name, read in readers.items():
        known = [[read(run) is not None for run in side.runs] for side in kept]
        if all(map(all, known)) and (part := compare(kept[0], kept[1], read)) is not None:
            compared[name] = part
        elif any(map(any, known)):
            has_all_parts = False
    marks = marked([None if name == UNATTRIBUTED else part for name, part in compared.items()])
    found = [
        Part(
            *(name, part.delta, part.delta / whole if whole else None),
            *(None if name == UNATTRIBUTED else part.delta_interval, is_clear),
        )
        for (name, part), is_clear in zip(compared.items(), marks, strict=True)
    ]
    if whole is not None and abs(left := whole - sum(part.delta_ms for part in found)) > _NOTHING_MS:
        found.append(Part(OVERLAP if has_all_parts else REMAINDER, left, left / whole if whole else None))
    limits = comparability((baseline, other))
    obstacle = "" if limits.is_comparable or "total_ms" in limits.comparable else limits.brief
    return Difference(kept[0], kept[1], basis, totals, tuple(found), obstacle)


def ratio_of(value: float | None, base: float | None) -> float | None:
    """value / base; None when either is missing or the base is 0."""
    return None if value is None or not base else value / base


def configuration_generation(baseline: Configuration, other: Configuration) -> dict[str, float | None]:
    """Ratio of decode times as decoded-token ratio (n - 1: the first is prefill's) times time-per-token ratio.

    None each where decoding was not timed apart from the other stages.
    """
    found = fewer_or_faster(baseline, other)
    ratios = (found.tokens.ratio, found.each_ms.ratio, found.total_ms.ratio) if found and found.stages == DECODE else ()
    return dict(zip_longest(("token_count_ratio", "time_per_token_ratio", "product"), ratios))


def configuration_token_match(baseline: Configuration, other: Configuration) -> dict[str, Any]:
    """Tokens with the same id at the same position, over the length of the shorter answer; rate None over nothing.

    Summed over the samples that both columns answered. Of repeats the first counts.
    """
    matched, compared = decoding.matching_ids(same_questions(baseline, other))
    rate = matched / compared if compared else None
    return {"definition": TOKEN_MATCH_DEFINITION, "matched": matched, "compared": compared, "rate": rate}
