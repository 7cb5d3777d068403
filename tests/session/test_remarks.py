"""What somebody says of a run afterwards: its name, a note, its baseline, and that it is deleted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from evprof.core.protocols import RunDescribed
from evprof.core.run_log import RunBook
from evprof.run.session_writer import SessionWriter
from evprof.session.store import changed_session
from whole_session import load_session


def book_of(path: Path) -> RunBook:
    book = RunBook(load_session(path).recording)
    book.update()
    return book


def remark(path: Path, run_id: int, **facts: object) -> None:
    """As the window does with a session that it opened."""
    recording = load_session(path).recording
    writer = SessionWriter(recording, path, waits_for_run=True, skips_existing=True)
    recording.post(RunDescribed(run_id, facts))
    writer.close()


def test_a_name_and_a_note_are_kept_in_the_session(write_session: Callable[..., Path]) -> None:
    path = write_session()
    rows = load_session(path).recording.row_count
    remark(path, 1, name="kept", note="three frames\nof rain")
    again = book_of(path)
    assert (again.runs[1].info.name, again.runs[1].info.note) == ("kept", "three frames\nof rain")
    assert load_session(path).recording.row_count == rows


def test_a_deleted_run_is_shown_to_nobody_and_comes_back(write_session: Callable[..., Path]) -> None:
    path = write_session()
    text = book_of(path).runs[1].info.text
    remark(path, 1, is_deleted=True)
    gone = book_of(path)
    assert not gone.runs
    assert list(gone.deleted) == [1]
    assert gone.last_run_id == 1
    with changed_session(path) as file:
        assert file.next_run_id == 2  # its number is never given to another
    remark(path, 1, is_deleted=False)
    back = book_of(path)
    assert list(back.runs) == [1]
    assert not back.deleted
    assert back.runs[1].info.text == text
    assert back.runs[1].spans
