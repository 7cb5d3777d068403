"""Parquet files, read back with what people read them with: pyarrow, polars and pandas."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from evprof.core.errors import UserError
from evprof.core.records import STREAMS, TokenRecord, column_kinds
from evprof.core.run_log import RunLog
from evprof.export.files import check_name, write_export
from evprof.export.report.data import Source
from evprof.export.tables import COLUMNS, table_rows

pytestmark = pytest.mark.leaves_threads


@pytest.fixture
def listed(runs: list[RunLog], speculative_run: RunLog, unborn_run: RunLog) -> list[RunLog]:
    return [*runs[:2], speculative_run, unborn_run]


@pytest.fixture
def folder(listed: list[RunLog], tmp_path: Path) -> Path:
    pytest.importorskip("pyarrow")
    files = write_export([Source(Path("a.evprof"), listed)], "parquet", tmp_path / "out")
    assert {path.name for path in files} == {f"{name}.parquet" for name in ("runs", *STREAMS)}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in files)
    return tmp_path / "out"


@pytest.mark.parametrize("stream", STREAMS)
def test_every_stream_is_read_back_as_it_was_recorded(folder: Path, listed: list[RunLog], stream: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(folder / f"{stream}.parquet")
    assert table.column_names == ["session", *column_kinds(stream)]
    kinds = {"int": "int64", "str": "string", "bytes": "binary"}
    assert [str(kind) for kind in table.schema.types[1:]] == [kinds[kind] for kind in column_kinds(stream).values()]
    recorded = [row for run in listed for block in run.blocks(stream) for row in block.rows()]
    assert [tuple(row.values())[1:] for row in table.to_pylist()] == [tuple(row) for row in recorded]
    assert set(table["session"].to_pylist()) <= {"a.evprof"}


def test_runs_hold_what_the_csv_holds(folder: Path, listed: list[RunLog]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    found = parquet.read_table(folder / "runs.parquet").to_pylist()
    rows = [row for run in listed for row in table_rows("runs", run, "a.evprof")]
    assert [list(row) for row in found] == [list(COLUMNS["runs"])] * len(rows)
    assert found == [{name: row.get(name) for name in COLUMNS["runs"]} for row in rows]


def test_text_that_is_no_text_is_written_as_escapes(build_runs: Any, speculative_run: RunLog, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    token = TokenRecord(3, "target", 0, 1, "target", -1, 5, "\ud800é")
    runs = build_runs((speculative_run.info, [token]))
    write_export([Source(Path(), runs)], "parquet", tmp_path / "out")
    assert parquet.read_table(tmp_path / "out" / "tokens.parquet")["piece"].to_pylist() == ["\\ud800é"]


def test_values_of_several_kinds_in_one_column_become_text(listed: list[RunLog], tmp_path, monkeypatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    values = zip(("f", 1, None, 2**70), (1, 2, 0.5, None), strict=True)
    told = {run.run_id: {"dtype": dtype, "seed": seed} for run, (dtype, seed) in zip(listed, values, strict=True)}
    monkeypatch.setattr("evprof.export.parquet.table_rows", lambda _, run, session: [told[run.run_id]])
    write_export([Source(Path(), listed)], "parquet", tmp_path / "out")
    table = parquet.read_table(tmp_path / "out" / "runs.parquet")
    assert table["dtype"].to_pylist() == ["f", "1", None, str(2**70)]
    assert table["seed"].to_pylist() == [1.0, 2.0, 0.5, None]


def test_many_rows_come_in_groups_of_bounded_size(listed: list[RunLog], tmp_path, monkeypatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("evprof.export.parquet._MOST_ROWS", 4)
    write_export([Source(Path(), listed)], "parquet", tmp_path / "out")
    file = parquet.ParquetFile(tmp_path / "out" / "spans.parquet")
    groups = [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)]
    assert len(groups) > 2
    assert max(groups) < 8
    assert sum(groups) == sum(run.count("spans") for run in listed)


def test_without_pyarrow_it_says_how_to_add_it(listed: list[RunLog], tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"need pyarrow; install it with `pip install 'evprof\[parquet\]'`"):
        write_export([Source(Path(), listed)], "parquet", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_is_not_called_like_a_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="writes a folder"):
        check_name("parquet", tmp_path / "runs.parquet")
    check_name("parquet", tmp_path / "runs-1.5")
