"""The writing thread: live commits, refusing disks, names given later, and processes killed in mid-run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from benchmarks.processes import run_argv
from driven_command import saved_tokens
from evprof.core.errors import UserError
from evprof.core.protocols import EngineChanged, RequestEnded, RunEnded, RunStarted, RunWarned
from evprof.core.recording import RecordLog
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunBook
from evprof.run import session_writer
from evprof.run.processes.engine_host import EngineHost
from evprof.run.session_writer import SessionWriter
from evprof.session.autosave import autosave_folder
from evprof.session.opened import open_session
from whole_session import load_session, read_session


def begin(recording: RecordLog, run_id: int = 1) -> None:
    recording.post(RunStarted(run_id, RunInfo(run_id, run_id, 0, "draft", "draft")))


def add(recording: RecordLog, first: int, count: int, run_id: int = 1) -> None:
    recording.extend("kv", [(run_id, "draft", serial, serial, serial) for serial in range(first, first + count)])


def write(path: Path, count: int = 0, run_id: int = 1) -> None:
    """A session of one finished run, closed."""
    recording = RecordLog()
    with SessionWriter(recording, path):
        begin(recording, run_id)
        add(recording, 0, count, run_id)
        recording.post(RunEnded(run_id, "finished"))


def lengths(path: Path) -> list[int]:
    return read_session(path).streams["kv"].column("length").tolist()


def test_a_live_session_can_be_read_and_its_run_is_running(tmp_path):
    recording, path = RecordLog(), tmp_path / "s.evprof"
    with SessionWriter(recording, path) as writer:
        begin(recording)
        for step in range(5):
            add(recording, step * 100, 100)
            assert writer.flush()
            before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir() if entry.suffix != ".evprof-shm"}
            assert lengths(path) == list(range((step + 1) * 100))
            assert before == {
                entry.name: entry.read_bytes() for entry in tmp_path.iterdir() if entry.suffix != ".evprof-shm"
            }
            [started] = read_session(path).messages()
            assert started.info.status == "running"
        recording.post(RunEnded(1, "finished"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.evprof"]
    assert read_session(path).messages()[0].info.status == "finished"


def test_an_unnamed_session_is_made_with_its_first_run(tmp_path):
    recording, path = RecordLog(), tmp_path / "new" / "folder" / "auto.evprof"
    with SessionWriter(recording, path, waits_for_run=True) as writer:
        recording.post(EngineChanged("ready", "", 5, {"device": "cpu"}))
        writer.flush()
        assert not path.parent.exists()
        begin(recording)
        writer.flush()
        assert path.exists()
        assert (writer.next_run_id, writer.next_group_id) == (2, 2)
    assert load_session(path).environment == {"device": "cpu"}


def test_saving_an_unnamed_session_moves_it_and_recording_goes_on_there(tmp_path):
    recording, auto, named = RecordLog(), tmp_path / "auto.evprof", tmp_path / "named.evprof"
    with SessionWriter(recording, auto, waits_for_run=True) as writer:
        begin(recording)
        add(recording, 0, 5)
        assert writer.save_as(named).result(10) == named
        assert not auto.exists()
        add(recording, 5, 5)
        recording.post(RunEnded(1, "finished"))
        assert writer.path == named
    assert lengths(named) == list(range(10))
    assert [entry.name for entry in tmp_path.iterdir()] == ["named.evprof"]


def test_saving_over_something_needs_consent_and_into_nowhere_fails_where_it_was(tmp_path):
    recording, auto, taken = RecordLog(), tmp_path / "auto.evprof", tmp_path / "taken.txt"
    taken.write_text("precious")
    with SessionWriter(recording, auto, waits_for_run=True) as writer:
        begin(recording)
        with pytest.raises(UserError, match="exists already"):
            writer.save_as(taken).result(10)
        with pytest.raises(UserError, match="does not exist"):
            writer.save_as(tmp_path / "no" / "s.evprof").result(10)
        assert taken.read_text() == "precious"
        add(recording, 0, 3)
        writer.flush()
        assert lengths(auto) == [0, 1, 2]
        writer.save_as(taken, overwrites=True).result(10)
    assert lengths(taken) == [0, 1, 2]


@pytest.mark.parametrize("runs_before_saving", [0, 1])
def test_a_session_opened_by_its_name_is_copied_whole_and_stays(tmp_path, runs_before_saving):
    """As the window does: it reads, waits for a run before it touches the file, and is told another name."""
    first, second = tmp_path / "first.evprof", tmp_path / "second.evprof"
    recording = RecordLog()
    with SessionWriter(recording, first):
        recording.post(EngineChanged("ready", "", 5, {"device": "cpu"}))
        begin(recording)
        add(recording, 0, 5)
        recording.post(RunEnded(1, "finished", facts={"text": "one"}))
    recording = read_session(first)
    with SessionWriter(recording, first, waits_for_run=True, skips_existing=True) as writer:
        for run_id in range(2, 2 + runs_before_saving):
            begin(recording, run_id)
            add(recording, 5, 5, run_id)
        writer.flush()
        writer.save_as(second).result(10)
        assert sorted(entry.name for entry in tmp_path.iterdir() if entry.suffix == ".evprof") == [
            first.name,
            second.name,
        ]
        begin(recording, 7)
        add(recording, 20, 5, 7)
    assert lengths(first) == list(range(5 + 5 * runs_before_saving))
    assert lengths(second) == [*range(5 + 5 * runs_before_saving), *range(20, 25)]
    assert load_session(second).environment == {"device": "cpu"}
    messages = read_session(second).messages()
    assert messages[0].info.text == "one"
    assert messages[-1].run_id == 7


def set_page_limit(writer: SessionWriter, pages: int) -> None:
    writer._target.file._connection.execute(f"PRAGMA max_page_count = {pages}")


FRAME = (1, "draft", 0, 0, 0, "", os.urandom(256_000))


def test_on_a_full_disk_the_session_goes_on_among_the_autosaved(tmp_path):
    recording, path = RecordLog(), tmp_path / "s.evprof"
    writer = SessionWriter(recording, path)
    begin(recording)
    writer.note("suite", {"name": "kept"})
    writer.flush()
    set_page_limit(writer, 1)
    recording.extend("frames", [FRAME])
    for first in (0, 50):
        add(recording, first, 50)
        writer.flush()
    assert "full" in writer.problem
    [warning] = [message for message in recording.messages() if isinstance(message, RunWarned)]
    rescued = writer.rescue_path
    assert str(path) in warning.sentence
    assert str(rescued) in warning.sentence
    assert lengths(rescued) == list(range(100))
    with pytest.raises(UserError, match=re.escape(str(rescued))):
        writer.close()
    assert lengths(path) == []
    session = load_session(rescued)
    assert session.facts == {"suite": {"name": "kept"}}
    assert session.recording.row_count == 101
    assert session.runs[1].info.warnings == [warning.sentence]


def test_a_disk_that_is_full_everywhere_keeps_all_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(session_writer, "autosave_path", lambda: tmp_path / "file" / "s.evprof")
    (tmp_path / "file").write_text("no folder")
    recording, path = RecordLog(), tmp_path / "s.evprof"
    with SessionWriter(recording, path) as writer:
        begin(recording)
        writer.flush()
        set_page_limit(writer, 1)
        recording.extend("frames", [FRAME])
        writer.flush()
        assert "stays in memory" in writer.problem
        set_page_limit(writer, 1 << 30)
    assert read_session(path).row_count == 1


def vanish(path: Path) -> None:
    path.unlink()


def vanish_with_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def be_replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"precious")
    other.replace(path)


@pytest.mark.parametrize("happens", [vanish, vanish_with_folder, be_replaced])
def test_a_session_that_is_gone_goes_on_among_the_autosaved_with_all_that_it_held(tmp_path, happens):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "s.evprof"
    write(path, 3)
    recording = RecordLog()
    writer = SessionWriter(recording, path)
    begin(recording, 2)
    add(recording, 3, 3, 2)
    writer.flush()
    happens(path)
    add(recording, 6, 3, 2)
    writer.flush()
    [warning] = [message for message in recording.messages() if isinstance(message, RunWarned)]
    assert "while it was being recorded" in warning.sentence
    recording.post(RunEnded(2, "finished"))
    rescued = writer.rescue_path
    with pytest.raises(UserError, match=re.escape(str(rescued))):
        writer.close()
    # The run of an earlier program, too, which this one never held.
    assert lengths(rescued) == list(range(9))
    assert [message.info.status for message in read_session(rescued).messages()] == ["finished"] * 2
    if path.exists():
        assert path.read_bytes() == b"precious"


def test_one_writer_at_a_time_whatever_the_clock_says(tmp_path, monkeypatch):
    """The second one is told; a wall clock that jumps makes nobody look dead."""
    path = tmp_path / "s.evprof"
    with SessionWriter(RecordLog(), path):
        now = time.time
        for step in (-3600, 5, 1e9):
            monkeypatch.setattr(time, "time", lambda step=step: now() + step)
            with pytest.raises(UserError, match="being recorded by another evprof"):
                SessionWriter(RecordLog(), path)
    with SessionWriter(RecordLog(), path):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.evprof"]


def test_two_writers_that_no_lock_keeps_apart_lose_nothing(tmp_path):
    """A removed lock file, or a file system without locks."""
    path, recordings = tmp_path / "s.evprof", [RecordLog(), RecordLog()]
    write(path, 3)
    first = SessionWriter(recordings[0], path)
    begin(recordings[0], 2)
    add(recordings[0], 3, 3, 2)
    first.flush()
    (tmp_path / "s.evprof-lock").unlink()
    with SessionWriter(recordings[1], path) as second:
        begin(recordings[1], second.next_run_id)
        add(recordings[1], 6, 3, 3)
        second.flush()
        add(recordings[0], 9, 3, 2)
        recordings[0].post(RunEnded(2, "finished"))
        with pytest.raises(UserError, match=r"recorded by another program, too\. What is recorded goes to"):
            first.close()
        recordings[1].post(RunEnded(3, "finished"))
    assert [run.info.status for run in open_session(path).runs.values()] == ["finished", "failed", "finished"]
    assert lengths(path) == list(range(9))
    assert lengths(first.rescue_path) == [3, 4, 5, 9, 10, 11]


def test_a_writer_that_waits_for_its_run_holds_its_name_once_it_is_claimed(tmp_path):
    path = tmp_path / "s.evprof"
    with SessionWriter(RecordLog(), path, waits_for_run=True) as writer:
        writer.claim()
        with pytest.raises(UserError, match="being recorded by another evprof"):
            SessionWriter(RecordLog(), path)
    assert list(tmp_path.iterdir()) == []


def test_numbers_are_those_of_the_file_once_it_is_claimed(tmp_path):
    """As two windows do that opened one session: the second to run finds the runs of the first."""
    path, recording = tmp_path / "s.evprof", RecordLog()
    with SessionWriter(RecordLog(), path) as writer:
        begin(writer._recording)
    with SessionWriter(recording, path, waits_for_run=True) as second:
        with SessionWriter(RecordLog(), path) as first:
            begin(first._recording, first.next_run_id)
        second.claim()
        assert (second.next_run_id, second.next_group_id) == (3, 3)
        begin(recording, second.next_run_id)
    assert [message.run_id for message in read_session(path).messages()] == [1, 2, 3]


def test_a_run_whose_number_is_taken_replaces_nothing(tmp_path):
    path, recording = tmp_path / "s.evprof", RecordLog()
    write(path, 5)
    writer = SessionWriter(recording, path)
    begin(recording, 1)
    add(recording, 5, 5)
    with pytest.raises(UserError) as caught:
        writer.close()
    assert read_session(path).messages()[0].info.status == "finished"
    assert lengths(path) == list(range(5))
    [rescued] = autosave_folder().iterdir()
    assert str(rescued) in caught.value.sentence
    assert lengths(rescued) == list(range(5, 10))


_PROGRAM = """
import json, sys, time
from pathlib import Path
from evprof.core.recording import RecordLog
from evprof.core.request import ModelChoice, RunRequest
from evprof.core.sample import Sample
from evprof.run.processes.engine_host import EngineHost
from evprof.run.session_writer import SessionWriter
recording = RecordLog()
writer = SessionWriter(recording, Path(sys.argv[1]))
host = EngineHost(sys.argv[2:], recording)
host.submit(RunRequest("target", Sample(video_path="absent.mp4"), None, ModelChoice("m")))
while host.pid is None:
    time.sleep(0.01)
