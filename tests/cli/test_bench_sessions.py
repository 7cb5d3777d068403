"""A benchmark in several processes: each is asked the same, and their summaries are put together."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from evprof.cli.terminal import program

CHILD = """
import json, pathlib, sys
place = pathlib.Path(sys.argv[1])
number = len(list(place.glob("asked*")))
(place / f"asked{number}").write_text(" ".join(sys.argv[2:]))
summary = {"ratio": 1.0 + number, "acceptance": {"model": 0.5 + number / 10}, "note": None}
print(json.dumps({"schema_version": 1, "environment": {}, "rows": [{"n": number}], "summary": summary}))
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which every process leaves what it was asked."""
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    monkeypatch.setattr(program, "program_argv", lambda *words: [sys.executable, str(script), str(tmp_path), *words])
    return tmp_path


def test_the_summary_is_the_median_of_the_processes(evprof: Any, asked: Path) -> None:
    document = evprof("bench", "switches", "--repeat", 7, "--only", "a", "b", "--sessions", 3, "--json").document
    assert document["summary"] == {"ratio": 2.0, "acceptance": {"model": 0.6}, "note": None}
    assert document["rows"] == [{"n": 0, "session": 1}, {"n": 1, "session": 2}, {"n": 2, "session": 3}]
    assert [entry["ratio"] for entry in document["sessions"]] == [1.0, 2.0, 3.0]
    words = (asked / "asked0").read_text().split()
    assert words[:2] == ["bench", "switches"]
    assert words[words.index("--repeat") + 1] == "7"
    assert words[words.index("--only") + 1 : words.index("--only") + 3] == ["a", "b"]
    assert "--sessions" not in words


@pytest.mark.usefixtures("asked")
def test_people_see_how_far_the_processes_lie_apart(evprof: Any) -> None:
    found = evprof("bench", "overhead", "--sessions", 3)
    assert "ratio: 2 (1 to 3 in 3 sessions)" in found.output
    assert "session 2 of 3" in found.errors


def test_benchmarks_without_an_engine_have_no_sessions(bench: Any) -> None:
    found = bench("events", "--sessions", 2)
    assert found.code == 2
    assert "--sessions" in found.errors
