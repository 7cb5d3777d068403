"""Rows of a suite that were slowed down, and slips in suite files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from evprof.cli.suite import command
from evprof.cli.suite.progress import SuiteProgress, cell_documents, print_cells, suite_document
from evprof.cli.terminal.console import Console
from evprof.core.run_log import RunBook, RunLog
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
            progress.end(row, made)
        assert progress.counts().endswith(" · 2 slowed down")
    assert errors.getvalue().count("A GPU was slowed down in some rows; their times are not what it can do.") == 1


def test_the_table_has_a_column_for_them_where_there_are_any() -> None:
    cells = cell_documents(Source(Path(), runs()), PLAN)
    assert [(cell["role"], cell["throttled"]) for cell in cells] == [("draft", 0), ("target", 1)]
    output = io.StringIO()
    print_cells(cells, Console(output))
    assert "throttled" in output.getvalue()
    document = suite_document(Source(Path(), runs()), cells, Path("s.evprof"), [])
    assert [cell["throttled"] for cell in document["cells"]] == [0, 1]


class Room:
    """No model is known."""

    def family_of(self, name: str) -> str | None:
        return None

    def fits(self, cells: Any) -> bool:
        return True

    def past_context(self, cell: Any) -> str | None:
        return None


BOMBS = {
    "keys.toml": "a" + ".a" * 200_000 + " = 1\n[axes]\nframes = [1]\n",
    "deep.toml": "x = " + "[" * 100_000 + "]" * 100_000 + "\n[axes]\nframes = [1]\n",
    "wide.toml": f"[axes]\nframes = {list(range(1, 2000))}\n",
    "digits.json": '{"axes": {"frames": [1' + "0" * 5000 + "]}}",
    "bits.toml": "[axes]\nframes = [99999999999999999999999]\n",
    "frames.toml": "[axes]\nframes = [1000000000]\n",
    "rows.toml": "repeat = 1000000000\n[axes]\nframes = [1]\n",
    "labels.toml": '[[cells]]\nlabel = "x"\n[[cells]]\nlabel = "x"\nmax_new_tokens = 3\n',
    "zero.toml": "repeat = 0\n[axes]\nframes = [1]\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_grid_that_would_not_end_is_refused(evprof, monkeypatch, tmp_path, name: str) -> None:
    monkeypatch.setattr(command, "make_room", Room)
    grid = tmp_path / name
    grid.write_text(BOMBS[name])
    found = evprof("suite", grid, "-o", tmp_path / "out")
    assert found.code in {1, 2}
    assert found.errors.startswith("evprof: ")
    assert "defect" not in found.errors
    assert not list((tmp_path / "out").glob("*.evprof"))
