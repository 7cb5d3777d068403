"""Autosaved sessions: those of killed programs are kept and told, closed ones do not fill the disk."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from evprof.core.recording import RecordLog
from evprof.run.session_writer import SessionWriter
from evprof.session.autosave import abandoned, autosave_folder, clear_away, take_up, told
from whole_session import read_session

DAY_S = 86_400.0


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes an autosaved session, so many days old; as a killed program leaves it when `is_killed`."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    autosave_folder().mkdir(parents=True)

    def make(name: str, days: float = 0.0, *, is_killed: bool = False) -> Path:
        path = autosave_folder() / f"{name}.evprof"
        with SessionWriter(RecordLog(), path):
            pass
        if is_killed:
            path.with_name(path.name + "-lock").touch()
        then = time.time() - days * DAY_S
        os.utime(path, (then, then))
        return path

    return make


def test_sessions_of_killed_programs_are_told_until_they_are_taken_up(make):
    make("closed")
    killed, older = make("killed", is_killed=True), make("older", 3, is_killed=True)
    assert [one.path for one in abandoned()] == [killed, older]
    assert "closed unexpectedly 2 times" in told(abandoned())
    take_up(older)
    assert str(killed) in told(abandoned())
    assert read_session(older).row_count == 0


def test_one_that_is_being_written_is_neither_told_nor_removed(make):
    path = make("live", 400)
    with SessionWriter(RecordLog(), path):
        os.utime(path, (0, 0))
        assert abandoned() == []
        assert clear_away() == []
    assert path.exists()


def test_old_closed_sessions_are_cleared_away_and_abandoned_ones_never(make):
    old, killed, recent = make("old", 91), make("killed", 400, is_killed=True), make("recent", 89)
    assert [one.path for one in clear_away()] == [old]
    assert not old.exists()
    assert killed.exists()
    assert recent.exists()
