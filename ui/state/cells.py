"""The configurations ("cells") that runs of suites and imports belong to: what they hold, and their typical runs.

It knows no widget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_info import FINISHED, RUNNING
from evprof.core.run_log import RunLog
from evprof.core.units import count_text
from evprof.core.vocabulary.modes import mode_of
from evprof.view.columns import RunPair, ShownModel, pair_for

if TYPE_CHECKING:
    from evprof.metrics.configurations.gathering import Configuration


def configuration_runs(runs: Iterable[RunLog], like: RunLog) -> tuple[RunLog, ...]:
    """The finished runs in a cell's figures, of a run's mode and role; of a row begun again only the last."""
    from evprof.metrics.configurations.gathering import is_comparable, warm_of

    same = (like.info.cell, like.info.mode, like.info.role)
    rows: dict[object, RunLog] = {}
    for run in runs:
        info = run.info
        if (info.cell, info.mode, info.role) == same and info.status == FINISHED and is_comparable(run):
            rows[run.info.row] = run
    return tuple(warm_of(list(rows.values())))


def configuration_of(
    runs: Mapping[int, RunLog], column: ShownModel | None, *, of_cell: bool = True
) -> Configuration | None:
    """What a column stands for: the repeats of its request, as in every comparison, or with `of_cell` its whole cell.

    None where it stands for its run alone: one that goes on, a row that was picked out of its cell.
    """
    from evprof.metrics.configurations.gathering import Configuration, configurations_of

    if column is None or not column.is_answer or not (info := column.run.info).is_over:
        return None
    if info.cell:
        found = configuration_runs(runs.values(), column.run) if of_cell else ()
        return Configuration(found) if found else None
    same = (info.group_id, info.mode, info.role)
    repeats = [run for run in runs.values() if (run.info.group_id, run.info.mode, run.info.role) == same]
    return next(iter(configurations_of(repeats)), None) if len(repeats) > 1 else None


def typical_pair(runs: Mapping[int, RunLog], cell: str) -> RunPair:
    """The pair of columns that shows a cell: its run of median total, the target's where it has both."""
    from evprof.metrics.configurations.gathering import Configuration, typical_run

    for role in (TARGET, DRAFT):
        member = next((run for run in runs.values() if _is_row(run, cell) and run.info.role == role), None)
        if member is not None:
            return pair_for(runs, typical_run(Configuration(configuration_runs(runs.values(), member))).run_id)
    rest = [run_id for run_id, run in runs.items() if run.info.cell == cell]
    return pair_for(runs, rest[-1]) if rest else (None, None)


def newest_pair(runs: Mapping[int, RunLog]) -> tuple[RunPair, str]:
    """The pair of columns that a session is opened with, and whose cell's it is: the newest run that finished and is no
    warm-up and no trace; where that is one of a suite, its cell, for a suite's last run says little."""
    plain = [run_id for run_id, run in runs.items() if not (run.info.warmup or run.info.profiled)]
    finished = [run_id for run_id in plain if runs[run_id].info.status == FINISHED]
    last = next(reversed(finished or plain or list(runs)), None)
    if last is None:
        return (None, None), ""
    info = runs[last].info
    if info.cell and info.is_over:
        return typical_pair(runs, info.cell), info.cell
    return pair_for(runs, last), ""


def typical_repeat(runs: Mapping[int, RunLog], run_ids: Iterable[int]) -> int:
    """Of the repeats of one request the run of median total, the target's where it has both; else the last one."""
    from evprof.metrics.configurations.gathering import Configuration, is_comparable, typical_run, warm_of

    members = [runs[run_id] for run_id in run_ids if run_id in runs]
    cut = {(run.info.group_id, run.info.repeat) for run in members if run.info.status != FINISHED}
    done = [run for run in members if run.info.status == FINISHED and is_comparable(run)]
    done = [run for run in done if (run.info.group_id, run.info.repeat) not in cut] or done
    for role in (TARGET, DRAFT):
        found = warm_of([run for run in done if run.info.role == role])
        if found:
            return typical_run(Configuration(tuple(found))).run_id
    return members[-1].run_id


def _is_row(run: RunLog, cell: str) -> bool:
    from evprof.metrics.configurations.gathering import is_comparable

    return run.info.cell == cell and run.info.status == FINISHED and is_comparable(run)


@dataclass(frozen=True)
class ConfigurationCounts:
    """How much a cell holds: samples and repeats that finished, rows that did not, warm-ups, what still runs."""

    samples: int = 0
    repeats: int = 1
    failed: int = 0
    warmups: int = 0
    running: int = 0

    @property
    def sentence(self) -> str:
        """`60 samples · 3 repeats · 2 failed`."""
        parts = [count_text(self.samples, "sample")]
        parts += [f"{self.repeats} repeats"] if self.repeats > 1 else []
        parts += [f"{self.failed:,} failed"] if self.failed else []
        parts += [f"{self.running:,} running"] if self.running else []
        return " · ".join(parts)


def configuration_counts(runs: Iterable[RunLog]) -> ConfigurationCounts:
    """Counts over all runs of a cell. A row of both models fails once, whichever of them failed."""
    from evprof.metrics.configurations.gathering import is_comparable

    last = {run.info.row: run for run in runs}
    samples: set[object] = set()
    repeats: set[int] = set()
    failed: set[object] = set()
    warmups = running = 0
    for run in last.values():
        info = run.info
        sample = (info.sample.name, info.sample.prompt, info.group_id if info.imported else 0)
        if info.status == RUNNING:
            running += 1
        elif info.status != FINISHED:
            failed.add((*sample, info.repeat))
        elif not is_comparable(run):
            warmups += 1
        else:
            samples.add(sample)
            repeats.add(info.repeat)
    return ConfigurationCounts(len(samples), max(1, len(repeats)), len(failed), warmups, running)


def speculative_run(shown: Sequence[RunLog | None]) -> RunLog | None:
    """The run of the columns that two models, or a drafter, took part in: the rightmost."""
    return next((run for run in reversed(shown) if run is not None and mode_of(run.info.mode).is_paired), None)
