"""Sections on models, operations, samples, memory, alignment and answer lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cell_runs
from evprof.core.records import SETTLED, BatchRow, SpanRecord, TensorRecord
from evprof.export.report.data import ReportData
from evprof.export.report.parts import Table
from evprof.export.report.sections import memory, models
from evprof.export.report.sections.answers import samples
from evprof.export.report.sections.comparisons import both_models, one_setting, same_input
from evprof.export.report.sections.speculation import alignment, by_answer_length
from evprof.export.report.sections.times import lengths, operations
from report_blocks import column, plots, rows_of, said, tables

MakeData = Callable[..., ReportData]


def test_both_models_side_by_side(published: ReportData) -> None:
    """Document 002's results: 7.3× the prompt, 1.55× the decode time, 7.3× the cache, each with its interval."""
    (table,) = tables(both_models(published))
    rows = rows_of(table)
    assert said(both_models(published)) == ("The prefill of LLaVA-1.5, 8 video frames holds the vision pass once more.")
    assert rows["prefill tokens"][:5] == ["636", "", "4,643", "", "7.30×"]
    assert rows["decode"][4].startswith("1.55× [")
    assert rows["KV cache"][4].startswith("7.30×")
    assert "prefill + decode" not in rows  # vision is in one of the two, and cannot be taken out
    assert rows["vision + prefill"][4].startswith("8.30×")
    assert "6 runs of" in table.caption


def test_shares_of_the_language_model(report_data: MakeData) -> None:
    here: dict[str, Any] = {"is_imported": False, "mode": "side-by-side", "name": "c", "tokens": range(10)}
    draft = cell_runs.Cell(role="draft", stages={"load": 8.0, "vision": 7.0, "prefill": 45.0, "decode": 900.0}, **here)
    target = cell_runs.Cell(
        role="target", stages={"load": 1.0, "vision": 9.0, "prefill": 90.0, "decode": 900.0}, **here
    )
    rows = rows_of(tables(both_models(report_data(draft, target)))[0])
    assert rows["prefill + decode"][1] == "98.4 %"
    assert rows["total, end-to-end"][1] == "100 %"


def test_files_that_time_generation_in_one_piece_have_a_rate(report_data: MakeData) -> None:
    """Document 003: 45.5 tokens in 0.977 s are 46.6 a second."""
    both = [
        cell_runs.Cell(
            name=role,
            role=role,
            stages={"load": 1.0, "preprocess": 1.0, "vision+prefill+decode": spent},
            tokens=(),
            output=tokens,
        )
        for role, spent, tokens in (("draft", 1000.0, 45), ("target", 2500.0, 100))
    ]
    (table,) = tables(lengths(report_data(*both)))
    assert column(table, "answer / (vision, prefill and decode)")[0].text.startswith("45.0")


def test_architectures_and_compression(published: ReportData) -> None:
    table, compressed = tables(models.section(published))
    rows = rows_of(table)
    assert rows["hidden"] == ["4,096", "4,096"]
    assert rows["vision layers"] == ["24", "23"]
    assert [cell.text for cell in compressed.rows[0][1:]] == ["1", "577", "577", "577", "1.00×"]


def _with_tensors(data: ReportData) -> ReportData:
    for run in data.runs:
        vision = run.stage("vision", run.info.role)
        assert vision is not None
        rows = (("in", "pixel_values", "5,3,336,336"), ("out", "visual embeddings", "582,4096"))
        for direction, name, shape in rows:
            run.absorb(TensorRecord(run.run_id, vision.span_id, direction, name, shape, "float16", 8))
        start = vision.start_ns
        run.absorb(
            SpanRecord(run.run_id, 50, vision.span_id, SETTLED, run.info.role, "tower", start, start + 2_000_000)
        )
        run.absorb(TensorRecord(run.run_id, 50, "out", "features", "5,577,1024", "float16", 8))
        run.absorb(TensorRecord(run.run_id, 50, "in", "picture", "480,640,3", "uint8", 8))
    return data


def test_operations_have_inputs_outputs_times_and_shares(report_data: MakeData) -> None:
    data = _with_tensors(report_data(cell_runs.DRAFT_002.with_(is_imported=False, tokens=(1, 2, 3))))
    (table,) = tables(operations(data))
    rows = {(row[0].text, row[1].text): [cell.text for cell in row[2:]] for row in table.rows}
    inside = rows["", "tower"]
    assert inside[:4] == ["picture [480, 640, 3] uint8", "features [5, 577, 1024] float16", "8 B", "2.000 ± 0 ms"]
    vision = next(cells for (stage, _), cells in rows.items() if stage == "vision")
    assert vision[4] == "3.5 %"


def test_samples_are_listed_one_by_one(report_data: MakeData) -> None:
    cell = cell_runs.DRAFT_002.with_(
        is_imported=False, samples=12, tokens=range(45), text="A road. " * 60, name="stages · side-by-side"
    )
    data = _with_tensors(report_data(cell))
    (table,) = tables(samples(data))
    assert len(table.rows) == 10
    assert [cell.text for cell in table.rows[0][:2]] == ["sample 0", "[582, 4096]"]
    assert table.rows[0][2].text.endswith("…")
    assert table.rows[0][table.heads.index("tokens")].text == "45"