print(host.pid, flush=True)
time.sleep(3600)
"""


def test_a_killed_program_loses_nothing_that_was_committed_and_leaves_no_orphan(tmp_path, wait_until):
    path = tmp_path / "s.evprof"
    argv = [sys.executable, "-c", _PROGRAM, str(path), *run_argv("_engine", "4000", "3600")]
    program = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    engine_pid = int(program.stdout.readline())
    wait_until(lambda: saved_tokens(path) > 1500)
    before_the_end = saved_tokens(path)
    program.kill()
    program.wait()
    program.stdout.close()
    wait_until(lambda: not psutil.pid_exists(engine_pid) or psutil.Process(engine_pid).status() == "zombie")

    assert (tmp_path / "s.evprof-wal").stat().st_size > 0
    before = {entry.name: (entry.read_bytes(), entry.stat().st_mtime_ns) for entry in tmp_path.iterdir()}
    session = load_session(path)
    assert {entry.name: (entry.read_bytes(), entry.stat().st_mtime_ns) for entry in tmp_path.iterdir()} == before

    book = RunBook(session.recording)
    book.update()
    run = book.runs[1]
    assert (run.info.status, run.info.error) == ("failed", "evprof stopped during this run.")
    assert [token.position for token in run.tokens] == list(range(len(run.tokens)))
    assert len(run.tokens) >= before_the_end > 1500

    count = len(run.tokens)
    with SessionWriter(RecordLog(), path) as writer:
        assert writer.next_run_id == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.evprof"]
    again = RunBook(read_session(path))
    again.update()
    assert len(again.runs[1].tokens) == count
    assert again.runs[1].info.status == "failed"


@pytest.fixture
def recorded_host(start_host, tmp_path) -> Callable[[str], tuple[EngineHost, RecordLog, SessionWriter]]:
    def start(words: str):
        host, recording = start_host(words)
        return host, recording, SessionWriter(recording, tmp_path / "s.evprof")

    return start


def test_ten_thousand_records_a_second_through_pipe_recording_and_file(recorded_host, request_for, wait_until):
    host, recording, writer = recorded_host("rate:10000:3")
    host.submit(request_for())
    wait_until(lambda: any(isinstance(message, RequestEnded) for message in recording.messages()))
    writer.close()
    again = read_session(writer.path)
    for name, stream in recording.streams.items():
        assert again.streams[name].rows() == stream.rows(), name
    assert len(again.streams["tokens"]) == 7500
    # 30,000 records: less than 12 bytes each on disk, with the summary that holds the ids of 7,500 tokens once more.
    assert writer.path.stat().st_size < 360_000


def test_facts_of_a_session_are_kept_and_replaced(tmp_path):
    recording = RecordLog()
    path = tmp_path / "s.evprof"
    with SessionWriter(recording, path) as writer:
        begin(recording)
        writer.note("suite", {"name": "stages"})
        assert writer.flush()
        writer.note("suite", {"name": "shapes"})
        writer.note("views", {})
    session = load_session(path)
    assert session.facts == {"suite": {"name": "shapes"}, "views": {}}
    assert session.created_at


def stored_session(path: Path) -> RecordLog:
    """A session of one run that was opened as the window opens it: its rows are read when somebody asks."""
    write(path, 5)
    return open_session(path).recording


def test_a_session_that_moved_since_it_was_opened_is_not_begun_anew(tmp_path):
    opened, moved = tmp_path / "s.evprof", tmp_path / "moved.evprof"
    recording = stored_session(opened)
    opened.rename(moved)
    writer = SessionWriter(recording, opened, waits_for_run=True, skips_existing=True)
    with pytest.raises(UserError, match=r"s\.evprof was moved, or deleted"):
        writer.save_as(tmp_path / "copy.evprof").result(10)
    begin(recording, 2)
    add(recording, 5, 5, 2)
    writer.flush()
    rescued = writer.rescue_path
    with pytest.raises(UserError, match=re.escape(str(rescued))):
        writer.close()
    assert lengths(rescued) == list(range(5, 10))
    assert [entry.name for entry in tmp_path.iterdir() if entry.suffix == ".evprof"] == ["moved.evprof"]


def test_a_session_that_moved_while_it_is_written_can_be_saved(tmp_path):
    opened, moved, copy = (tmp_path / f"{name}.evprof" for name in ("s", "moved", "copy"))
    recording = stored_session(opened)
    with SessionWriter(recording, opened, waits_for_run=True, skips_existing=True) as writer:
        begin(recording, 2)
        add(recording, 5, 5, 2)
        writer.flush()
        opened.rename(moved)
        writer.save_as(copy).result(10)
        begin(recording, 3)
        add(recording, 10, 5, 3)
    assert lengths(copy) == list(range(15))
