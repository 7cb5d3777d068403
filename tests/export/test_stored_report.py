"""A report of very many stored runs: what it tells of all of them is kept beside their rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.part_files import write_results
from evprof.export.report.sections.times import MOST_READ
from evprof.export.report.writing import write_report
from evprof.run.legacy_import import import_files
from evprof.session.opened import SessionSource

SAMPLES = MOST_READ + 40


def test_rows_of_imported_runs_are_read_of_some_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "imported.evprof"
    import_files([write_results(tmp_path / "results.json", SAMPLES)], path)
    read: list[int] = []
    rows = SessionSource.rows

    def noted(store: SessionSource, run_id: int) -> Any:
        read.append(run_id)
        return rows(store, run_id)

    monkeypatch.setattr(SessionSource, "rows", noted)
    write_report([path], tmp_path / "report.html")
    assert f"{SAMPLES} samples" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(set(read)) <= 2 * MOST_READ
    assert len(read) <= len(set(read)) + 2 * 50, "most are read once"
