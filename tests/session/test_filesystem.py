"""Which file systems are network ones, and what a session does about it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from evprof.core.protocols import RunEnded, RunStarted, RunWarned
from evprof.core.recording import RecordLog
from evprof.core.run_info import RunInfo
from evprof.run.session_writer import SessionWriter
from evprof.session import store
from evprof.session.presence import network_kind
from whole_session import read_session

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
proc /proc proc rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/me/scratch\\040disk xfs rw 0 0
//nas/share /mnt/share cifs rw 0 0
odd line
host:/data /data fuse.sshfs rw 0 0
tmpfs /data tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/tmp/s.evprof", None),
        ("/home/me/s.evprof", "nfs4"),
        ("/homes/s.evprof", None),
        ("/home/me/scratch disk/s.evprof", None),
        ("/mnt/share/deep/er/s.evprof", "cifs"),
        ("/data/s.evprof", None),
    ],
)
def test_the_nearest_mount_decides(path, kind):
    assert network_kind(Path(path), MOUNTS) == kind


def test_on_a_network_file_system_there_is_no_log_and_the_run_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "network_kind", lambda path: "nfs4")
    path, recording = tmp_path / "s.evprof", RecordLog()
    with SessionWriter(recording, path) as writer:
        recording.post(RunStarted(1, RunInfo(1, 1, 0, "draft", "draft")))
        recording.extend("kv", [(1, "draft", 1, 2, 3)])
        writer.flush()
        names = {entry.name for entry in tmp_path.iterdir()}
        assert "s.evprof-wal" not in names
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)  # no WAL mark in the file
        assert read_session(path).row_count == 1
        recording.post(RunEnded(1, "finished"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.evprof"]
    warnings = [message for message in recording.messages() if isinstance(message, RunWarned)]
    assert len(warnings) == 1
    assert "network file system (nfs4)" in warnings[0].sentence
    [started] = read_session(path).messages()
    assert started.info.warnings == [warnings[0].sentence]


def test_a_writer_killed_after_the_header_of_its_log_leaves_a_readable_session(tmp_path):
    path, left = tmp_path / "s.evprof", tmp_path / "left.evprof"
    recording = RecordLog()
    with SessionWriter(recording, path):
        recording.post(RunStarted(1, RunInfo(1, 1, 0, "draft", "draft")))
        recording.post(RunEnded(1, "finished"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        shutil.copyfile(path, left)
        connection.execute("CREATE TABLE later (x)")
        shutil.copyfile(f"{path}-shm", f"{left}-shm")
        Path(f"{left}-wal").write_bytes(Path(f"{path}-wal").read_bytes()[:32])
    assert len(read_session(left).messages()) == 1
