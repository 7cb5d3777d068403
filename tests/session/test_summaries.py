"""Sessions opened by the summaries of their runs: the same runs as read whole, without their rows."""

from __future__ import annotations

import gc
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from benchmarks.many_runs import ManyRuns, write_many_runs
from evprof.core.errors import UserError
from evprof.core.run_book import RunBook
from evprof.core.run_info import FAILED
from evprof.core.run_log import RunLog
from evprof.metrics import run_summary
from evprof.metrics.comparison.document import configurations_of
from evprof.metrics.document import run_document
from evprof.metrics.figures.kept import KEPT
from evprof.metrics.run_summary import COLUMNS
from evprof.run.rewriting.merging import merge_sessions
from evprof.session import chunk
from evprof.session.reading import load_session
from evprof.session.store import Commit, changed_session
from evprof.session.summaries import one_run
from evprof.session.summaries import runs as runs_module
from evprof.session.summaries.opened import SessionStore, open_session
from evprof.session.summaries.runs import SessionRuns, StoredRun

RUNS = 120


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "many.evprof"
    write_many_runs(path, ManyRuns(RUNS, configurations=6))
    return path


def whole(path: Path) -> RunBook:
    book = RunBook(load_session(path).recording)
    book.update()
    return book


def figures(run: RunLog) -> dict[str, object]:
    return {name: entry.look(run, *entry.arguments) for name, entry in KEPT.items()}


def changed(path: Path, tmp_path: Path, statement: str) -> Path:
    """A copy that something else than evprof has written to."""
    copy = tmp_path / "copy.evprof"
    copy.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute(statement)
    return copy


def test_what_is_known_of_runs_is_what_was_recorded(session: Path) -> None:
    found, book = open_session(session), whole(session)
    assert found.stored is not None
    assert list(found.runs) == sorted(book.runs)
    for run_id, run in found.runs.items():
        assert run.info == book.runs[run_id].info


def test_figures_are_kept_and_no_row_is_read_for_them(session: Path) -> None:
    found, book = open_session(session), whole(session)
    for run_id, run in found.runs.items():
        assert isinstance(run, StoredRun)
        assert figures(run) == figures(book.runs[run_id])
        assert "_blocks" not in vars(run)


def test_rows_come_when_they_are_asked_for_and_go_again(session: Path) -> None:
    found, book = open_session(session), whole(session)
    run = found.runs[5]
    assert isinstance(run, StoredRun)
    version = run.version
    for _ in range(2):
        assert run.tokens == book.runs[5].tokens
        assert run.span_columns.ids.tolist() == book.runs[5].span_columns.ids.tolist()
        assert run.memory == book.runs[5].memory
        run.let_go()
    assert run.version == version
    assert run_document(run) == run_document(book.runs[5])


