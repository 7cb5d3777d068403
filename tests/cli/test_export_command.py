"""`evprof export` over sessions, runs and configurations: nothing collides, nothing is half written."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def other(session: Path, tmp_path: Path) -> Path:
    """A second session with the same run numbers."""
    path = tmp_path / "other.evprof"
    shutil.copyfile(session, path)
    return path


def test_runs_of_several_sessions_do_not_collide(evprof: Any, session: Path, other: Path, tmp_path: Path) -> None:
    trace = tmp_path / "both.json.gz"
    assert evprof("export", session, other, "--format", "chrome", "-o", trace).code == 0
    entries = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    names = {entry["pid"]: entry["args"]["name"] for entry in entries if entry["name"] == "process_name"}
    assert sorted(names) == [1, 2, 3, 4, 5, 6]
    assert names[2].startswith(f"{session} · run 2 · side-by-side")
    assert names[5].startswith(f"{other} · run 2 · side-by-side")
    flows = [entry["id"] for entry in entries if entry["ph"] == "s"]
    assert len(flows) == len(set(flows)) > 0

    assert evprof("export", session, other, "--format", "csv", "-o", tmp_path / "tables").code == 0
    for name in ("runs", "stages", "tokens"):
        rows = rows_of(tmp_path / "tables" / f"{name}.csv")
        half = len(rows) // 2
        assert {row["session"] for row in rows[:half]} == {str(session)}
        assert {row["session"] for row in rows[half:]} == {str(other)}
        assert [row["run_id"] for row in rows[:half]] == [row["run_id"] for row in rows[half:]]

    assert evprof("export", session, other, "--format", "json", "-o", tmp_path / "both.json").code == 0
    document = json.loads((tmp_path / "both.json").read_text(encoding="utf-8"))
    assert [(run["session"], run["run_id"]) for run in document["runs"]] == [
        (str(path), number) for path in (session, other) for number in (1, 2, 3)
    ]
    assert [entry["session"] for entry in document["sessions"]] == [str(session), str(other)]
    assert document["sessions"][0]["environment"] == document["environment"]


def test_one_session_is_the_document_of_show(evprof: Any, session: Path, tmp_path: Path) -> None:
    # Named twice it is still one.
    assert evprof("export", session, session, "--format", "json", "-o", tmp_path / "one.json").code == 0
    exported = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))
    shown = evprof("show", session, "--json").document
    assert exported == shown
    assert list(exported) == list(shown)


def test_chosen_configurations_alone(evprof: Any, session: Path, tmp_path: Path) -> None:
    from evprof.cli.run.recorded_session import read_runs
    from evprof.session.store import Commit, SessionFile

    infos = [run.info for run in read_runs(str(session))]
    for info, cell in zip(infos, ("frames=1", "frames=8", "frames=8"), strict=True):
        info.cell = cell
    store = SessionFile(session)
    store.commit({}, Commit(infos=infos))
    store.close()
    path = tmp_path / "runs.csv"
    assert evprof("export", session, "--format", "csv", "--cell", "frames=8", "-o", path).code == 0
    assert [(row["run_id"], row["cell"]) for row in rows_of(path)] == [("2", "frames=8"), ("3", "frames=8")]
    found = evprof("export", session, "--format", "csv", "--cell", "frames=9", "-o", tmp_path / "none.csv")
    assert found.code == 2
    assert "there is no configuration 'frames=9'; did you mean frames=" in found.errors
    assert not list(tmp_path.glob("none.csv*"))


def test_runs_that_are_nowhere(evprof: Any, session: Path, tmp_path: Path) -> None:
    for kind, name in (("chrome", "t.json"), ("json", "s.json"), ("csv", "runs.csv")):
        found = evprof("export", session, "--format", kind, "--runs", "8", "-o", tmp_path / name)
        assert found.code == 2
        assert "none of these runs" in found.errors
        assert not list(tmp_path.glob(f"{name}*"))


def test_what_was_there_stays_when_a_session_cannot_be_read(evprof: Any, session: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.evprof"
    data = session.read_bytes()
    broken.write_bytes(data[: len(data) // 2])
    for kind, name in (("chrome", "t.json"), ("json", "s.json"), ("csv", "runs.csv")):
        place = tmp_path / name
        place.write_text("earlier", encoding="utf-8")
        found = evprof("export", session, broken, "--format", kind, "-o", place)
        assert found.code == 1
        assert "broken.evprof" in found.errors
        assert place.read_text(encoding="utf-8") == "earlier"
        assert not list(tmp_path.glob("*.part"))
