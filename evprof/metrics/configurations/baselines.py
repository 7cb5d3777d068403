"""Which runs a run is weighed against, and which are repeats of it: one rule for every verdict, table and claim.

Repeats are pooled by configuration and sample, whatever request they came from. The baseline of a run that drafts is
every plain run of the same target on the same sample with the same settings but those of drafting; runs of the same
engine process come first, and cold runs never count. It reads what is known of runs apart from their rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from evprof.core.records import DRAFT
from evprof.core.run_info import ENGINE_SESSION, FINISHED, NOT_TOLD, REFERENCE, ModelFacts, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.configurations.gathering import Configuration, SampleKey, by_sample, warm_of
from evprof.metrics.configurations.settings_text import SPECULATION_KEYS, kind_read, settings_of
from evprof.metrics.figures.decoding import answer_length


@dataclass(frozen=True)
class Baseline:
    """The plain runs that a run is weighed against, in order; never empty."""

    runs: tuple[RunLog, ...]

    @property
    def run_ids(self) -> tuple[int, ...]:
        return tuple(run.run_id for run in self.runs)

    @property
    def words(self) -> str:
        """`run 2`, `runs 2, 5, 8`, `runs 2, 5, … 40 (12 runs)`."""
        return runs_text(self.run_ids)


MOST_NAMED = 6
"""Run numbers that a sentence lists."""


def runs_text(run_ids: Iterable[int]) -> str:
    """Run numbers in words, in order: all of a few, of many the first two and the last; "" without any."""
    run_ids = sorted(run_ids)
    if not run_ids:
        return ""
    if len(run_ids) == 1:
        return f"run {run_ids[0]}"
    if len(run_ids) <= MOST_NAMED:
        return f"runs {', '.join(map(str, run_ids))}"
    return f"runs {run_ids[0]}, {run_ids[1]}, … {run_ids[-1]} ({len(run_ids)} runs)"


def engine_session(info: RunInfo) -> str:
    """The engine process that made a run; "" where it is not known."""
    named = info.environment.get(ENGINE_SESSION)
    return named if isinstance(named, str) else ""


def is_counted(info: RunInfo) -> bool:
    """Whether a run may stand in a figure: finished, no warm-up, not profiled, not cold, not deleted."""
    return info.status == FINISHED and not (info.warmup or info.profiled or info.is_cold or info.is_deleted)


def repeats_of(run: RunLog, others: Iterable[RunLog]) -> list[RunLog]:
    """The runs of `run`'s configuration on its sample that count, itself among them, in order of run number.

    Just `run` where none counts, as of a single cold run.
    """
    mine, name = repeat_key(run.info), run.info.sample.name
    found = {
        other.run_id: other
        for other in (run, *others)
        # Most runs of a data set are of another sample, which is told at once.
        if is_counted(other.info) and other.info.sample.name == name and repeat_key(other.info) == mine
    }
    return [found[number] for number in sorted(found)] or [run]


def repeat_key(info: RunInfo) -> Hashable:
    return info.sample.name, _configuration(info)


def pooled(columns: Iterable[Configuration]) -> list[Configuration]:
    """Configurations with the requests joined that repeat each other in one session; cells stay as they are."""
    found: dict[Hashable, Configuration] = {}
    for column in columns:
        info = column.runs[0].info
        key = column if column.is_cell else (column.session, repeat_key(info))
        if (known := found.get(key)) is not None:
            runs = tuple(warm_of([*known.runs, *column.runs]))
            found[key] = replace(known, runs=runs, failures=known.failures + column.failures)
        else:
            found[key] = column
    return list(found.values())


def baseline_of(run: RunLog, others: Iterable[RunLog]) -> Baseline | None:
    """The plain runs to weigh `run` and its repeats against; None without one.

    Those that somebody chose, where one of them is left; else all of the engine processes that made the repeats, where
    there are any; else all. Which of these runs a verdict compares follows from their turns and processes.
    """
    listed = list(others)
    return baseline_over(repeats_of(run, listed), listed)


def candidates_for(run: RunLog, others: Iterable[RunLog]) -> list[RunLog]:
    """The plain runs that may be chosen as the baseline of `run`, of whatever engine process, in order."""
    return [other for other in others if _is_plain_of(other.info, run.info)]


def baseline_over(runs: Iterable[RunLog], others: Iterable[RunLog]) -> Baseline | None:
    """The same for runs of one configuration over any number of samples: the baselines of all of them together."""
    known = others if isinstance(others, RunPool) else RunPool(others)
    found: dict[int, RunLog] = {}
    for key, pool in by_sample(runs).items():
        found.update((run.run_id, run) for run in _baseline_runs(pool, known, key))
    return Baseline(tuple(found[number] for number in sorted(found))) if found else None


class RunPool(tuple[RunLog, ...]):
    """Runs that others are weighed against, sorted by sample once. They change no more."""

    @cached_property
    def by_sample(self) -> dict[SampleKey, list[RunLog]]:
        """The runs by what they looked at and were asked."""
        return by_sample(self)


class SessionPools:
    """The runs of configurations by their session: run numbers mean nothing in another."""

    columns: Sequence[Configuration]

    def beside(self, column: Configuration) -> RunPool:
        return self._pools[column.session]

    @cached_property
    def _pools(self) -> dict[str, RunPool]:
        found: dict[str, list[RunLog]] = {}
        for column in self.columns:
            found.setdefault(column.session, []).extend(column.runs)
        return {session: RunPool(runs) for session, runs in found.items()}


def _baseline_runs(pool: Sequence[RunLog], known: RunPool, key: SampleKey) -> list[RunLog]:
    if not _drafts(pool[0].info):
        return []  # what somebody wants to see beside a plain run is no baseline of a verdict
    others = known.by_sample.get(key, [])
    numbers = {number for run in pool for number in run.info.chosen_baseline}
    if kept := [other for other in others if other.run_id in numbers and is_counted(other.info)]:
        return kept
    plain = [other for other in others if _is_plain_of(other.info, pool[0].info)]
    processes = {engine_session(run.info) for run in pool} - {""}
    return [other for other in plain if engine_session(other.info) in processes] or plain


def draft_alone(run: RunLog, others: Iterable[RunLog]) -> list[RunLog]:
    """Runs of a run's draft model alone on what it was asked, in order; [] where no model drafts. Those of another
    attention or cache count as well: their answer is the same."""
    draft, asked = run.info.models.get(DRAFT), asked_of(run.info, DRAFT)
    if draft is None:
        return []
    return [
        other
        for other in others
        if other.info.role == DRAFT
        and is_counted(other.info)
        and not mode_of(other.info.mode).is_paired
        and answer_length(other)
        and _same_weights(other.info.models.get(DRAFT), draft)
        and asked_of(other.info, DRAFT) == asked
    ]


def _same_weights(one: ModelFacts | None, other: ModelFacts) -> bool:
    names = ("name", "dtype", "quantization")
    return one is not None and all(getattr(one, name) == getattr(other, name) for name in names)


def _is_plain_of(info: RunInfo, drafted: RunInfo) -> bool:
    """Whether a run that counts is of the target alone, on the question of `drafted`."""
    is_plain = is_counted(info) and not mode_of(info.mode).is_paired and info.cell != REFERENCE
    return is_plain and info.sample.name == drafted.sample.name and _question(info) == _question(drafted)


def _drafts(info: RunInfo) -> bool:
    return mode_of(info.mode).is_paired and info.role in info.models


def asked_of(info: RunInfo, role: str) -> tuple[Any, ...]:
    """Prompt, clip and files that a model of a run was asked about; another run may lack the other model's input."""
    sample = info.sample
    asked = (sample.prompt, sample.start_us, sample.duration_us)
    if kind_read(RunLog(info), role) == "events":
        return (*asked, sample.events_path, sample.rectify_path)
    return (*asked, sample.video_path, sample.video_offset_us, sample.video_times_path)


