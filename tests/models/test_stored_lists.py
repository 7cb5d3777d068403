"""Lists of stored runs: the same as those of runs that were read whole, and no row is read for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.many_runs import ManyRuns, write_many_runs
from evprof.core.run_log import RunBook
from evprof.session.opened import open_session
from ui.runs.run_entries import CELL, RunEntries
from whole_session import load_session


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("listed") / "many.evprof"
    write_many_runs(path, ManyRuns(120, configurations=5, repeats=2))
    return path


@pytest.mark.parametrize("wanted", ["", "failed", "7 frames", "17", "speculative clip", "nothing like it"])
def test_the_same_lines_stand_in_the_list(session: Path, wanted: str) -> None:
    stored, book = open_session(session).runs, RunBook(load_session(session).recording)
    book.update()
    opened = {(CELL, book.runs[1].info.cell)}
    assert RunEntries().lines(stored, opened, wanted) == RunEntries().lines(book.runs, opened, wanted)
    assert not any(run.is_read for run in stored.values())
