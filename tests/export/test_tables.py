"""CSV tables: every table has its columns, every row its run, nothing measured an empty cell."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from evprof.core.vocabulary.figures import FIGURES
from evprof.export.report.data import Source
from evprof.export.tables import COLUMNS, write_tables
from evprof.metrics.comparison.figures import READERS
from evprof.metrics.figures.stages import END_TO_END
from exported import tables


@pytest.mark.parametrize("name", list(COLUMNS))
def test_rows_have_exactly_the_columns(runs, name) -> None:
    rows = tables(runs)[name]
    # Memory and power are sampled by the host of an engine process; here there is none.
    assert rows or name in ("memory", "power")
    assert all(tuple(row) == COLUMNS[name] for row in rows)
    assert all(row["run_id"] in (1, 2, 3) for row in rows)


def test_a_folder_holds_every_table(runs, tmp_path: Path) -> None:
    paths = write_tables([Source(tmp_path, runs)], tmp_path / "tables")
    assert sorted(path.stem for path in paths) == sorted(COLUMNS)
    with (tmp_path / "tables" / "tokens.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    pieces = [row["piece"].removeprefix("'") for row in rows if row["run_id"] == "1"]
    assert pieces == [token.piece for token in runs[0].tokens]
    rejected = [row for row in rows if row["origin"] == "rejected"]
    assert len(rejected) == len(runs[2].rejected) > 0


def test_parts_name_the_stage_they_lie_in(runs) -> None:
    rows = tables(runs)["stages"]
    assert {row["stage"] for row in rows} == {"load", "preprocess", "vision", "prefill", "decode"}
    assert {row["stage"] for row in rows if row["part"] == "tower"} == {"vision"}


def test_a_csv_name_means_the_runs_alone(runs, tmp_path: Path) -> None:
    (path,) = write_tables([Source(tmp_path, runs)], tmp_path / "all.csv")
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["mode"] for row in rows] == ["side-by-side", "side-by-side", "speculative"]
    assert rows[0]["draft_acceptance_rate"] == ""
    assert float(rows[2]["draft_acceptance_rate"]) == pytest.approx(0.56)


def test_tables_of_nothing_still_have_headings(tmp_path: Path) -> None:
    write_tables([], tmp_path)
    assert (tmp_path / "rounds.csv").read_text().strip() == ",".join(COLUMNS["rounds"])


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
