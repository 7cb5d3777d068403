"""What is told of a session without reading it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evprof.core.protocols import RunDescribed
from evprof.core.recording import RecordLog
from evprof.core.run_book import RunBook
from evprof.run.session_writer import SessionWriter
from evprof.session.opened import SessionSummary, read_summary
from whole_session import load_session


def test_a_summary_tells_runs_models_modes_and_samples(two_runs: Path, tmp_path: Path) -> None:
    before = two_runs.read_bytes()
    found = read_summary(two_runs)
    session = load_session(two_runs)
    book = RunBook(session.recording)
    book.update()
    infos = [run.info for run in book.runs.values()]
    assert found is not None
    assert found.run_count == 2
    assert set(found.models) == {model.name for info in infos for model in info.models.values()}
    assert set(found.modes) == {info.mode for info in infos}
    assert set(found.samples) == {info.sample.name for info in infos if info.sample.name}
    assert two_runs.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [two_runs.name], "nothing is left beside it"


def test_deleted_runs_are_not_counted(tmp_path: Path, recording: RecordLog) -> None:
    recording.post(RunDescribed(1, {"is_deleted": True}))
    path = tmp_path / "s.evprof"
    SessionWriter(recording, path).close()
    assert read_summary(path) == SessionSummary(0, (), (), ())


@pytest.mark.parametrize("content", [b"", b"no session" * 40, b"SQLite format 3\x00" + bytes(200)])
def test_what_is_no_session_has_no_summary(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.evprof"
    path.write_bytes(content)
    assert read_summary(path) is None
    assert read_summary(tmp_path / "missing.evprof") is None
