"""One writer at a time, and one process whose writers follow one another."""

from __future__ import annotations

from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.core.recording import RecordLog
from evprof.run.session_writer import SessionWriter
from evprof.session import store
from evprof.session.presence import hold, is_written, reserved


def test_writers_of_one_process_follow_one_another_and_nobody_comes_in_between(tmp_path: Path) -> None:
    path = tmp_path / "s.evprof"
    with reserved(path):
        for _ in range(2):
            with SessionWriter(RecordLog(), path), pytest.raises(UserError, match="being recorded"):
                hold(path)
            assert is_written(path)
    assert not is_written(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.evprof"]


def test_a_link_to_a_session_is_the_session(tmp_path: Path) -> None:
    path, link = tmp_path / "s.evprof", tmp_path / "link.evprof"
    with SessionWriter(RecordLog(), path):
        link.symlink_to(path)
        with pytest.raises(UserError, match="being recorded"):
            SessionWriter(RecordLog(), link)


def test_a_session_with_a_hard_link_is_not_continued(tmp_path: Path) -> None:
    path, link = tmp_path / "s.evprof", tmp_path / "link.evprof"
    with SessionWriter(RecordLog(), path):
        link.hardlink_to(path)
        with pytest.raises(UserError, match=r"one of 2 names .* copy it"):
            SessionWriter(RecordLog(), link)
    before = path.read_bytes()
    with pytest.raises(UserError, match="one of 2 names"):
        SessionWriter(RecordLog(), path)
    assert path.read_bytes() == before


def test_a_program_stopped_while_it_makes_a_session_leaves_no_empty_one(tmp_path, monkeypatch) -> None:
    """As four quick Ctrl-C did."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "check_header", stop)
    with pytest.raises(KeyboardInterrupt):
        SessionWriter(RecordLog(), tmp_path / "s.evprof")
    monkeypatch.undo()
    with SessionWriter(RecordLog(), tmp_path / "s.evprof"):
        pass
