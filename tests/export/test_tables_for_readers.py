"""Tables as others read them: whose each row is, failed runs too, and texts no spreadsheet computes."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import SETTLED, SpanRecord, TokenRecord
from evprof.core.run_info import FAILED, FINISHED, ImportedFacts, RunInfo
from evprof.core.run_log import RunLog
from evprof.export.report.data import Source
from evprof.export.tables import COLUMNS, IDENTITY, plain_row, write_rows, write_tables
from exported import tables
from told import told

MS = 1_000_000


@pytest.fixture
def published() -> RunLog:
    """A row of a file whose vision and prefill were measured as one."""
    info = RunInfo(
        5, 5, 0, "target", "target", **told({}, {"name": "scene 7", "reference": "=1+1"}), start_ns=0, cell="8 frames"
    )
    info.status, info.text = FINISHED, "-2 cars"
    info.imported = ImportedFacts("old.json", "five-stage", 7, figures={"word_overlap": 0.25, "kv_mb": 318.0})
    run = RunLog(info)
    run.absorb(SpanRecord(5, 0, -1, SETTLED, "target", "vision+prefill", 0, 60 * MS))
    run.absorb(SpanRecord(5, 1, -1, SETTLED, "target", "decode", 60 * MS, 90 * MS))
    run.absorb(TokenRecord(5, "target", 0, 448, "target", -1, 90 * MS, "-"))
    return run


@pytest.fixture
def broken() -> RunLog:
    """A run that failed."""
    info = RunInfo(6, 6, 0, "target", "target", **told({"temperature": 0.6, "max_new_tokens": 512}), start_ns=0)
    info.status, info.error = FAILED, "CUDA out of memory"
    return RunLog(info)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_every_row_says_whose_it_is(published: RunLog, broken: RunLog, tmp_path: Path) -> None:
    paths = write_tables([Source(Path("a.evprof"), [published, broken])], tmp_path)
    for path in paths:
        assert tuple(COLUMNS[path.stem][: len(IDENTITY)]) == IDENTITY
        for row in rows_of(path):
            assert row["session"] == "a.evprof"
            if row["run_id"] == "5":
                found = row["cell"], row["sample"], row["imported_file"], row["imported_row"]
                assert found == ("8 frames", "scene 7", "old.json", "7")
            else:
                assert (row["cell"], row["imported_file"], row["imported_row"]) == ("", "", "")


def test_failed_runs_keep_their_row_and_error(published: RunLog, broken: RunLog) -> None:
    first, second = tables([published, broken])["runs"]
    assert (first["status"], first["error"]) == (FINISHED, None)
    assert (second["status"], second["error"]) == (FAILED, "CUDA out of memory")
    assert second["decode_ms"] is second["wall_ms"] is None
    assert (second["temperature"], second["max_new_tokens"]) == (0.6, 512)


def test_stages_measured_as_one_stay_one(published: RunLog) -> None:
    found = tables([published])
    assert [(row["stage"], row["covers"], row["duration_ms"]) for row in found["stages"]] == [
        ("prefill", "vision+prefill", 60),
        ("decode", "decode", 30),
    ]
    assert found["runs"][0]["vision_ms"] is None
    assert found["runs"][0]["prefill_ms"] is None
    assert found["runs"][0]["decode_ms"] == 30
    figures = [(row["figure"], row["value"]) for row in found["figures"]]
    assert figures[-2:] == [("word_overlap", 0.25), ("kv_mb", 318.0)]
    assert ("decode_ms", 30) in figures
    assert not [name for name, _ in figures if name in ("vision_ms", "prefill_ms")]
    # The file gives ids and no times of tokens.
    assert found["tokens"][0]["time_ms"] is None


def test_nothing_is_computed_by_a_spreadsheet(published: RunLog, tmp_path: Path) -> None:
    write_tables([Source(Path("a.evprof"), [published])], tmp_path)
    (run,) = rows_of(tmp_path / "runs.csv")
    assert (run["reference"], run["text"]) == ("'=1+1", "'-2 cars")
    assert rows_of(tmp_path / "tokens.csv")[0]["piece"] == "'-"


texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["=1", "'", "''=", "@a", "\t=", "\r"])
)


@given(texts)
def test_texts_come_back_without_their_guard(text: str) -> None:
    stream = io.StringIO(newline="")
    write_rows([{"text": text, "delta_ms": -1.5}], stream, ("text", "delta_ms"))
    stream.seek(0)
    (row,) = csv.DictReader(stream)
    assert row["text"].removeprefix("'") == text
    assert not row["text"].startswith(("=", "+", "-", "@", "\t", "\r"))
    # A number stays one.
    assert float(row["delta_ms"]) == -1.5


def test_numbers_and_flags_are_left_alone() -> None:
    row = {"delta_ms": -3.0, "hidden": False, "error": None}
    assert plain_row(row) == row
