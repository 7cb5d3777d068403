"""Tables: a row for every record, whose each row is, nothing measured an empty cell, texts no spreadsheet computes."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import SETTLED, AlternativesRecord, SpanRecord, TokenRecord
from evprof.core.run_info import FAILED, FINISHED, ImportedFacts, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.figures import FIGURES
from evprof.export.report.data import Source
from evprof.export.tables import COLUMNS, IDENTITY, plain_row, write_rows, write_tables
from evprof.metrics.comparison.figures import READERS
from evprof.metrics.figures.stages import END_TO_END
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
    }
    assert {name: len(rows) for name, rows in found.items() if name != "figures"} == expected
    assert found["figures"]
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


def test_spans_whose_parents_form_a_ring_end(speculative_run: RunLog) -> None:
    speculative_run.spans[3].parent_id = 4
    speculative_run.spans[4].parent_id = 3
    assert len(tables([speculative_run])["stages"]) == len(speculative_run.spans)


def test_figures_are_those_of_the_vocabulary_each_with_its_unit_and_model(runs) -> None:
    speculative = tables(runs)["figures"]
    mine = [row for row in speculative if row["run_id"] == 3]
    assert {row["role"] for row in mine} == {"draft", "target"}
    for row in mine:
        figure = FIGURES[row["figure"]]
        assert row["value"] == READERS[figure.key](runs[2], row["role"], END_TO_END)
        assert row["unit"] == (figure.unit or None)
        assert row["role"] == "target" or not figure.is_of_answer
    assert next(row["value"] for row in mine if row["figure"] == "draft_acceptance_rate") == pytest.approx(0.56)
