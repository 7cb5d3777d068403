"""Runs gathered into configurations, the columns of every comparison: all samples and repeats of one as one.

A suite or an imported file names its configurations ("cells"); elsewhere the repeats of one request are one. Warm-up,
profiled and unfinished runs stay out, and cold ones wherever there are others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from evprof.core.records import DRAFT
from evprof.core.run_info import CANCELLED, FAILED, PLACE, REFERENCE, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.figures.stages import total_ms
from evprof.view.columns import takes_draft_model

BOTH_MODELS = "both models"

SampleKey = tuple[str, str]
"""What was looked at and asked: a sample's name and the prompt. By it, two configurations are compared in pairs."""


@dataclass(frozen=True, eq=False)
class Configuration:
    """One configuration with its runs; `session` is the file they came from, "" for the open one.

    `failures` counts the rows that belong to it and were left out because they failed or were cancelled.
    """

    runs: tuple[RunLog, ...]
    session: str = ""
    failures: int = 0

    @property
    def run_id(self) -> int:
        return self.runs[0].run_id

    @property
    def cell(self) -> str:
        """The configuration's name in its suite or file; "" of repeats of one request."""
        return self.runs[0].info.cell

    @property
    def is_cell(self) -> bool:
        """Whether it holds a dataset: figures are then means over samples, not medians over repeats."""
        return bool(self.cell)

    @cached_property
    def model(self) -> str:
        """The model that answers, or BOTH_MODELS where both compute in its runs: their times are of both together."""
        info = self.runs[0].info
        model = info.models.get(info.role)
        return BOTH_MODELS if takes_draft_model(self.runs[0]) else model.name if model else info.role

    @property
    def is_cold(self) -> bool:
        """Whether it holds nothing but cold runs, over which nothing may be claimed."""
        return all(run.info.is_cold for run in self.runs)

    @cached_property
    def label(self) -> str:
        """The cell's name; else number, mode, answering model and what is not at its default, for headings."""
        return f"{self._name} · cold" if self.is_cold else self._name

    @property
    def _name(self) -> str:
        from evprof.metrics.configurations.settings_text import run_label

        info, name = self.runs[0].info, self.model
        if self.is_cell:
            # A suite's cell holds both models of a side-by-side request; a file's names its model itself.
            is_shared = mode_of(info.mode).is_side_by_side and info.imported is None and name not in self.cell
            return f"{self.cell} · {name}" if is_shared else self.cell
        return " · ".join(
            part for part in (str(self.run_id), info.name, info.mode, name, run_label(self.runs[:1])) if part
        )

    def samples(self) -> dict[SampleKey, list[RunLog]]:
        """The runs by what they looked at and were asked, in order; a list holds the repeats of one sample."""
        return self._samples

    @cached_property
    def _samples(self) -> dict[SampleKey, list[RunLog]]:
        return by_sample(self.runs)

    @cached_property
    def machines(self) -> frozenset[str]:
        return frozenset(machine_of(run.info) for run in self.runs)

    def typical_runs(self) -> dict[SampleKey, RunLog]:
        """Of every sample the repeat whose total is the median; see `typical_of`."""
        return {key: typical_of(runs) for key, runs in self._samples.items()}


_MACHINE_FACTS = (PLACE, "processor", "device", "cpus")


def machine_of(info: RunInfo) -> str:
    """Name of the machine where a suite had several, processor, device, number of processors; "" if unknown."""
    return " · ".join(str(fact) for key in _MACHINE_FACTS if (fact := info.environment.get(key)) is not None)


def on_machines_of_both(one: Configuration, two: Configuration) -> tuple[Sequence[RunLog], Sequence[RunLog]]:
    """The runs of both whose machine measured their sample for both, so that pairs are within a machine.

    Everything where all are of one machine, and where no machine measured a sample for both.
    """
    if len(one.machines | two.machines) > 1:
        first, second = ({(machine_of(run.info), sample_key(run)) for run in side.runs} for side in (one, two))
        if both := first & second:
            kept = [
                [run for run in side.runs if (machine_of(run.info), sample_key(run)) in both] for side in (one, two)
            ]
            return kept[0], kept[1]
    return one.runs, two.runs


def without_reference(columns: Iterable[Configuration]) -> list[Configuration]:
    return [column for column in columns if column.cell != REFERENCE]


