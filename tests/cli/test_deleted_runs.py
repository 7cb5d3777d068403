"""What commands say of sessions whose runs were deleted in the window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evprof.core.messages import RunDescribed
from evprof.run.session_writer import SessionWriter
from evprof.session.reading import load_session


def delete(path: Path, *run_ids: int) -> None:
    """As the window does with a session that it opened."""
    recording = load_session(path).recording
    writer = SessionWriter(recording, path, waits_for_run=True, skips_existing=True)
    for run_id in run_ids:
        recording.post(RunDescribed(run_id, {"is_deleted": True}))
    writer.close()


def test_a_deleted_run_is_said_to_be_deleted(evprof: Any, session: Path, tmp_path: Path) -> None:
    delete(session, 2)
    found = evprof("show", session, "--runs", "2")
    assert (found.code, found.errors) == (2, "evprof: --runs: run 2 was deleted.\n")
    assert evprof("show", session, "--runs", "2,3").output.startswith("run 3 ")


def test_merging_keeps_deleted_runs_and_says_so(evprof: Any, session: Path, tmp_path: Path) -> None:
    delete(session, 1, 3)
    merged = evprof("session", "merge", session, "-o", tmp_path / "merged.evprof")
    assert f"{session}: 3 runs (2 of them deleted), now 1 to 3" in merged.output
    told = evprof("session", "merge", session, "-o", tmp_path / "again.evprof", "--json").document
    assert told["sources"][0]["deleted"] == 2
