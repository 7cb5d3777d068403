"""What a person sees while a suite is measured: warnings and errors are told once for each cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.plain import SCHEMA_VERSION
from evprof.core.records import STAGES
from evprof.core.run_book import RunBook
from evprof.core.run_info import FAILED, FINISHED, REFERENCE
from evprof.core.run_log import RunLog
from evprof.core.units import percent_text
from evprof.core.vocabulary.scoring import RIGHT, TOKEN_F1
from evprof.export.report.data import Source
from evprof.export.report.figures import number_text, spread_text
from evprof.metrics.arithmetic.statistics import Summary, summarize
from evprof.metrics.comparison.accuracy import Accuracy, accuracy_of, by_task, of_judged, rules_document
from evprof.metrics.configurations.gathering import Configuration, last_attempts, warm_of
from evprof.metrics.figures.energy import is_throttled, slowed_down
from evprof.metrics.figures.stages import stage_total_ms, total_ms
from evprof.run.suites.plan import SuitePlan, SuiteRow
from evprof.run.suites.record import SUITE


class SuiteProgress(Progress):
    """A Watcher of `evprof.run.suites.suite`."""

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

    def end(self, row: SuiteRow, runs: list[RunLog], duration_s: float, warmup: int) -> None:
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


@dataclass(frozen=True)
class CellRow:
    """One cell and role: how many of its planned rows finished, failed or were not measured, and what finished took.

    `total` and `stages` are in ms, None where nothing was measured. `throttled` counts finished rows in which a GPU was
    slowed down; None where that was not sampled. `accuracy`: of what finished; None where nothing was expected.
    """

    cell: str
    role: str
    planned: int
    finished: int
    failed: int
    total: Summary | None = None
    stages: dict[str, Summary | None] = field(default_factory=dict)
    throttled: int | None = None
    accuracy: Accuracy | None = None

    @property
    def missing(self) -> int:
        """Rows that neither finished nor failed: a stop came before them."""
        return self.planned - self.finished - self.failed


def cell_rows(source: Source, plan: SuitePlan) -> list[CellRow]:
    """Every cell's rows in the plan's order; runs outside of the plan, such as warm-ups, are in none of its figures."""
    keys = {key for row in plan.rows for key in row.keys}
    order = [*(cell.label for cell in plan.spec.cells), REFERENCE]
    rows = sorted(plan.rows, key=lambda row: order.index(row.cell.label))
    planned = Counter((row.cell.label, role) for row in rows for role in row.roles)
    runs: dict[tuple[str, str], list[RunLog]] = {}
    for run in last_attempts(source.runs):
        if run.info.row in keys and not run.info.profiled:
            runs.setdefault((run.info.cell, run.info.role), []).append(run)
    return [_row(*key, count, runs.get(key, [])) for key, count in planned.items()]


def _row(cell: str, role: str, planned: int, runs: Sequence[RunLog]) -> CellRow:
    finished = [run for run in runs if run.info.status == FINISHED]
    totals = [value for run in finished if (value := total_ms(run)) is not None]
    stages = {
        name: summarize([value for run in finished if (value := stage_total_ms(run, name)) is not None])
        for name in STAGES
    }
    failed = sum(run.info.status == FAILED for run in runs)
    told = [is_slowed for run in finished if (is_slowed := is_throttled(run)) is not None]
    throttled = sum(told) if told else None
    accuracy = accuracy_of(Configuration(tuple(warm_of(finished)))) if finished else None
    return CellRow(cell, role, planned, len(finished), failed, summarize(totals), stages, throttled, accuracy)


def print_table(rows: Sequence[CellRow], console: Console) -> None:
    """Mean ± standard deviation in ms; columns for rows that were slowed down, and for scores, where there are any."""
    is_slowed = any(row.throttled for row in rows)
    scores = [key for key in _SCORES if any(row.accuracy and key in row.accuracy.scores for row in rows)]
    lines = [
        [
            *(row.cell, row.role, str(row.finished), str(row.failed or ""), str(row.missing or "")),
            *([str(row.throttled or "")] if is_slowed else []),
            *(_score(row.accuracy, key) for key in scores),
            *([_rate(row.accuracy)] if RIGHT in scores else []),
            *(_spread(summary) for summary in (row.total, *(row.stages.get(name) for name in STAGES))),
        ]
        for row in rows
    ]
    counts = ["n", "failed", "missing", *(["slowed down"] if is_slowed else [])]
    counts += [_SCORES[key] for key in scores] + (["right/s"] if RIGHT in scores else [])
    console.table([["cell (ms)", "model", *counts, "total", *STAGES], *lines], left=2)
    if scores:
        right = "right: the right choice, or an exact match; " if RIGHT in scores else ""
        console.line(f"{right}95 % intervals and the rules stand in the report.")


_SCORES = {RIGHT: "right", TOKEN_F1: "F1"}
"""Scores of the table, and their heads."""


def _score(found: Accuracy | None, key: str) -> str:
    estimate = found.scores.get(key) if found else None
    if found is None or estimate is None:
        return "n/a"
    return f"{percent_text(estimate.value, 1)}{of_judged(key, found.judged, found.samples)}"


def _rate(found: Accuracy | None) -> str:
    return "n/a" if found is None or found.per_second is None else number_text(found.per_second.value)


def _spread(summary: Summary | None) -> str:
    return "n/a" if summary is None else spread_text(summary.mean, summary.std)


_COUNTS = ("planned", "finished", "failed", "missing")


def suite_document(
    source: Source, plan: SuitePlan, rows: Sequence[CellRow], session: Path, reports: Sequence[Path]
) -> dict[str, Any]:
    fact = dict(source.facts.get(SUITE) or {})
    fact.pop("fingerprint", None)
    return {
        "schema_version": SCHEMA_VERSION,
        "suite": fact,
        "counts": {key: sum(getattr(row, key) for row in rows) for key in _COUNTS},
        "cells": [_cell_document(row) for row in rows],
        "scoring_rules": rules_document() if any(row.accuracy for row in rows) else None,
        "session": str(session),
        "reports": [str(path) for path in reports],
    }


def _cell_document(row: CellRow) -> dict[str, Any]:
    return {
        "label": row.cell,
        **{key: getattr(row, key) for key in ("role", *_COUNTS, "throttled")},
        "total_ms": _summary_document(row.total),
        "accuracy": _accuracy_document(row.accuracy),
        "stages_ms": {name: _summary_document(summary) for name, summary in row.stages.items()},
    }


def _accuracy_document(found: Accuracy | None) -> dict[str, Any] | None:
    return None if found is None else found.to_json() | {"tasks": [part.to_json() for part in by_task(found)]}


def _summary_document(summary: Summary | None) -> dict[str, Any] | None:
    if summary is None:
        return None
    return {key: getattr(summary, key) for key in ("count", "mean", "std", "median")}
