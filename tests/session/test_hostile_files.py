"""Files that are no session, no longer one, or made to do harm: a sentence, never anything else."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from evprof.core.errors import UserError
from evprof.session import chunk
from evprof.session.opening import is_session
from evprof.session.store import SessionFile
from evprof.session.tables import APPLICATION_ID, FORMAT
from sealed import seal
from whole_session import load_session, read_session


def refused(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        read_session(path)
    sentence = caught.value.sentence
    assert str(path) in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert caught.value.exit_code == 1
    return sentence


@pytest.fixture
def changed(write_session) -> Callable[..., Path]:
    """A session after some SQL."""

    def change(*statements: str, values: tuple = ()) -> Path:
        path = write_session()
        with closing(sqlite3.connect(path)) as connection:
            for statement in statements:
                connection.execute(statement, values)
            connection.commit()
        # Whoever makes such a file makes its checksums, too; where a table is gone there are none to make.
        with suppress(sqlite3.Error):
            seal(path)
        return path

    return change


def test_missing_folders_pipes_and_other_files(tmp_path):
    assert "does not exist" in refused(tmp_path / "none.evprof")
    assert "is not a file" in refused(tmp_path)
    os.mkfifo(tmp_path / "pipe.evprof")
    assert "is not a file" in refused(tmp_path / "pipe.evprof")
    for name, content in {"empty": b"", "short": b"SQLite format 3\0", "text": b"hello\n" * 100}.items():
        path = tmp_path / name
        path.write_bytes(content)
        assert "no evprof session" in refused(path)
        assert not is_session(path)


def test_another_programs_database_is_foreign(tmp_path):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE runs (run_id INTEGER)")
        connection.commit()
    assert "no evprof session" in refused(path)


def test_a_newer_format_asks_for_an_update(changed):
    assert f"format {FORMAT + 1}" in refused(changed(f"PRAGMA user_version = {FORMAT + 1}"))


def test_an_impossible_format_is_damage(changed):
    assert "impossible format" in refused(changed("PRAGMA user_version = 0"))


def is_told(path: Path) -> bool:
    """Whether damage is told: the file is refused, or a run of it is."""
    try:
        read_session(path)
    except UserError:
        return True
    return False


def test_every_truncation_is_told(write_session, tmp_path):
    whole = write_session().read_bytes()
    path = tmp_path / "cut.evprof"
    for length in [*range(0, 200, 20), *range(200, len(whole), 1024), len(whole) - 1]:
        path.write_bytes(whole[:length])
        assert is_told(path)


def content_of(path: Path) -> tuple[str, set[tuple[Any, ...]]]:
    """All that a session says, as text, and its rows."""
    session = load_session(path)
    rows = {(name, *row) for name, stream in session.recording.streams.items() for row in stream.rows()}
    return repr((session.facts, session.environment, session.recording.messages())), rows


@pytest.mark.parametrize("flips", [1, 8, 200])
def test_damage_anywhere_is_told_or_changes_nothing(two_runs, tmp_path, flips):
    """Before there were checksums, 13 of 400 flipped bits read as other numbers without a word."""
    original = two_runs
    whole, before = original.read_bytes(), content_of(original)
    dice, path, told = random.Random(5), tmp_path / "hit.evprof", 0
    for _ in range(120):
        content = bytearray(whole)
        for _ in range(flips):
            content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        path.write_bytes(content)
        if is_told(path):
            told += 1
        else:
            said, rows = content_of(path)
            # A chunk whose run number is damaged is found for no run.
            assert said == before[0]
            assert rows <= before[1]
    assert told > 20


@pytest.mark.parametrize("bit", [0x01, 0x80])
def test_damaged_facts_of_a_run_cost_that_run_alone(two_runs, bit):
    """The top bit of a letter leaves no UTF-8."""
    content = bytearray(two_runs.read_bytes())
    content[content.index(b'"started_at"', content.index(b'"run_id": 2'))] ^= bit
    two_runs.write_bytes(content)
    session = load_session(two_runs, takes_damage=True)
    assert [run.info.status for run in session.runs.values()] == ["finished", "failed"]
    assert session.runs[2].info.error == "The facts of this run are damaged in the file."


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("CREATE TRIGGER hook AFTER UPDATE ON session BEGIN DELETE FROM runs; END", "trigger hook"),
        ("CREATE VIEW endless AS SELECT 1", "view endless"),
        ("CREATE INDEX costly ON runs(length(info))", "index costly"),
        ("ALTER TABLE runs ADD COLUMN big BLOB AS (zeroblob(100000000))", "column big"),
    ],
)
def test_a_session_whose_schema_computes_is_read_and_not_continued(two_runs, statement, part):
    with closing(sqlite3.connect(two_runs)) as connection, connection:
        connection.execute(statement)
    before = two_runs.read_bytes()
    with pytest.raises(UserError, match=rf"\({part}\).*; record into a new file"):
        SessionFile(two_runs)
    assert two_runs.read_bytes() == before
    assert len(load_session(two_runs).runs) == 2


def test_a_damaged_chunk_fails_its_run_and_the_rest_is_read(two_runs):
    with closing(sqlite3.connect(two_runs)) as connection, connection:
        connection.execute("UPDATE chunks SET content = x'00' WHERE stream = 'tokens' AND first_run = 1")
    session = load_session(two_runs, takes_damage=True)
    first, second = (run.info for run in session.runs.values())
    assert first.status == "failed"
    assert "Its rows are damaged in the file and left out" in first.error
    assert (second.status, second.warnings) == ("finished", [])
    assert {row.run_id for row in session.recording.streams["spans"].rows()} == {2}


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM chunks WHERE chunk_id = 2",
        "DELETE FROM tensors WHERE tensor_id = 1",
        "DELETE FROM runs WHERE run_id = 2",
        "DELETE FROM session WHERE key = 'environment'",
        "DELETE FROM session WHERE key = 'tally'",
        "UPDATE session SET value = '{}' WHERE key = 'tally'",
    ],
)
def test_rows_that_are_gone_are_missed(two_runs, statement):
    path = two_runs
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    refused(path)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE chunks",
        "UPDATE runs SET info = '{'",
        "UPDATE runs SET info = '[]'",
        "UPDATE runs SET info = 'null'",
        "UPDATE runs SET info = CAST(x'ff' AS TEXT)",
        "UPDATE runs SET info = 5",
        "UPDATE runs SET run_id = 9",
        "UPDATE runs SET info = json_set(info, '$.role', 'judge')",
        "UPDATE runs SET info = json_set(info, '$.status', json('[1]'))",
        "UPDATE runs SET info = json_set(info, '$.models', json('[1]'))",
        "UPDATE runs SET info = json_set(info, '$.models.draft.layers', 'eight')",
        "UPDATE runs SET info = json_set(info, '$.start_ns', 1e300)",
        "UPDATE runs SET info = json_remove(info, '$.group_id')",
        "UPDATE runs SET info = json_remove(info, '$.kv.draft.measured_bytes')",
        "UPDATE session SET value = 'x' WHERE key = 'environment'",
        "UPDATE tensors SET shape = '1,2,x'",
        "UPDATE tensors SET nbytes = 'many'",
        "UPDATE tensors SET name = x'00'",
        "UPDATE chunks SET stream = 'secrets'",
        "UPDATE chunks SET stream = 'tensors'",
        "UPDATE chunks SET stream = 'kv' WHERE stream = 'tokens'",
        "UPDATE chunks SET row_count = row_count + 1",
        "UPDATE chunks SET row_count = 1e15",
        "UPDATE chunks SET row_count = 0",
        "UPDATE chunks SET content = x''",
        "UPDATE chunks SET content = 'text'",
    ],
)
def test_content_that_evprof_would_not_write(changed, statement):
    refused(changed(statement))


def test_a_sample_of_no_name_but_a_list_is_told_as_text(changed):
    path = changed("UPDATE runs SET info = json_set(info, '$.sample.name', json('[1]'))")
    messages = read_session(path).cursor().read().messages
    assert {message.info.sample.name for message in messages if hasattr(message, "info")} == {"[1]"}


def test_a_view_in_place_of_a_table_is_not_asked(changed):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, 'kv', 1, 1, 1, 'x' FROM n"
    path = changed("DROP TABLE chunks", f"CREATE VIEW chunks(a, stream, row_count, b, c, content) AS {endless}")
    assert "no table 'chunks'" in refused(path)


def test_deep_json_is_no_stack_overflow(changed):
    assert "no JSON" in refused(changed("UPDATE runs SET info = ?", values=("[" * 200_000,)))


def test_a_bomb_of_many_small_chunks_takes_bounded_memory(write_session):
    """Rows of one value each pack to almost nothing: 2,000 chunks of 65,536 rows would be 4 GB."""
    path = write_session()
    body = b"".join(chunk._HEAD.pack(0, 1) for _ in range(4))
    blob = bytes([chunk.ZLIB]) + zlib.compress(body)
    with closing(sqlite3.connect(path)) as connection:
        connection.executemany(
            "INSERT INTO chunks (stream, row_count, content, first_run, last_run, checksum) "
            "VALUES ('memory', ?, ?, 1, 1, 0)",
            [(chunk.MAX_ROWS, blob)] * 2_000,
        )
        connection.commit()
    seal(path)
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "from pathlib import Path\n"
        "from evprof.session.opened import open_session\n"
        "run = open_session(Path(sys.argv[1])).runs[1]\n"
        "print(run.memory, run.info.warnings)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=300, check=True)
    assert "unpack to more than" in done.stdout


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE runs",
        "UPDATE runs SET status = 'running', info = '{'",
        "UPDATE runs SET status = 'running', info = '{}'",
    ],
)
def test_a_damaged_session_is_not_continued(changed, statement):
    path = changed(statement)
    before = path.read_bytes()
    with pytest.raises(UserError, match="cannot be written"):
        SessionFile(path)
    assert path.read_bytes() == before


def test_newer_writers_may_say_more(changed):
    path = changed(
        "UPDATE runs SET info = json_set(info, '$.mood', 'good', '$.models.draft.colour', 'red')",
        "INSERT INTO session VALUES ('weather', '\"fair\"', 0)",
        "CREATE TABLE extra (a)",
    )
    assert read_session(path).row_count > 0


def test_the_mark_is_where_file_and_others_look_for_it(write_session):
    header = write_session().read_bytes()[:100]
    assert header[68:72] == b"EVPF" == APPLICATION_ID.to_bytes(4, "big")
    assert int.from_bytes(header[60:64], "big") == FORMAT
