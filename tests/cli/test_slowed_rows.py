"""Rows of a suite in which a GPU was slowed down: in progress, in the table and in the document."""

from __future__ import annotations

import io
from pathlib import Path

from evprof.cli.suite.progress import SuiteProgress, cell_rows, print_table, suite_document
from evprof.cli.terminal.console import Console
from evprof.core.run_book import RunBook
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.export.report.data import Source
from evprof.run.suites.plan import plan_suite
from evprof.run.suites.spec import parse_suite
from fake_nvml import powered_recording

PLAN = plan_suite(
    parse_suite({"settings": {"mode": "side-by-side"}}, "grid", repeat=3), [Sample("a.npy", "a.mp4", name="a")]
)


def runs() -> list[RunLog]:
    book = RunBook(powered_recording())
    book.update()
    for run in book.runs.values():
        run.info.cell, run.info.sample = PLAN.rows[0].cell.label, PLAN.rows[0].sample
    return list(book.runs.values())


def test_progress_counts_them_and_says_so_once() -> None:
    errors = io.StringIO()
    quiet, hot = runs()
    with SuiteProgress(Console(errors=errors), PLAN.rows, 0) as progress:
        for row, made in zip(PLAN.rows, ([quiet], [hot], [hot]), strict=True):
            progress.begin(row, 0)
            progress.end(row, made, 2.0, 0)
        assert progress.counts().endswith(" · 2 slowed down")
    assert errors.getvalue().count("A GPU was slowed down in some rows; their times are not what it can do.") == 1


def test_the_table_has_a_column_for_them_where_there_are_any() -> None:
    rows = cell_rows(Source(Path(), runs()), PLAN)
    assert [(row.role, row.throttled) for row in rows] == [("draft", 0), ("target", 1)]
    output = io.StringIO()
    print_table(rows, Console(output))
    assert "slowed down" in output.getvalue()
    document = suite_document(Source(Path(), runs()), PLAN, rows, Path("s.evprof"), [])
    assert [cell["throttled"] for cell in document["cells"]] == [0, 1]


def test_without_samples_there_is_no_column_and_no_number() -> None:
    unwatched = runs()
    for run in unwatched:
        run.power.clear()
    rows = cell_rows(Source(Path(), unwatched), PLAN)
    output = io.StringIO()
    print_table(rows, Console(output))
    assert "slowed down" not in output.getvalue()
    assert [row.throttled for row in rows] == [None, None]
