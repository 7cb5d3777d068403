"""What an imported file's own report printed, computed again from its rows, beside the same rows by our definitions.

*As published*: every row, warm-up too, under the file's own names, totals of the stages that its report sums, spreads
of the population. *By our definitions*: warm-up apart, and totals over the rows that have every stage of the column.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evprof.core.records import COVERS, DRAFT, STAGES, TARGET
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.figures import decoding, kv_cache
from evprof.metrics.figures.partition import Block, StagePartition, measured_ms, ordered, partition, shape_of
from evprof.metrics.figures.stages import covered_ms, imported_ms, stage_ms

Read = Callable[[RunLog], float | None]


@dataclass(frozen=True)
class Average:
    """Mean, standard deviation (of the population, as the files have it) and number of values; all of one unit."""

    mean: float
    std: float
    count: int


@dataclass(frozen=True)
class Both:
    """One figure as published and by our definitions; None where one of them has it not."""

    published: Average | None
    ours: Average | None


@dataclass(frozen=True)
class PublishedTime:
    """A time of the file: its key, what its report calls it, what it covers, and whether its printed total sums it."""

    key: str
    name: str
    covers: tuple[str, ...]
    accounts_for: tuple[str, ...]
    is_in_total: bool
    time_ms: Both


@dataclass(frozen=True)
class PublishedCell:
    """One configuration of a file.

    `total_with_warmup_ms` is ours with the warm-up rows in. `lacking` counts the rows of `runs` without a stage that
    others have; these rows are in no total. `own_counts` is the number of rows with a length that is not ours, and
    `partial_ids` the number of these whose ids hold less than their text.
    """

    label: str
    role: str
    warmups: int
    times: tuple[PublishedTime, ...]
    total_ms: Both
    total_with_warmup_ms: Average | None
    prefill_length: Both
    kv_bytes: Both
    decode_tok_s: Both
    output_tokens: Both
    has_own_total: bool = False
    own_counts: int = 0
    partial_ids: int = 0
    lacking: Mapping[str, int] = field(default_factory=dict)
    runs: Sequence[RunLog] = ()

    def time(self, stage: str) -> PublishedTime | None:
        return next((entry for entry in self.times if entry.covers[-1] == stage), None)

    def within(self, block: Sequence[str]) -> Both:
        """The time of several stages together, over the rows that have all of them."""
        times = [(run, measured_ms(run, shape_of(run), tuple(block))) for run in self.runs]
        return Both(
            _average(duration for _, duration in times),
            _average(duration for run, duration in times if not run.info.warmup),
        )

    @property
    def stages(self) -> list[str]:
        found = {stage for entry in self.times for stage in entry.covers}
        return [stage for stage in STAGES if stage in found]


@dataclass(frozen=True)
class PublishedFile:
    """One imported file with its configurations; `facts` is what the session keeps of it (docs/json.md)."""

    facts: Mapping[str, Any]
    cells: tuple[PublishedCell, ...]

    @property
    def pair(self) -> tuple[PublishedCell, PublishedCell] | None:
        """The draft and the target of a file that has one measured configuration of each."""
        measured = [cell for cell in self.cells if cell.times]
        if len(measured) == 2 and {cell.role for cell in measured} == {DRAFT, TARGET}:
            first, second = sorted(measured, key=lambda cell: cell.role != DRAFT)
            return first, second
        return None


def common_blocks(cells: Iterable[PublishedCell]) -> list[Block]:
    """The finest groups of stages that every cell tells apart, in order: a time that holds several joins them."""
    told = [{ordered(entry.covers) for entry in cell.times} for cell in cells]
    measured = {stage for blocks in told for block in blocks for stage in block}
    divided = partition(StagePartition(frozenset(blocks), frozenset()) for blocks in told)
    return [block for block in divided if measured & set(block)]


def published_files(runs: Iterable[RunLog], imports: object) -> list[PublishedFile]:
    """The files of a session's fact "imports" with their runs, in order; what is no such fact is left out."""
    by_path: dict[str, dict[str, list[RunLog]]] = {}
    for run in runs:
        if run.info.imported is not None:
            by_path.setdefault(run.info.imported.path, {}).setdefault(run.info.cell, []).append(run)
    files = []
    for facts in imports if isinstance(imports, list) else ():
        if isinstance(facts, dict):
            cells = by_path.get(str(facts.get("path")), {})
            files.append(PublishedFile(facts, tuple(_cell(label, listed, facts) for label, listed in cells.items())))
    return files