def test_neighbours_are_read_from_chunks_unpacked_once_within_bounds(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    unpack = chunk.unpack

    def noted(stream: str, row_count: int, blob: bytes) -> list[Any]:
        asked.append(blob)
        return unpack(stream, row_count, blob)

    monkeypatch.setattr(chunk, "unpack", noted)
    first = [run.tokens for run in open_session(session).runs.values()]
    assert len(asked) == len(set(asked))
    asked.clear()
    monkeypatch.setattr(one_run, "_MOST_KNOWN", 0)
    assert [run.tokens for run in open_session(session).runs.values()] == first
    assert len(asked) > len(set(asked))


@pytest.mark.parametrize("most_known", [0, 64 << 20])
def test_what_is_remembered_of_chunks_is_counted_as_it_comes(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_known: int
) -> None:
    """Each chunk is measured once, and none of a single run: to count all of them for each took seconds."""
    measured, size_of = list[object](), one_run._size_of

    def noted(column: Any) -> int:
        measured.append(column)
        return size_of(column)

    monkeypatch.setattr(one_run, "_size_of", noted)
    monkeypatch.setattr(one_run, "_MOST_KNOWN", most_known)
    alone = tmp_path / "alone.evprof"
    write_many_runs(alone, ManyRuns(1, configurations=1, repeats=1))
    assert [bool(run.tokens) for run in open_session(alone).runs.values()] == [True]
    assert measured == []
    assert all(run.tokens for run in open_session(session).runs.values())
    # A list, for it holds what it measured: no two of them can have had one number.
    assert len(measured) == len({id(column) for column in measured}) > 0


def test_every_figure_is_kept_under_a_name_of_its_own() -> None:
    assert {"total_ms end-to-end", "stage_ms decode target", "answer_ids", "acceptance"} <= COLUMNS.keys()


def test_a_name_given_later_stands_in_the_summary(session: Path, tmp_path: Path) -> None:
    copy = tmp_path / "named.evprof"
    copy.write_bytes(session.read_bytes())
    info = open_session(copy).runs[7].info.copied()
    info.name, info.is_deleted = "the one", True
    with changed_session(copy) as file:
        file.commit({}, Commit(infos=[info]))
    found = open_session(copy)
    assert found.stored is not None
    assert 7 not in found.runs
    assert found.deleted[7].info.name == "the one"
    assert figures(found.deleted[7]) == figures(open_session(session).runs[7])


def test_a_changed_summary_is_seen_and_the_session_is_read_as_a_whole(session: Path, tmp_path: Path) -> None:
    broken = changed(session, tmp_path, "UPDATE summaries SET layout = layout + 1 WHERE run_id = 9")
    found = open_session(broken)
    assert found.stored is None
    assert figures(found.runs[9]) == figures(open_session(session).runs[9])


def test_runs_without_a_summary_are_summed_up_from_their_rows(session: Path, tmp_path: Path) -> None:
    copy = tmp_path / "late.evprof"
    copy.write_bytes(session.read_bytes())
    from evprof.session.checksums import CheckedTables

    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        tables = CheckedTables.opened(connection)
        with tables.transaction():
            for run_id in (RUNS - 1, RUNS):
                tables.remove("summaries", run_id)
    found = open_session(copy)
    assert found.stored is not None
    assert len(found.stored) == RUNS - 2
    expected = open_session(session)
    for run_id in (RUNS - 1, RUNS):
        assert figures(found.runs[run_id]) == figures(expected.runs[run_id])
        assert found.runs[run_id].tokens == expected.runs[run_id].tokens


def test_a_damaged_row_costs_its_run_when_it_is_read(session: Path, tmp_path: Path) -> None:
    broken = changed(session, tmp_path, "UPDATE chunks SET first_ns = first_ns + 1 WHERE stream = 'tokens'")
    run = open_session(broken).runs[1]
    assert run.info.status != FAILED
    assert run.tokens == []
    assert run.info.status == FAILED
    assert run.info.warnings == ["Some of its tokens are damaged in the file and left out."]
    assert run.kept is None


def test_a_session_that_is_replaced_meanwhile_is_told(session: Path, tmp_path: Path) -> None:
    copy = tmp_path / "gone.evprof"
    copy.write_bytes(session.read_bytes())
    found = open_session(copy)
    copy.unlink()
    with pytest.raises(UserError, match="cannot be read any more"):
        _ = found.runs[1].tokens


def test_configurations_of_stored_runs_are_those_of_read_ones(session: Path) -> None:
    stored = configurations_of(list(open_session(session).runs.values()))
    read = configurations_of(list(whole(session).runs.values()))
    assert [(column.label, [run.run_id for run in column.runs]) for column in stored] == [
        (column.label, [run.run_id for run in column.runs]) for column in read
    ]


def test_a_figure_that_some_summaries_lack_is_worked_out_for_those(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, newer, both = (tmp_path / f"{name}.evprof" for name in ("older", "newer", "both"))
    name = "stage_ms decode target"
    with monkeypatch.context() as patch:
        patch.setattr(run_summary, "COLUMNS", {each: kind for each, kind in COLUMNS.items() if each != name})
        write_many_runs(older, ManyRuns(20, configurations=2))
    write_many_runs(newer, ManyRuns(20, configurations=2))
    merge_sessions([older, newer], both, Event(), lambda *_: None)
    found, book = open_session(both), whole(both)
    assert isinstance(found.stored, SessionRuns)
    assert 0 < found.stored.columns.told(name).sum() < len(found.stored)
    entry = KEPT[name]
    told = [entry.look(found.runs[run_id], *entry.arguments) for run_id in sorted(book.runs)]
    assert told == [entry.look(book.runs[run_id], *entry.arguments) for run_id in sorted(book.runs)]
    assert any(value is not None for value in told)


def test_a_word_is_read_though_others_forget_it_at_once(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = open_session(session)
    assert found.stored is not None
    monkeypatch.setattr(runs_module, "MOST_FACTS", 0)
    texts = [found.stored.text("cell", place) for place in range(len(found.stored))]
    assert texts == [run.info.cell for run in found.runs.values()]


def test_a_session_that_nobody_holds_any_more_has_let_go_of_its_file(session: Path) -> None:
    found = open_session(session)
    assert found.stored is not None
    assert found.stored[1].info.run_id == 1
    store = found.stored.store
    store.whole_info(1)
    assert isinstance(store, SessionStore)
    assert store._reading is not None
    connection = store._reading.connection
    assert connection.execute("SELECT count(*) FROM runs").fetchone() == (RUNS,)
    del found, store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