def sample_key(run: RunLog) -> SampleKey:
    """Name of the sample ("" where nobody named it) and prompt of a run."""
    return sample_of(run.info)


def sample_of(info: RunInfo) -> SampleKey:
    return info.sample.name, info.sample.prompt


def by_sample(runs: Iterable[RunLog]) -> dict[SampleKey, list[RunLog]]:
    """Runs by what they looked at and were asked: among those of one sample a speculative run finds its plain ones."""
    found: dict[SampleKey, list[RunLog]] = {}
    for run in runs:
        found.setdefault(sample_key(run), []).append(run)
    return found


def is_comparable(run: RunLog) -> bool:
    """Whether a run may take part in comparisons: neither warm-up nor profiled."""
    return not (run.info.warmup or run.info.profiled)


def configurations_of(runs: Sequence[RunLog], session: str = "") -> list[Configuration]:
    """Comparable runs gathered into columns: of one cell, or repeats of one request, in one role and mode.

    Of a suite's row that was begun more than once only the last attempt counts. Failed and cancelled runs are counted
    in `failures`; a configuration of which no other run is left gives no column (see `failed_only`).

    Of requests that ran in turns, plain ones come before those with drafts, and the draft before the target: the order
    of the turns is random.
    """
    listed = [
        Configuration(tuple(warm_of(kept)), session, failures) for kept, failures in _gathered(runs).values() if kept
    ]
    places: dict[str | int, int] = {}
    for place, column in enumerate(listed):
        places.setdefault(_series(column.runs[0].info), place)
    return sorted(listed, key=lambda column: (places[_series(column.runs[0].info)], *_rank(column.runs[0].info)))


def _series(info: RunInfo) -> str | int:
    """What the configurations share that ran in turns: a series or a request; a cell is one of its own."""
    return info.cell or (info.turn.series if info.turn is not None else info.group_id)


def _rank(info: RunInfo) -> tuple[bool, bool]:
    return mode_of(info.mode).is_paired, info.role != DRAFT


def warm_of(runs: Sequence[RunLog]) -> list[RunLog]:
    """Those of a configuration's runs that stand in its figures: all but the cold ones, if any are left then."""
    return [run for run in runs if not run.info.is_cold] or list(runs)


def failed_only(runs: Sequence[RunLog]) -> list[RunLog]:
    """Failed and cancelled runs of the configurations that have no other: those that give no column."""
    kept = {key for key, (runs_of, _) in _gathered(runs).items() if runs_of}
    return [
        run
        for run in last_attempts(runs)
        if is_comparable(run) and _is_failure(run) and configuration_key(run.info) not in kept
    ]


def typical_run(column: Configuration) -> RunLog:
    """The run whose total is the (lower) median; the first one while totals are unknown."""
    return typical_of(column.runs)


def typical_of(runs: Sequence[RunLog]) -> RunLog:
    """The run whose total is the (lower) median of these; the first one while totals are unknown."""
    if len(runs) == 1:
        return runs[0]
    measured = [(total, run) for run in runs if (total := total_ms(run)) is not None]
    if not measured:
        return runs[0]
    return sorted(measured, key=lambda pair: pair[0])[(len(measured) - 1) // 2][1]


def _gathered(runs: Sequence[RunLog]) -> dict[tuple[str | int, str, str], tuple[list[RunLog], int]]:
    found: dict[tuple[str | int, str, str], tuple[list[RunLog], int]] = {}
    for run in last_attempts(runs):
        if is_comparable(run) and run.info.is_over:
            kept, failures = found.get(configuration_key(run.info), ([], 0))
            if _is_failure(run):
                failures += 1
            else:
                kept.append(run)
            found[configuration_key(run.info)] = kept, failures
    return found


def configuration_key(info: RunInfo) -> tuple[str | int, str, str]:
    """What the runs of one configuration share: their cell, or the request they repeat, their mode and role."""
    return info.cell or info.group_id, info.mode, info.role


def _is_failure(run: RunLog) -> bool:
    return run.info.status in (FAILED, CANCELLED)


def last_attempts(runs: Iterable[RunLog]) -> list[RunLog]:
    """Runs, of a suite's row that was begun more than once only the last; runs outside suites are all kept."""
    return sorted({run.info.row: run for run in runs}.values(), key=lambda run: run.run_id)
