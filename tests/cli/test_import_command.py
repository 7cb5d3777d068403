"""`evprof import`, and what other commands do with imported runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import legacy_shapes

Evprof = Callable[..., Any]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    found = {}
    for shape in ("one_vs_eight", "sample_rows", "five_stages", "end_to_end", "with_errors"):
        found[shape] = tmp_path / f"{shape}.json"
        found[shape].write_text(json.dumps(getattr(legacy_shapes, shape)()), encoding="utf-8")
    return found


def test_every_file_is_told_with_its_problems(evprof: Evprof, files: dict[str, Path], tmp_path: Path) -> None:
    outcome = evprof("import", *files.values(), "-o", tmp_path / "S.evprof")
    assert outcome.code == 0
    assert "one_vs_eight.json: one-vs-eight, 60 rows, 60 runs, 2 warm-up" in outcome.output
    assert "with_errors.json: prefill rows, 3 rows, 4 runs, 3 failed" in outcome.output
    assert "- Loading was not measured" in outcome.output
    assert "Video-LLaVA 4bit, L1+VL · end_to_end.json: 4 runs" in outcome.output
    assert "session saved" in outcome.errors


def test_the_document_names_files_and_runs(evprof: Evprof, files: dict[str, Path], tmp_path: Path) -> None:
    outcome = evprof("import", files["five_stages"], files["sample_rows"], "-o", tmp_path / "S.evprof", "--json")
    document = outcome.document
    assert document["schema_version"] == 1
    assert document["runs"] == 32
    first, second = document["files"]
    assert set(first) == {
        *("path", "family", "rows", "runs", "failed", "warmups", "first_run_id", "duration_ms", "cells", "problems"),
    }
    assert (first["family"], first["runs"], second["first_run_id"]) == ("five stages", 24, 25)
    named = (Path(__file__).resolve().parents[2] / "docs/json.md").read_text(encoding="utf-8")
    assert all(f"`{key}`" in named for key in (*document, *first))


def test_what_cannot_be_imported_is_one_sentence(evprof: Evprof, files: dict[str, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"x": [1, 2]}')
    outcome = evprof("import", files["with_errors"], other, "-o", tmp_path / "S.evprof")
    assert outcome.code == 1
    assert "is no result file that evprof knows" in outcome.errors
    assert outcome.errors.count("\n") == 1
    assert not (tmp_path / "S.evprof").exists()
    assert evprof("import", files["with_errors"], "-o", other).code == 1


def test_imported_runs_are_shown_compared_exported_and_inspected(evprof, files: dict[str, Path], tmp_path) -> None:
    session = tmp_path / "S.evprof"
    assert evprof("import", *files.values(), "-o", session, "--json").code == 0
    shown = evprof("show", session, "--json").document
    assert len(shown["runs"]) == 60 + 8 + 24 + 12 + 4
    prefill = next(stage for stage in shown["runs"][59]["stages"] if "prefill" in stage["covers"])
    assert prefill["covers"] == ["vision", "prefill"]
    assert evprof("show", session).code == 0
    for basis in ("end-to-end", "without-load", "model-only"):
        compared = evprof("compare", session, "--basis", basis, "--json").document
        assert len(compared["columns"]) == 10
    for form, place in (("chrome", "trace.json.gz"), ("csv", "tables"), ("json", "runs.json")):
        assert evprof("export", session, "--format", form, "-o", tmp_path / place).code == 0
    inspected = evprof("inspect", files["five_stages"], "--json").document
    assert (inspected["kind"], inspected["family"], inspected["runs"]) == ("legacy", "five stages", 24)
    assert inspected["covers"]["target"]["stage3_time"] == "nothing"
    assert "covers the visual" not in str(inspected)
    assert evprof("inspect", files["five_stages"]).code == 0


def test_a_report_over_nothing_but_errors_is_refused_with_them(evprof, tmp_path) -> None:
    path = tmp_path / "errors.json"
    path.write_text(json.dumps(legacy_shapes.with_errors() | {"results": []}), encoding="utf-8")
    session = tmp_path / "S.evprof"
    assert evprof("import", path, "-o", session).code == 0
    outcome = evprof("report", session, "-o", tmp_path / "report.md")
    assert outcome.code == 1
    assert "none of 2 runs" in outcome.errors
    assert "CUDA out of memory" in outcome.errors
    assert not (tmp_path / "report.md").exists()


def test_imported_runs_are_told_no_more_than_their_file_says(evprof, files: dict[str, Path], tmp_path) -> None:
    """Neither an answer nor rounds that it does not hold, nor a basis of a time that is not known."""
    session = tmp_path / "S.evprof"
    evprof("import", files["one_vs_eight"], files["end_to_end"], "-o", session)
    shown = evprof("show", session).output
    assert "20.0 %" in shown
    assert not re.search(r"acceptance length\s+\d", shown)
    assert "over 0 rounds" not in shown
    assert '  ""' not in shown
    assert "n/a, model-only" not in shown
