"""As published and by our definitions: printed digits from the rows, ours beside them, and the difference in words."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from evprof.core.errors import UserError
from evprof.export.report.data import ReportData, Source, gather
from evprof.export.report.parts import Table
from evprof.export.report.sections.imported import section
from evprof.metrics.published import common_blocks, published_files
from evprof.run.legacy_import import import_files
from report_blocks import said as texts
from report_blocks import tables
from run_logs import saved_runs
from whole_session import load_session

# Means in ms of the published comparison: stages 1 to 2, vision, prefill, decode; then tokens and MiB.
TABLE = {
    "eventgpt": (3.6054, 5.92805, 66.1557, 92.67779, 636, 318.0),
    "videollava": (78.66064, 29.48449, 568.13476, 143.94196, 4643, 2321.5),
}
KEYS = ("stage12_time", "s3_time", "s4_time", "s5_time")


def gathered(folder: Path, value: Any, name: str = "result.json") -> ReportData:
    path = folder / name
    path.write_text(json.dumps(value), encoding="utf-8")
    session = load_session(import_files([path], folder / f"{name}.evprof").session)
    runs = saved_runs(session.recording)
    return gather([Source(session.path, runs, session.environment, session.facts)])


def exact(legacy_shapes: ModuleType, rows: int = 4) -> dict[str, Any]:
    """A file of whose rows every one is the published mean."""
    value: dict[str, Any] = legacy_shapes.one_vs_eight(rows, first_is_slow=False)
    for side, (stage12, s3, s4, s5, length, kv_mb) in TABLE.items():
        for sample in value[side]["samples"]:
            times = [part / 1000 for part in (stage12, s3, s4, s5)]
            sample.update(zip(("stage12_time", "s3_time", "s4_time", "s5_time"), times, strict=True))
            sample.update(total_time=sum(times), prefill_len=length, kv_cache_mb=kv_mb)
        value[side]["stats"] = legacy_shapes._one_vs_eight_stats(value[side]["samples"])
    return value


def row_of(table: Table, start: str) -> list[str]:
    return next([cell.text for cell in row] for row in table.rows if row[0].text.startswith(start))


def test_the_published_column_has_the_published_digits(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    table = tables(section(gathered(tmp_path, exact(legacy_shapes))))[0]
    assert row_of(table, "Prefill length")[2:5] == ["636", "4643", "7.3×"]
    assert row_of(table, "Vision encoding")[2:5] == ["5.93 ± 0.00", "29.48 ± 0.00", "4.97×"]
    assert row_of(table, "Prefill, ms")[1:5] == ["prefill / vision + prefill", "66.16 ± 0.00", "568.13 ± 0.00", "8.59×"]
    assert row_of(table, "Decode, ms")[1:5] == ["decode", "92.68 ± 0.00", "143.94 ± 0.00", "1.55×"]
    assert row_of(table, "Total")[2:5] == ["164.76", "741.56", "4.50×"]
    assert row_of(table, "Prefill, tok/s")[2:4] == ["9614", "8172"]
    assert row_of(table, "Decode, tok/s")[2:4] == ["54.0", "34.7"]
    assert row_of(table, "KV cache")[2:5] == ["318.0", "2321.5", "7.3×"]
    assert row_of(table, "Samples/s")[2:4] == ["6.07", "1.35"]


def test_ours_takes_all_measured_stages(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    found = section(gathered(tmp_path, exact(legacy_shapes)))
    total = row_of(tables(found)[0], "Total")
    assert total[5:8] == ["168.37", "820.22", "4.87×"]
    assert "the published total leaves out preprocess (78.7 ms): 741.56 ms become 820.22 ms." in texts(found)
    assert "loading was not measured" in texts(found)
    assert "covers vision + prefill; vision is a second pass" in texts(found)


def test_warm_up_is_in_the_published_column_and_apart_in_ours(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    value = legacy_shapes.one_vs_eight(30)
    found = section(gathered(tmp_path, value))
    row = row_of(tables(found)[0], "Vision encoding")
    everything = [1000 * sample["s3_time"] for sample in value["eventgpt"]["samples"]]
    assert row[2].startswith(f"{sum(everything) / 30:.2f} ±")
    assert row[5].startswith(f"{sum(everything[1:]) / 29:.2f} ±")
    totals = [sum(sample[key] for key in KEYS) * 1000 for sample in value["eventgpt"]["samples"]]
    assert row_of(tables(found)[0], "Total, ms")[5] == f"{sum(totals[1:]) / 29:.2f}"
    assert row_of(tables(found)[0], "Total with warm-up")[5] == f"{sum(totals) / 30:.2f}"
    assert "the published averages take in 1 row that is warm-up; ours keep them apart." in texts(found)


def test_times_of_different_stages_have_no_ratio_of_ours(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    data = gathered(tmp_path, legacy_shapes.five_stages(12))
    found = section(data)
    table = tables(found)[0]
    assert row_of(table, "Prefill, ms")[7] == "n/a"
    assert row_of(table, "Vision + prefill, ms")[5:8] == ["90.70", "315.00", "3.47×"]
    assert row_of(table, "Prefill length")[5:8] == ["637", "n/a", "n/a"]
    (file,) = published_files(data.sources[0].runs, data.sources[0].facts["imports"])
    assert common_blocks(file.cells) == [("load",), ("preprocess",), ("vision", "prefill"), ("decode",)]


def test_configurations_that_are_no_pair_stand_one_under_the_other(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    found = section(gathered(tmp_path, legacy_shapes.end_to_end(4)))
    table = tables(found)[0]
    assert row_of(table, "Video-LLaVA 4bit, alone")[1:4] == ["4", "1026.50 ± 1.12", "1026.50 ± 1.12"]
    assert row_of(table, "Video-LLaVA 4bit, L1+VL")[2].startswith("1650.00 ±")
    assert row_of(table, "Video-LLaVA 4bit, L1+VL")[3].startswith("1650.00 ±")
    assert "is a sum of sections" not in texts(found)
    value = legacy_shapes.end_to_end(4)
    for row in value["sd_per_sample"]["L1+VL"]:
        row["sd_total_ms"] = row["parallel_prefill_ms"] + row["sd_decode_ms"]
    words = texts(section(gathered(tmp_path, value, "short.json")))
    assert "published total of 1,300.0 ms is a sum of sections; the stages in it cover 1,650.0 ms" in words


@pytest.mark.parametrize(
    "shape",
    [
        *("one_vs_eight", "sample_rows", "five_stages", "end_to_end", "with_errors", "four_stages", "matched_answers"),
        *("shared_decoder", "word_estimates", "token_lists", "verified_drafts"),
    ],
)
def test_every_family_has_its_problems_in_the_section(shape: str, legacy_shapes: ModuleType, tmp_path: Path) -> None:
    data = gathered(tmp_path, getattr(legacy_shapes, shape)())
    found = section(data)
    for problem in data.sources[0].facts["imports"][0]["problems"]:
        assert problem in texts(found)


def test_without_an_import_the_section_says_what_to_do(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    data = gathered(tmp_path, legacy_shapes.sample_rows(3))
    runs = data.sources[0].runs
    empty = gather([Source(Path("S.evprof"), runs, {}, {})])
    assert "evprof import" in section(empty).missing
    for wrong in ({"imports": 3}, {"imports": [1, {"path": 7, "covers": []}]}):
        section(gather([Source(Path("S.evprof"), runs, {}, wrong)]))


def test_published_lengths_take_every_row_ours_those_whose_ids_are_whole(
    legacy_shapes: ModuleType, tmp_path: Path
) -> None:
    table = tables(section(gathered(tmp_path, legacy_shapes.sample_rows(4))))[0]
    row = row_of(table, "Generated tokens")  # EventGPT: 9 ids in three rows, 2 in the last, whose text has seven words
    assert row[2] == "7.2"
    assert row[5] == "9.0"
    assert "1 of 4 rows" in texts(section(gathered(tmp_path, legacy_shapes.sample_rows(4), "again.json")))


def test_over_no_run_a_report_is_refused(legacy_shapes: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to report"):
        gathered(tmp_path, legacy_shapes.with_errors() | {"results": []})
