"""Lists of stored runs are gathered, filtered and told by columns: as those of the same runs that were read whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.many_runs import ManyRuns, write_many_runs
from benchmarks.part_files import write_results
from evprof.core.run_book import RunBook
from evprof.core.run_info import FAILED
from evprof.run.legacy_import import import_files
from evprof.session.reading import load_session
from evprof.session.store import Commit, changed_session
from evprof.session.summaries.opened import open_session
from evprof.session.summaries.runs import StoredRun
from ui.runs import cell_facts
from ui.runs.run_entries import RunEntries
from ui.runs.run_groups import CELL


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("listed") / "many.evprof"
    write_many_runs(path, ManyRuns(1200, configurations=5, repeats=2))
    return path


def stored(path: Path) -> RunBook:
    book = RunBook(open_session(path).recording)
    book.update()
    return book


def whole(path: Path) -> RunBook:
    book = RunBook(load_session(path).recording)
    book.update()
    return book


@pytest.mark.parametrize("wanted", ["", "failed", "7 frames", "17", "speculative clip", "eventgpt", "nothing like it"])
def test_the_same_lines_stand_in_the_list(session: Path, wanted: str) -> None:
    one, two = stored(session), whole(session)
    opened = {(CELL, next(iter(two.runs.values())).info.cell)}
    mine = RunEntries().lines(one.runs, opened, wanted)
    theirs = RunEntries().lines(two.runs, opened, wanted)
    assert mine.keys == theirs.keys
    assert [slot.is_inner for slot in mine.slots] == [slot.is_inner for slot in theirs.slots]


@pytest.mark.parametrize("is_imported", [False, True])
def test_cells_are_told_by_columns_as_by_their_runs(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_imported: bool
) -> None:
    path = tmp_path / "imported.evprof" if is_imported else session
    if is_imported:
        import_files([write_results(tmp_path / "results.json", 30)], path)
        with changed_session(path) as file:  # one of its runs as if it had failed
            info = load_session(path).recording.messages()[4].info
            info.status, info.error = FAILED, "out of memory"
            file.commit({}, Commit(infos=[info]))
    monkeypatch.setattr(cell_facts, "FEWEST", 1)
    one, two = stored(path), whole(path)
    mine, theirs = list(RunEntries().lines(one.runs)), list(RunEntries().lines(two.runs))
    assert [(entry.title, entry.outcome, entry.label, entry.sentence, entry.tip) for entry in mine] == [
        (entry.title, entry.outcome, entry.label, entry.sentence, entry.tip) for entry in theirs
    ]


def test_no_run_is_made_until_it_is_told(session: Path) -> None:
    found = open_session(session)
    book = RunBook(found.recording)
    book.update()
    assert found.stored is not None
    lines = RunEntries().lines(book.runs, (), "frames")
    assert len(lines) == 5
    assert len(found.stored.made) <= 5
    assert not any("_blocks" in vars(run) for run in found.stored.made.values() if isinstance(run, StoredRun))


def test_what_was_said_of_a_run_since_is_found(session: Path) -> None:
    book = stored(session)
    book.runs[30].info.note = "the odd one"
    book.runs[30].version += 1
    (line,) = RunEntries().lines(book.runs, (), "odd").slots
    assert 30 in line.run_ids
