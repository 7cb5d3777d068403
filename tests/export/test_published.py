"""As published and by our definitions: printed digits from the rows, ours beside them, and the difference in words."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import legacy_shapes
from evprof.core.errors import UserError
from evprof.export.report.data import ReportData, Source, gather
from evprof.export.report.parts import Section, Table
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


def exact(rows: int = 4) -> dict[str, Any]:
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


def test_the_published_column_has_the_published_digits(tmp_path: Path) -> None:
    table = tables(section(gathered(tmp_path, exact())))[0]
    assert row_of(table, "Prefill length")[2:5] == ["636", "4643", "7.3×"]
    assert row_of(table, "Vision encoding")[2:5] == ["5.93 ± 0.00", "29.48 ± 0.00", "4.97×"]
    assert row_of(table, "Prefill, ms")[1:5] == ["prefill / vision + prefill", "66.16 ± 0.00", "568.13 ± 0.00", "8.59×"]
    assert row_of(table, "Decode, ms")[1:5] == ["decode", "92.68 ± 0.00", "143.94 ± 0.00", "1.55×"]
    assert row_of(table, "Total")[2:5] == ["164.76", "741.56", "4.50×"]
    assert row_of(table, "Prefill, tok/s")[2:4] == ["9614", "8172"]
    assert row_of(table, "Decode, tok/s")[2:4] == ["54.0", "34.7"]
    assert row_of(table, "KV cache")[2:5] == ["318.0", "2321.5", "7.3×"]
    assert row_of(table, "Samples/s")[2:4] == ["6.07", "1.35"]


def test_ours_takes_all_measured_stages(tmp_path: Path) -> None:
    found = section(gathered(tmp_path, exact()))
    total = row_of(tables(found)[0], "Total")
    assert total[5:8] == ["168.37", "820.22", "4.87×"]
    assert "the published total leaves out preprocess (78.7 ms): 741.56 ms become 820.22 ms." in texts(found)
    assert "loading was not measured" in texts(found)
    assert "covers vision + prefill; vision is a second pass" in texts(found)


def test_warm_up_is_in_the_published_column_and_apart_in_ours(tmp_path: Path) -> None:
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


def test_times_of_different_stages_have_no_ratio_of_ours(tmp_path: Path) -> None:
    data = gathered(tmp_path, legacy_shapes.five_stages(12))
    found = section(data)
    table = tables(found)[0]
    assert row_of(table, "Prefill, ms")[7] == "n/a"
    assert row_of(table, "Vision + prefill, ms")[5:8] == ["90.70", "315.00", "3.47×"]
    assert row_of(table, "Prefill length")[5:8] == ["637", "n/a", "n/a"]
    (file,) = published_files(data.sources[0].runs, data.sources[0].facts["imports"])
    assert common_blocks(file.cells) == [("load",), ("preprocess",), ("vision", "prefill"), ("decode",)]


def uneven() -> dict[str, Any]:
    """Five stages of twelve rows that differ a little, so that a total over other rows is another number."""
    value: dict[str, Any] = legacy_shapes.five_stages(12)
    for row in value["results"]:
        for own in (row["eventgpt"], row["videollava"]):
            own |= {key: own[key] * (1 + row["sample_idx"] / 100) for key in STAGES}
            own["total_time"] = sum(own[key] for key in STAGES)
    return value


STAGES = tuple(f"stage{place}_time" for place in range(1, 6))


def change(value: dict[str, Any], rows: Iterable[int], side: str, *keys: str, factor: Any = None) -> None:
    """Sets times of these rows to a value, or multiplies them by a number."""
    for row in rows:
        own = value["results"][row][side]
        own |= {key: own[key] * factor if isinstance(factor, int) else factor for key in keys}


EVERY = range(12)
Variant = tuple[tuple[int, ...], str, tuple[str, ...], Any, str]
VARIANTS: list[Variant] = [
    ((), "eventgpt", STAGES, 1, "five stages"),
    ((1, 3, 5, 7, 9), "eventgpt", STAGES[4:], "0.4", "stage5_time is no number (5 of 12 rows: rows 1, 3, 5, 7, 9)."),
    ((4,), "eventgpt", STAGES[4:], math.nan, "stage5_time is null (1 of 12 rows: row 4)."),
    ((1,), "videollava", STAGES[3:4], math.inf, "1 of 12 rows lack vision + prefill: not in the total."),
    ((4,), "eventgpt", STAGES[4:], -1, "1 of 12 rows lack decode: not in the total."),
    ((2, 5, 8, 11), "eventgpt", STAGES[3:4], None, "4 of 12 rows lack prefill: not in the total."),
    ((6,), "eventgpt", (*STAGES, "total_time"), 1000, "so no time of the row was taken (1 of 12 rows: row 6)."),
    ((6,), "eventgpt", STAGES[3:4], 1000, "stage4_time is probably no time in seconds"),
]
"""Rows, side and times that are set to a value, or multiplied by a number, and what is said of it."""


def total_of(found: Section, lacking: Mapping[str, Sequence[int]]) -> None:
    """Checks that the totals by our definitions are over the rows that lack nothing, without the warm-up."""
    plain, means = uneven(), []
    for side, skipped in (("eventgpt", ""), ("videollava", STAGES[2])):
        rows = [row for row in EVERY if row and row not in lacking.get(side, ())]
        whole = [sum(plain["results"][row][side][key] for key in STAGES if key != skipped) for row in rows]
        means.append(1000 * sum(whole) / len(whole))
    total = row_of(tables(found)[0], "Total, ms")
    assert total[5:8] == [*(f"{mean:.2f}" for mean in means), f"{means[1] / means[0]:.2f}×"]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant[-1])
def test_totals_are_over_rows_that_have_every_stage(variant: Variant, tmp_path) -> None:
    rows, side, keys, factor, words = variant
    value = uneven()
    change(value, rows, side, *keys, factor=factor)
    found = section(gathered(tmp_path, value))
    total_of(found, {side: rows})
    assert words in texts(found)


def test_copies_wrong_totals_and_few_ids_are_reported(tmp_path: Path) -> None:
    value = uneven()
    value["results"] += value["results"][3:4] * 11
    change(value, [2], "eventgpt", "total_time", factor=9.0)
    change(value, [5], "eventgpt", "output_text", factor="a road with cars")
    found = section(gathered(tmp_path, value))
    total_of(found, {})
    assert "left out, so that it counts once (11 of 23 rows: rows 12, 13," in texts(found)
    assert "total_time is not the sum of its parts (1 of 23 rows: row 2)." in texts(found)
    assert "the ids of 1 are not all of their text." in texts(found)


@pytest.mark.parametrize(
    ("factors", "sentence"),
    [
        ({"eventgpt": STAGES, "videollava": STAGES}, "a time of the row is in another unit than its key says"),
        ({"videollava": STAGES[4:]}, "no time of the row was taken (12 of 12 rows)"),
    ],
)
def test_times_in_another_unit_make_no_ratio(factors: dict[str, Any], sentence: str, tmp_path) -> None:
    value = uneven()
    for side, keys in factors.items():
        change(value, EVERY, side, *keys, factor=1000)
    if len(factors) == 2:
        with pytest.raises(UserError, match=sentence):
            gathered(tmp_path, value)
    else:
        found = section(gathered(tmp_path, value))
        assert "ratio" not in tables(found)[0].heads
        assert sentence in texts(found)


def test_models_under_each_others_keys_are_refused(tmp_path: Path) -> None:
    value = uneven()
    for row in value["results"]:
        row |= {"eventgpt": row["videollava"], "videollava": row["eventgpt"]}
    with pytest.raises(UserError, match="the row names the model Video-LLaVA"):
        gathered(tmp_path, value)


def test_ids_with_the_prompt_are_not_called_fewer(tmp_path: Path) -> None:
    words = texts(section(gathered(tmp_path, legacy_shapes.four_stages())))
    assert "without the prompt's ids." in words
    assert "not all of their text" not in words


def test_configurations_that_are_no_pair_stand_one_under_the_other(tmp_path: Path) -> None:
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
def test_every_family_has_its_problems_in_the_section(shape: str, tmp_path: Path) -> None:
    data = gathered(tmp_path, getattr(legacy_shapes, shape)())
    found = section(data)
    for problem in data.sources[0].facts["imports"][0]["problems"]:
        assert problem in texts(found)


def test_without_an_import_the_section_says_what_to_do(tmp_path: Path) -> None:
    data = gathered(tmp_path, legacy_shapes.sample_rows(3))
    runs = data.sources[0].runs
    empty = gather([Source(Path("S.evprof"), runs, {}, {})])
    assert "evprof import" in section(empty).missing
    for wrong in ({"imports": 3}, {"imports": [1, {"path": 7, "covers": []}]}):
        section(gather([Source(Path("S.evprof"), runs, {}, wrong)]))


def test_published_lengths_take_every_row_ours_those_whose_ids_are_whole(tmp_path) -> None:
    table = tables(section(gathered(tmp_path, legacy_shapes.sample_rows(4))))[0]
    row = row_of(table, "Generated tokens")  # EventGPT: 9 ids in three rows, 2 in the last, whose text has seven words
    assert row[2] == "7.2"
    assert row[5] == "9.0"
    assert "1 of 4 rows" in texts(section(gathered(tmp_path, legacy_shapes.sample_rows(4), "again.json")))


def test_over_no_run_a_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to report"):
        gathered(tmp_path, legacy_shapes.with_errors() | {"results": []})