def test_noted_caches_and_batches_are_told_and_garbage_is_not(report_data: MakeData) -> None:
    layout = {"model": "m", "cache": "dynamic", "shape": [1, 4, 9, 32], "strides": [1, 2], "is_contiguous": True}
    batch = BatchRow(
        "m", "draft", "cpu", "float32", 1, 4, 3, 9, 2, 8, 1.0, 2.0, 3.0, 2.0, 5.0, None, "rss", 64
    ).to_json()
    facts = {
        "cache_layout": [layout | {"per_layer_bytes": [1024, 1024], "used_bytes": float("nan")}, 3],
        "batches": [batch, batch | {"batch": 4, "samples_per_s": 6.0}, {"batch": "x"}, None],
    }
    data = report_data(cell_runs.Cell(), facts=facts)
    (layouts,), (batches,) = memory.layouts(data), memory.batches(data)
    assert isinstance(layouts, Table)
    assert isinstance(batches, Table)
    assert [cell.text for cell in layouts.rows[0][2:6]] == ["[1, 4, 9, 32]", "[1, 2]", "yes", "1.00 KiB"]
    assert [row[3].text for row in batches.rows] == ["1.00×", "3.00×"]
    assert memory.layouts(report_data(cell_runs.Cell(), facts={"cache_layout": {"a": 1}})) == []


def test_alignment_by_position(report_data: MakeData) -> None:
    base = {
        "draft": "d",
        "target": "t",
        "draft_tokens": 2,
        "target_tokens": 3,
        "cka": 0.5,
        "cka_shuffled": 0.25,
        "mean_cosine_elsewhere": 0.125,
        "space": "encoder",
    }
    rows = [{**base, "sample": "bus", "position": place, "cosine": value} for place, value in enumerate((0.25, 0.75))]
    none = {**base, "sample": "car", "position": 0, "cosine": None}
    section = alignment(report_data(cell_runs.Cell(), facts={"feature_alignment": [*rows, none, "x", {}]}))
    found = rows_of(tables(section)[0])
    assert found["bus"] == ["encoder", "2", "3", "2", "0.500", "0.250", "0.750", "0.125", "0.500", "0.250"]
    assert found["car"][3] == "n/a (n = 0)" == found["car"][4]
    (plot,) = plots(section)
    assert [series.x for series in plot.series] == [(0.0, 1.0)]
    assert alignment(report_data(cell_runs.Cell())) == []


def test_totals_by_length_of_the_answer(report_data: MakeData) -> None:
    cells = []
    for length, alone, drafted in ((5, 100.0, 100.0), (50, 300.0, 200.0)):
        asked = {"max_new_tokens": length, "ignore_eos": True, "frames": 8}
        plain = cell_runs.Cell(name=f"target {length}", is_imported=False, settings=asked, stages={"decode": alone})
        cells += [
            plain,
            plain.with_(name=f"hidden {length}", mode="parallel-prefill", stages={"decode": drafted}),
            plain.with_(
                name=f"late {length}",
                mode="parallel-prefill",
                settings={**asked, "speculation": {"begins": "prefill"}},
            ),
        ]
    (table,) = tables(by_answer_length(report_data(*cells)))
    ratio = table.heads.index("alone / drafted")
    assert [(row[0].text, row[ratio].text.split()[0], row[ratio].tone) for row in table.rows] == [
        ("5", "1.00×", ""),
        ("50", "1.50×", "good"),
    ]
    assert table.rows[0][-1].text == "6 and 6"


def test_settings_are_compared_one_at_a_time(report_data: MakeData) -> None:
    """An earlier configuration that differs in one setting is the first; equal ones, and all else, have no row."""
    plain = cell_runs.Cell(name="plain", mode="target", is_imported=False, stages={"vision": 10.0, "decode": 90.0})
    kept = plain.with_(
        name="kept", settings={"switches": {"visual_keep": 0.5}}, stages={"vision": 10.0, "decode": 40.0}
    )
    data = report_data(
        plain, kept, plain.with_(name="again"), plain.with_(name="two", settings={"seed": 1, "frames": 3})
    )
    (table,) = tables(one_setting(data))
    assert [[cell.text for cell in row[:3]] for row in table.rows] == [
        ["tokens kept: all → 0.5 by attention", "plain", "kept"],
        ["frames: model's own → 3 frames", "plain", "two"],
    ]
    assert [row[5].text.split()[0] for row in table.rows] == ["0.50×", "1.00×"]
    assert [row[5].tone for row in table.rows] == ["good", ""]
    assert table.rows[0][-1].text == "6 and 6"


def test_both_models_shown_the_same_input(report_data: MakeData) -> None:
    def cell(role: str, reads: str, spent: float) -> Any:
        settings = {"input": {f"{role}_input": reads}}
        return cell_runs.Cell(
            f"{role} {reads}", role, role, {"vision": spent}, is_imported=False, settings=settings, tokens=()
        )

    data = report_data(
        cell("draft", "events", 10.0),
        cell("draft", "video", 20.0),
        cell("target", "events", 30.0),
        cell("target", "x", 1.0),
    )
    (block,) = same_input(data)
    assert isinstance(block, Table)
    assert [row[0].text.split()[0] for row in block.rows] == ["events"]
    assert block.rows[0][3].text.startswith("3.00×")
