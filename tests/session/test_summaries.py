"""Sessions opened without their rows: the same runs and figures as read whole."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.many_runs import ManyRuns, write_many_runs
from evprof.core.errors import UserError
from evprof.core.run_info import FAILED
from evprof.core.run_log import RunBook, RunLog
from evprof.metrics import run_summary
from evprof.metrics.document import run_document
from evprof.metrics.figures import kept
from evprof.metrics.figures.kept import KEPT
from evprof.metrics.figures.stages import total_ms
from evprof.session import opened
from evprof.session.opened import open_session
from evprof.session.store import Commit, changed_session
from whole_session import load_session

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


def changed(path: Path, tmp_path: Path, statement: str) -> Path:
    """A copy that something else than evprof has written to."""
    copy = tmp_path / "copy.evprof"
    copy.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute(statement)
    return copy


def stored(run: RunLog) -> dict[str, object]:
    """What a reader uses of a stored run in place of its rows."""
    return {name: (run.kept or {}).get(name) for name in KEPT}


def computed(run: RunLog) -> dict[str, object]:
    values = json.loads(json.dumps(run_summary.summary_of(run)))
    return {name: values.get(name) for name in KEPT}


def test_what_is_known_of_runs_is_what_was_recorded(session: Path) -> None:
    found, book = open_session(session), whole(session)
    assert list(found.runs) == sorted(book.runs)
    assert {run_id: run.info for run_id, run in found.runs.items()} == {
        run_id: run.info for run_id, run in book.runs.items()
    }


def test_figures_are_stored_and_no_row_is_read_for_them(session: Path) -> None:
    found, book = open_session(session), whole(session)
    for run_id, run in found.runs.items():
        assert stored(run) == computed(book.runs[run_id])
        assert total_ms(run) == total_ms(book.runs[run_id])
        assert len(run.rounds) == len(book.runs[run_id].rounds)
        assert not run.is_read


def test_rows_come_on_first_use_and_go_again(session: Path) -> None:
    run, expected = open_session(session).runs[5], whole(session).runs[5]
    version = run.version
    for _ in range(2):
        assert run.tokens == expected.tokens
        assert run.span_columns.ids.tolist() == expected.span_columns.ids.tolist()
        assert run.memory == expected.memory
        run.forget_rows()
    assert run.version == version
    assert run_document(run) == run_document(expected)


def test_rows_of_many_runs_do_not_stay(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "MOST_FETCHED", 3)
    found = open_session(session)
    assert all(run.tokens for run in found.runs.values())
    assert sum(run.is_read for run in found.runs.values()) == 3


def test_the_version_is_counted_up_with_the_figures() -> None:
    """A reader takes a figure that is not stored for one that is None, where the versions agree."""
    names = sorted(KEPT)
    assert (kept.VERSION, len(names), names[0], names[-1]) == (2, 64, "accepted_positions", "unattributed_ms")


def test_a_figure_of_another_version_is_computed_from_the_rows(session: Path, tmp_path, monkeypatch) -> None:
    path = changed(session, tmp_path, "UPDATE figures SET figures = '{\"version\": 1}' WHERE run_id < 0")
    run = open_session(path).runs[3]
    run.kept = {kept.VERSION_KEY: kept.VERSION - 1}
    assert total_ms(run) == total_ms(whole(session).runs[3])
    assert run.is_read


def test_a_name_given_later_keeps_the_figures(session: Path, tmp_path: Path) -> None:
    copy = tmp_path / "named.evprof"
    copy.write_bytes(session.read_bytes())
    info = open_session(copy).runs[7].info.copied()
    info.name, info.is_deleted = "the one", True
    with changed_session(copy) as file:
        file.commit({}, Commit(infos=[info]))
    found = open_session(copy)
    assert 7 not in found.runs
    assert found.deleted[7].info.name == "the one"
    assert stored(found.deleted[7]) == stored(open_session(session).runs[7])


@pytest.mark.parametrize("statement", ["UPDATE figures SET figures = '{}'", "UPDATE figures SET checksum = 1"])
def test_changed_figures_are_computed_from_the_rows(session: Path, tmp_path: Path, statement: str) -> None:
    run = open_session(changed(session, tmp_path, statement)).runs[9]
    assert run.kept is None
    assert total_ms(run) == total_ms(whole(session).runs[9])


def test_a_damaged_row_fails_its_run_when_it_is_read(session: Path, tmp_path: Path) -> None:
    broken = changed(session, tmp_path, "UPDATE chunks SET checksum = checksum + 1 WHERE stream = 'tokens'")
    run = open_session(broken).runs[1]
    assert run.info.status != FAILED
    assert run.tokens == []
    assert run.info.status == FAILED
    assert "damaged in the file and left out" in run.info.warnings[0]
    assert run.kept is None


def test_a_session_that_is_replaced_meanwhile_is_reported(session: Path, tmp_path: Path) -> None:
    copy = tmp_path / "gone.evprof"
    copy.write_bytes(session.read_bytes())
    found = open_session(copy)
    copy.unlink()
    with pytest.raises(UserError, match="cannot be read"):
        _ = found.runs[1].tokens
