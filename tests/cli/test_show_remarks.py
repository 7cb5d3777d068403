"""What somebody said of a run in the window, on the command line."""

from __future__ import annotations

from typing import Any

from evprof.core.messages import RunDescribed
from evprof.run.session_writer import SessionWriter
from evprof.session.reading import load_session


def test_show_tells_names_and_notes_and_no_deleted_run(evprof: Any, session: Any, tmp_path: Any) -> None:
    path = tmp_path / "remarked.evprof"
    path.write_bytes(session.read_bytes())
    recording = load_session(path).recording
    writer = SessionWriter(recording, path, waits_for_run=True, skips_existing=True)
    recording.post(RunDescribed(1, {"name": "night drive", "note": "three frames\nof rain\u202e"}))
    recording.post(RunDescribed(2, {"is_deleted": True}))
    writer.close()
    before, after = evprof("show", session), evprof("show", path)
    assert "run 1 “night drive” · " in after.output
    assert "  note: three frames\n        of rain⟨U+202E⟩" in after.output
    assert "run 2 · " in before.output
    assert "run 2 · " not in after.output
    runs = evprof("show", path, "--json").document["runs"]
    assert (runs[0]["run_id"], runs[0]["name"]) == (1, "night drive")
    assert 2 not in [run["run_id"] for run in runs]
