"""What a person sees while a suite is measured: warnings and errors are told once for each cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.cli.terminal.tables import print_rows
from evprof.core.plain import SCHEMA_VERSION
from evprof.core.records import STAGES
from evprof.core.run_info import FAILED, FINISHED, REFERENCE
from evprof.core.run_log import RunBook, RunLog
from evprof.export.report.data import Source
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.comparison.accuracy import accuracy_of, by_task, rules_document
from evprof.metrics.configurations.gathering import Configuration, last_attempts, warm_of
from evprof.metrics.figures.energy import is_throttled, slowed_down
from evprof.metrics.figures.stages import stage_total_ms, total_ms
from evprof.run.suites.plan import SuitePlan, SuiteRow
from evprof.run.suites.record import SUITE


class SuiteProgress(Progress):
    kept = "what was measured"
    line_s = 1.0

    def __init__(self, console: Console, rows: Sequence[SuiteRow], done_before: int) -> None:
        """`rows` are those that are left, `done_before` how many of the plan are done already."""
        super().__init__(console, unit="rows")
        self.start(len(rows) + done_before, done_before)
        self._shown_at = 0.0  # the first row has a line
        self._left = Counter(row.cell.label for row in rows)
        self._failures = 0
        self._slowed = 0
        self._said: set[tuple[str, str]] = set()

    def begin(self, row: SuiteRow, warmup: int) -> None:
        self._title = f"{_title(row)}{' · warm-up first' if warmup else ''}"
        if self._bar is not None:
            self.draw(at_once=True)

    def look(self, book: RunBook) -> None:
        if self._bar is not None:
            self.draw()

    def end(self, row: SuiteRow, runs: list[RunLog]) -> None:
        self._done += 1
        self._left[row.cell.label] -= 1
        failed = [run for run in runs if run.info.status == FAILED]
        self._failures += bool(failed)
        for run in runs:
            for sentence in run.info.warnings:
                self._say_once(row, f"warning: {sentence}", row.cell.label)
        if slowed_down(runs):
            self._slowed += 1
            said = "warning: A GPU was slowed down in some rows; their times are not what it can do."
            self._say_once(row, said, row.cell.label)
        for run in failed:
            self._say_once(row, f"{run.info.role} failed: {run.info.error}", _title(row))
        if self._bar is None and self.is_due(at_once=not self._left.total()):
            self.tell("", [self.counts(), _title(row), *self.speed()])

    def lose(self, row: SuiteRow, sentence: str) -> None:
        self.say(sentence, is_warning=True)

    def counts(self) -> str:
        """`12 of 20 rows · 1 failed · 2 slowed down`."""
        known = ((self._failures, "failed"), (self._slowed, "slowed down"))
        return " · ".join([super().counts(), *(f"{count} {word}" for count, word in known if count)])

    def _say_once(self, row: SuiteRow, sentence: str, where: str) -> None:
        if (row.cell.label, sentence) not in self._said:
            self._said.add((row.cell.label, sentence))
            self.say(f"{where}: {sentence}", is_warning=True)


def _title(row: SuiteRow) -> str:
    half = f" ({row.roles[0]})" if row.is_half else ""
    return f"{row.cell.label}{half} · {row.sample.name} · {row.repeat + 1}"


_COUNTS = ("planned", "finished", "failed", "missing")


def cell_documents(source: Source, plan: SuitePlan) -> list[dict[str, Any]]:
    """Every cell and role in the plan's order: its planned rows, how they ended, and the times of the finished ones.

    Runs outside of the plan, such as warm-ups, are in none of its figures. `missing` rows neither finished nor failed.
    `throttled` counts finished rows in which a GPU was slowed down; None where that was not sampled.
    """
    keys = {key for row in plan.rows for key in row.keys}
    order = [*(cell.label for cell in plan.spec.cells), REFERENCE]
    rows = sorted(plan.rows, key=lambda row: order.index(row.cell.label))
    planned = Counter((row.cell.label, role) for row in rows for role in row.roles)
    runs: dict[tuple[str, str], list[RunLog]] = {}
    for run in last_attempts(source.runs):
        if run.info.row in keys and not run.info.profiled:
            runs.setdefault((run.info.cell, run.info.role), []).append(run)
    return [_cell_document(*key, count, runs.get(key, [])) for key, count in planned.items()]


def _cell_document(cell: str, role: str, planned: int, runs: Sequence[RunLog]) -> dict[str, Any]:
    finished = [run for run in runs if run.info.status == FINISHED]
    failed = sum(run.info.status == FAILED for run in runs)
    sampled = [is_slowed for run in finished if (is_slowed := is_throttled(run)) is not None]
    accuracy = accuracy_of(Configuration(tuple(warm_of(finished)))) if finished else None
    scores = None
    if accuracy is not None:
        scores = accuracy.to_json() | {"tasks": [part.to_json() for part in by_task(accuracy)]}
    return {
        "label": cell,
        "role": role,
        "planned": planned,
        "finished": len(finished),
        "failed": failed,
        "missing": planned - len(finished) - failed,
        "throttled": sum(sampled) if sampled else None,
        "total_ms": _summary(finished, total_ms),
        "accuracy": scores,
        "stages_ms": {name: _summary(finished, partial(_stage_ms, name)) for name in STAGES},
    }


def _stage_ms(name: str, run: RunLog) -> float | None:
    return stage_total_ms(run, name)


def _summary(runs: Sequence[RunLog], read: Callable[[RunLog], float | None]) -> dict[str, Any] | None:
    found = summarize([value for run in runs if (value := read(run)) is not None])
    return None if found is None else {key: getattr(found, key) for key in ("count", "mean", "std", "median")}


def print_cells(cells: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Counts, means in ms, the standard deviation of the total, and scores where there are any."""
    rows = []
    for cell in cells:
        total, scored = cell["total_ms"] or {}, cell["accuracy"] or {}
        means = {f"{name}_ms": each["mean"] for name, each in cell["stages_ms"].items() if each is not None}
        scores = {key: score["mean"] for key, score in (scored.get("scores") or {}).items() if score is not None}
        counts = {key: cell[key] or None for key in ("failed", "missing", "throttled")}
        rows.append(
            {key: cell[key] for key in ("label", "role", "finished")}
            | counts
            | scores
            | {"total_ms": total.get("mean"), "total_std_ms": total.get("std")}
            | means
        )
    print_rows(console, rows)


def suite_document(
    source: Source, cells: Sequence[dict[str, Any]], session: Path, reports: Sequence[Path]
) -> dict[str, Any]:
    fact = dict(source.facts.get(SUITE) or {})
    fact.pop("fingerprint", None)
    return {
        "schema_version": SCHEMA_VERSION,
        "suite": fact,
        "counts": {key: sum(cell[key] for cell in cells) for key in _COUNTS},
        "cells": list(cells),
        "scoring_rules": rules_document() if any(cell["accuracy"] for cell in cells) else None,
        "session": str(session),
        "reports": [str(path) for path in reports],
    }