def _cell(label: str, runs: Sequence[RunLog], facts: Mapping[str, Any]) -> PublishedCell:
    done = [run for run in runs if run.info.status == FINISHED]
    steady = [run for run in done if not run.info.warmup]
    whole, lacking = _whole(done)
    role = runs[0].info.role
    summed = _strings(_part(facts, "totals").get(role))
    told = [run for run in done if "published_output_tokens" in _figures(run)]

    def both(published: Read, ours: Read) -> Both:
        return Both(_average(map(published, done)), _average(map(ours, steady)))

    def figure(name: str) -> Read:
        return lambda run: _figures(run).get(name)

    own = _average(_own_total_ms(run, summed, facts) for run in done)
    rate = _average(map(figure("published_decode_tok_s"), done)) or _decode_rate(done)
    return PublishedCell(
        label=label,
        role=role,
        warmups=len(done) - len(steady),
        times=_times(done, facts, summed),
        total_ms=Both(own, _average(covered_ms(run) for run in whole if not run.info.warmup)),
        total_with_warmup_ms=_average(map(covered_ms, whole)) if len(steady) < len(done) else None,
        prefill_length=both(figure("published_prefill_length"), decoding.input_length),
        kv_bytes=both(kv_cache.measured_bytes, kv_cache.measured_bytes),
        decode_tok_s=Both(rate, _decode_rate(steady)),
        output_tokens=both(_published_tokens, decoding.output_length),
        has_own_total=any("published_total_ms" in _figures(run) for run in done),
        own_counts=len(told),
        partial_ids=sum(decoding.output_length(run) is None for run in told),
        lacking=lacking,
        runs=done,
    )


def _whole(runs: Sequence[RunLog]) -> tuple[list[RunLog], dict[str, int]]:
    """The runs that have every interval which any of them has, and how many runs lack each interval."""
    held = [_intervals(run) for run in runs]
    wanted: set[str] = set().union(*held)
    lacking = Counter(name for names in held for name in sorted(wanted - names))
    return [run for run, names in zip(runs, held, strict=True) if names == wanted], dict(lacking)


def _intervals(run: RunLog) -> set[str]:
    """The names of the run's intervals, those of a second model with its role."""
    others = [span for span in run.stages() if span.role != run.info.role] if len(run.info.models) > 1 else []
    return set(imported_ms(run)) | {f"{span.role} {span.name}" for span in others}


def _times(runs: Sequence[RunLog], facts: Mapping[str, Any], summed: Sequence[str]) -> tuple[PublishedTime, ...]:
    """One entry per kind of interval of the answering model, in order of appearance."""
    found: dict[str, list[tuple[RunLog, float]]] = {}
    for run in runs:
        for name, duration in imported_ms(run).items():
            found.setdefault(name, []).append((run, duration))
    listed = []
    for name, times in found.items():
        run = times[0][0]
        key, span = _key_of(name, run, facts), next(span for span in run.stages(run.info.role) if span.name == name)
        steady = [duration for one, duration in times if not one.info.warmup]
        both = Both(_average(duration for _, duration in times), _average(steady))
        title = str(_part(facts, "names").get(key, name))
        listed.append(PublishedTime(key, title, span.covers, run.accounts_for(span), key in summed, both))
    return tuple(listed)


def _key_of(name: str, run: RunLog, facts: Mapping[str, Any]) -> str:
    """The file's key of an interval; of several that cover the same, the one that a run of this mode has."""
    covers = _part(_part(facts, "covers"), run.info.role)
    keys = [key for key, stages in covers.items() if COVERS.join(_strings(stages)) == name]
    return keys[-1 if mode_of(run.info.mode).drafts else 0] if keys else name


def _own_total_ms(run: RunLog, summed: Sequence[str], facts: Mapping[str, Any]) -> float | None:
    """The total that the file's report prints of a run, in ms; None when a part of it was not measured."""
    told = _figures(run).get("published_total_ms")
    if told is not None:
        return told
    covers = _part(_part(facts, "covers"), run.info.role)
    wanted = {COVERS.join(stages) for key in summed if (stages := _strings(covers.get(key)))}
    known = [duration for name, duration in imported_ms(run).items() if name in wanted]
    return sum(known) if known and len(known) == len(wanted) else None


def _published_tokens(run: RunLog) -> float | None:
    """Tokens as the file counts them, where ours leaves a row out because its ids cannot be all of its text."""
    return _figures(run).get("published_output_tokens") or decoding.output_length(run)


def _decode_rate(runs: Sequence[RunLog]) -> Average | None:
    """All steps over all their time."""
    told = [(decoding.decode_steps(run), stage_ms(run, "decode")) for run in runs]
    pairs = [(steps, duration) for steps, duration in told if steps and duration]
    if not pairs:
        return None
    rate = 1000 * sum(steps for steps, _ in pairs) / sum(duration for _, duration in pairs)
    return Average(rate, 0.0, len(pairs))


def _figures(run: RunLog) -> dict[str, float]:
    return run.info.imported.figures if run.info.imported else {}


def _average(values: Iterable[float | None]) -> Average | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    mean = math.fsum(known) / len(known)
    return Average(mean, math.sqrt(math.fsum((value - mean) ** 2 for value in known) / len(known)), len(known))


def _part(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key)
    return found if isinstance(found, dict) else {}


def _strings(value: object) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []
