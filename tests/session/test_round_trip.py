"""What goes into a session file comes out of it: known content, arbitrary rows, several writers one after another."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.core.protocols import RequestEnded, RunDescribed, RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import STREAMS, column_kinds
from evprof.core.run_info import MemoryFacts, RunInfo, Turn
from evprof.core.run_log import RunBook
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.run.session_writer import SessionWriter
from evprof.session import opening
from evprof.session.validation import RANGES
from run_logs import content
from whole_session import load_session, read_session


def runs_of(recording: RecordLog):
    book = RunBook(recording)
    book.update()
    return book.runs


def contents(recording: RecordLog):
    return {run_id: content(run) for run_id, run in runs_of(recording).items()}


def files_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {entry.name: (entry.read_bytes(), entry.stat().st_mtime_ns) for entry in folder.iterdir()}


def test_the_known_session_comes_back_whole(recording, write_session):
    path = write_session(recording)
    session = load_session(path)
    assert contents(session.recording) == contents(recording)
    for name, stream in recording.streams.items():
        assert session.recording.streams[name].rows() == stream.rows(), name
        assert len(stream) > 0
    assert session.environment["torch"] == "2.13.0"
    assert session.created_at.endswith("+00:00")


def test_a_closed_session_is_exactly_one_file_and_reading_changes_nothing(write_session, tmp_path):
    path = write_session()
    before = files_of(tmp_path)
    assert list(before) == ["s.evprof"]
    os.chmod(tmp_path, 0o500)
    try:
        read_session(path)
        read_session(path)
    finally:
        os.chmod(tmp_path, 0o700)
    assert files_of(tmp_path) == before
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_reader_could_not_write_if_it_wanted_to(write_session):
    with opening.opened(write_session()) as connection, pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM runs")


def test_a_session_with_odd_letters_in_its_path(recording, tmp_path):
    folder = tmp_path / "a b?c#d%20é"
    folder.mkdir()
    with SessionWriter(recording, folder / "sé#1.evprof"):
        pass
    assert read_session(folder / "sé#1.evprof").row_count == recording.row_count


NUMBERS = st.lists(st.integers(-(10**12), 10**12), max_size=4).map(lambda numbers: ",".join(map(str, numbers)))
TEXT = st.text(max_size=8)
# Ordinary rows are SQL text, which has no lone surrogates; chunks have them (see test_chunk).
PLAIN_TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=8)
TREE = {"span_id": (0, (1 << 63) - 1), "parent_id": (-1, -1)}
"""Spans that lie in none: a circle of them is refused."""


def column(stream: str, name: str, kind: str):
    if name == "run_id":
        return st.just(1)
    if name in ("shape", "drafted_ids"):
        return NUMBERS
    if kind == "int":
        # Of what readers count with, as much as anything can measure: see test_hostile_rows for the rest.
        return st.integers(*(TREE | RANGES[stream]).get(name, (-(1 << 63), (1 << 63) - 1)))
    return (PLAIN_TEXT if stream == "tensors" else TEXT) if kind == "str" else st.binary(max_size=30)


ROWS = st.fixed_dictionaries(
    {
        name: st.lists(st.tuples(*(column(name, each, kind) for each, kind in column_kinds(name).items())), max_size=6)
        for name in STREAMS
    }
)


@given(ROWS)
def test_arbitrary_rows_come_back(tmp_path_factory, rows):
    recording = RecordLog()
    recording.post(RunStarted(1, RunInfo(1, 1, 0, "draft", "draft")))
    for name, listed in rows.items():
        recording.extend(name, listed)
    recording.post(RunEnded(1, "finished"))
    path = tmp_path_factory.mktemp("session") / "s.evprof"
    with SessionWriter(recording, path):
        pass
    again = read_session(path)
    for name, stream in recording.streams.items():
        assert again.streams[name].rows() == stream.rows(), name


def test_a_session_that_was_read_and_goes_on_is_not_written_twice(write_session):
    path = write_session()
    recording = read_session(path)
    with SessionWriter(recording, path, skips_existing=True) as writer:
        assert writer.next_run_id == 2
        recording.post(RunStarted(2, RunInfo(2, 2, 0, "target", "target", turn=Turn("series", 3, 1))))
        recording.extend("kv", [(2, "target", 5, 6, 7)])
        recording.post(RunEnded(2, "finished"))
    again = read_session(path)
    assert [run.info.turn for run in runs_of(again).values()] == [None, Turn("series", 3, 1)]
    assert again.row_count == recording.row_count
    assert contents(again) == contents(recording)


@pytest.mark.parametrize("content", [b"", b"notes\n" * 40, b"SQLite format 3\0" + bytes(200)])
def test_any_other_existing_file_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match="no evprof session"):
        SessionWriter(RecordLog(), path)
    assert files_of(tmp_path).keys() == {"notes.txt"}
    assert path.read_bytes() == content


def test_samples_that_are_there_are_known_by_their_content(tmp_path):
    sample = tmp_path / "events.npy"
    sample.write_bytes(b"some events")
    recording = RecordLog()
    info = RunInfo(1, 1, 0, "draft", "draft", sample=Sample(str(sample), prompt="?"))
    recording.post(RunStarted(1, info))
    recording.post(RunEnded(1, "finished"))
    recording.post(RequestEnded(1))
    with SessionWriter(recording, tmp_path / "s.evprof"):
        pass
    sample.unlink()
    known = runs_of(read_session(tmp_path / "s.evprof"))[1].info.sample
    assert known.events_hash == f"sha256:{hashlib.sha256(b'some events').hexdigest()}"


def test_much_at_once_is_cut_into_chunks_a_reader_accepts(tmp_path):
    recording = RecordLog()
    recording.post(RunStarted(1, RunInfo(1, 1, 0, "draft", "draft")))
    recording.extend("kv", [(1, "draft", serial * 100, serial, serial * 4096) for serial in range(100_000)])
    recording.extend("frames", [(1, "draft", serial, 0, 0, "", os.urandom(3 << 20)) for serial in range(4)])
    recording.post(RunEnded(1, "finished"))
    with SessionWriter(recording, tmp_path / "s.evprof"):
        pass
    again = read_session(tmp_path / "s.evprof")
    assert again.streams["kv"].column("length").tolist() == list(range(100_000))
    assert again.streams["frames"].column("png") == recording.streams["frames"].column("png")


def test_a_fact_of_a_wrong_type_costs_that_fact_and_not_the_session(recording, tmp_path):
    much: Any = "much"
    folder: Any = Path("/x")
    recording.post(
        RunDescribed(
            1,
            {
                "memory": MemoryFacts(peak_rss_bytes=much),
                "given": None,
                "settings": GenerationSettings(speculation=SpeculationSettings(adapter=folder)),
            },
        )
    )
    with SessionWriter(recording, tmp_path / "s.evprof"):
        pass
    [run] = runs_of(read_session(tmp_path / "s.evprof")).values()
    assert run.info.text == "A café€ naïve 道路"
    assert run.info.memory == MemoryFacts()
    assert run.info.settings.speculation.adapter == "/x"
    assert run.info.warnings == ["Not saved, because it was not reported as expected: memory."]


@pytest.mark.parametrize(
    ("code", "is_read"), [(sqlite3.SQLITE_PROTOCOL, True), (sqlite3.SQLITE_BUSY, True), (sqlite3.SQLITE_IOERR, False)]
)
def test_locks_of_a_program_that_is_being_killed_are_waited_for(write_session, monkeypatch, code, is_read):
    path = write_session()
    tries: list[Path] = []

    def held(at: Path) -> Any:
        tries.append(at)
        if len(tries) < 3:
            error = sqlite3.OperationalError("held")
            error.sqlite_errorcode = code
            raise error
        return opening.opened(at)

    monkeypatch.setattr("evprof.session.opened.opened", held)
    if is_read:
        assert len(read_session(path).messages()) > 0
    else:
        with pytest.raises(UserError, match="cannot be read: held"):
            read_session(path)
    assert len(tries) >= 3 if is_read else len(tries) == 1
