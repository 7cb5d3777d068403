"""The tables: a row for every record, empty cells for what was not measured, files any reader opens."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from evprof.core.records import AlternativesRecord
from evprof.core.run_log import RunLog
from evprof.export.report.data import Source
from evprof.export.tables import COLUMNS, plain_row, write_tables
from exported import tables


def test_a_row_for_every_record(speculative_run: RunLog, unborn_run: RunLog) -> None:
    runs = [speculative_run, unborn_run]
    found = tables(runs)
    expected = {
        "runs": 2,
        "stages": sum(len(run.spans) for run in runs),
        "tensors": 3,
        "tokens": sum(len(run.tokens) + len(run.rejected) for run in runs),
        "rounds": 2,
        "judgements": 0,
        "alternatives": 0,
        "kv_cache": 7,
        "memory": 2,
        "power": 0,
        "figures": 13,  # what can be read off the two runs, cache and rounds included
    }
    assert {name: len(rows) for name, rows in found.items()} == expected
    assert set(found) == set(COLUMNS)
    for name, rows in found.items():
        assert all(tuple(row) == COLUMNS[name] for row in rows), name


def test_times_are_ms_since_the_zero_and_unknown_ones_are_empty(speculative_run: RunLog, unborn_run: RunLog) -> None:
    found = tables([speculative_run])
    rows = {(row["stage"], row["part"], row["start_ms"]): row["duration_ms"] for row in found["stages"]}
    assert rows["vision", "", 0.03] == pytest.approx(0.03)
    assert rows["vision", "tower", 0.03] == pytest.approx(0.02)
    assert rows["decode", "verify", 0.08] == pytest.approx(0.02)
    # Ended on the host but never settled, and never ended at all: no duration.
    assert rows["decode", "", 0.3] is None
    assert rows["decode", "verify", 0.305] is None
    assert found["memory"][0]["gpu_bytes"] is None
    assert found["memory"][1]["gpu_bytes"] == 500
    assert found["tokens"][0]["round"] is None
    assert {row["time_ms"] for row in tables([unborn_run])["kv_cache"]} == {None}


def test_what_else_was_likely_has_a_row_each(speculative_run: RunLog) -> None:
    token = speculative_run.tokens[1]
    place = (speculative_run.run_id, token.role, token.round_index, token.position, token.token_id)
    record = AlternativesRecord.made(place, [token.token_id, 9], [0.75, 0.25], 0.811, [" a", "-"])
    speculative_run.absorb(record)
    found = tables([speculative_run])
    assert [(row["rank"], row["alternative_id"], row["chance"]) for row in found["alternatives"]] == [
        (1, token.token_id, 0.75),
        (2, 9, 0.25),
    ]
    assert {row["entropy_bits"] for row in found["alternatives"]} == {0.811}
    by_place = {(row["position"], row["origin"]): row for row in found["tokens"]}
    assert by_place[token.position, token.origin]["chance"] == 0.75
    assert {row["chance"] for row in found["tokens"]} == {None, 0.75}


def test_tensors_keep_their_stage(speculative_run: RunLog) -> None:
    first = tables([speculative_run])["tensors"][0]
    assert (first["stage"], first["part"], first["direction"]) == ("vision", "", "in")
    assert (first["tensor"], first["shape"], first["bytes"]) == ("pixel_values", "8x3x64x64", 393_216)


def test_files_read_back_as_written(speculative_run: RunLog, tmp_path: Path) -> None:
    source = Source(tmp_path / "s.evprof", [speculative_run])
    paths = write_tables([source], tmp_path / "out")
    assert sorted(path.name for path in paths) == sorted(f"{name}.csv" for name in COLUMNS)
    for path in paths:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        built = tables([speculative_run], source.name)[path.stem]
        texts = [{key: "" if value is None else str(value) for key, value in plain_row(row).items()} for row in built]
        assert rows == texts
    single = write_tables([source], tmp_path / "runs.CSV")
    assert single == [tmp_path / "runs.CSV"]
    assert single[0].read_text(encoding="utf-8").startswith("session,run_id,cell,")


def test_no_runs_leave_headings(tmp_path: Path) -> None:
    for path in write_tables([], tmp_path / "none"):
        assert path.read_text(encoding="utf-8").strip() == ",".join(COLUMNS[path.stem])


def test_spans_whose_parents_form_a_ring_end(speculative_run: RunLog) -> None:
    speculative_run.spans[3].parent_id = 4
    speculative_run.spans[4].parent_id = 3
    assert len(tables([speculative_run])["stages"]) == len(speculative_run.spans)