def _question(info: RunInfo) -> tuple[Hashable, ...]:
    return info.role, _computing(info, info.role), _load(info), *asked_of(info, info.role)


def _computing(info: RunInfo, role: str) -> tuple[Hashable, ...]:
    """How one model of a run computes, whatever the question: model, asked step, settings but for drafting."""
    run, model = RunLog(info), info.models.get(role)
    chosen = tuple(
        (setting.key, setting.text)
        for setting in settings_of(run, role)
        if setting.key not in (*SPECULATION_KEYS, "step")
    )
    # The step that a run took may depend on drafting; the one that was asked for does not.
    return replace(model, step="") if model else None, info.settings.switches.step, chosen


def _load(info: RunInfo) -> str:
    """Of an imported request how its server was asked, which its configuration's name says: under another load another
    time is no baseline. A model without a name is that of its own file alone."""
    model = info.models.get(info.role)
    if info.imported is None or model is None or model.layers:
        return ""
    return info.cell if model.name == NOT_TOLD else info.cell.rpartition(" · ")[0]


def _configuration(info: RunInfo) -> tuple[Hashable, ...]:
    """What repeats have in common: the question, and how it was drafted for."""
    is_paired = mode_of(info.mode).is_paired
    draft = info.models.get(DRAFT) if is_paired else None
    drafting = info.settings.speculation if is_paired else None
    read = asked_of(info, DRAFT) if draft is not None else ()
    return info.cell, info.mode, *_question(info), draft, drafting, read
