"""The chain from older formats, and the golden files that hold each format to what it was."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evprof.core.run_log import RunBook
from evprof.session import migrations, reading
from evprof.session.migrations import MIGRATIONS, format_of, migrate
from evprof.session.reading import load_session
from evprof.session.schema import FORMAT

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE facts (text TEXT)")
    connection.execute("PRAGMA user_version = 1")
    yield connection
    connection.close()


def test_there_is_a_step_from_every_older_format():
    assert sorted(MIGRATIONS) == list(range(1, FORMAT))


def test_steps_are_taken_in_order(database):
    steps = {
        number: (lambda c, n=number: c.execute("INSERT INTO facts VALUES (?)", (f"to {n + 1}",))) for number in (1, 2)
    }
    migrate(database, steps, 3)
    assert database.execute("SELECT text FROM facts").fetchall() == [("to 2",), ("to 3",)]
    assert format_of(database) == 3
    migrate(database, steps, 3)
    assert database.execute("SELECT count(*) FROM facts").fetchone() == (2,)


def test_a_step_that_fails_leaves_the_file_as_it_was(database):
    def spoil(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO facts VALUES ('half')")
        connection.execute("INSERT INTO nowhere VALUES (1)")

    with pytest.raises(sqlite3.OperationalError):
        migrate(database, {1: lambda c: c.execute("INSERT INTO facts VALUES ('whole')"), 2: spoil}, 3)
    assert database.execute("SELECT count(*) FROM facts").fetchone() == (0,)
    assert format_of(database) == 1


def test_a_reader_migrates_a_copy_and_leaves_the_file_alone(write_session, monkeypatch):
    """As if format 2 had renamed a key of the session."""
    path = write_session()
    before = path.read_bytes()

    def to_2(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE session SET value = '\"migrated\"' WHERE key = 'created_at'")

    monkeypatch.setattr(reading, "FORMAT", 2)
    monkeypatch.setattr(reading, "migrate", lambda connection: migrations.migrate(connection, {1: to_2}, 2))
    session = load_session(path)
    assert session.created_at == "migrated"
    assert session.recording.row_count > 0
    assert path.read_bytes() == before


def assert_holds(written, read):
    """Every value that was written is read back, however deep."""
    if isinstance(written, dict):
        for name, value in written.items():
            assert_holds(value, read[name])
    else:
        assert read == written


def test_golden_format_1_reads_as_it_always_did():
    """The file was written once and is never written again; see golden/README."""
    path = GOLDEN / "format_1.evprof"
    assert path.stat().st_size < 100_000
    session = load_session(path)
    book = RunBook(session.recording)
    book.update()
    assert {name: len(stream) for name, stream in session.recording.streams.items()} == GOLDEN_1_ROWS
    digest = hashlib.sha256()
    for stream in session.recording.streams.values():
        digest.update(repr([tuple(row) for row in stream.rows()]).encode())
    assert digest.hexdigest() == GOLDEN_1_DIGEST
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        for run_id, text in connection.execute("SELECT run_id, info FROM runs"):
            # Later versions may know more of a run, never less.
            assert_holds(json.loads(text), book.runs[run_id].info.to_json())
    draft, target, speculative = book.runs.values()
    assert draft.info.text == "A car drives towards the camera on a winding road with trees along it."
    assert (target.info.mode, target.info.status) == ("side-by-side", "finished")
    assert sum(round_.accepted for round_ in speculative.rounds) == 28
    assert len(speculative.rejected) == 22
    assert [span.name for span in target.stages()] == ["load", "preprocess", "vision", "prefill", "decode"]
    assert draft.frames["draft"][0].png.startswith(b"\x89PNG")


GOLDEN_1_ROWS = {"spans": 105, "tensors": 16, "tokens": 119, "rounds": 10, "kv": 100, "memory": 11, "frames": 26}
GOLDEN_1_DIGEST = "8c83412c6319dcaebbc8f03de7fec6c46d0085dd721f8747a994a0dddbc7c015"
