"""Sections of a report: their figures are those of the runs, each with where it comes from, and failures in none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean, stdev

import pytest

import cell_runs as scripted
from evprof.core.run_info import FAILED, ImportedFacts
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.export.report.data import ReportData, Source, gather
from evprof.export.report.parts import Badge, Cell, ReportPlot, Section
from evprof.export.report.rendering import markdown
from evprof.export.report.sections.environment import failures
from evprof.export.report.sections.times import overview, shares
from evprof.export.report.sections.times import section as section_of_stages
from evprof.export.report.writing import SECTIONS, build_report
from evprof.metrics.figures.stages import END_TO_END, MODEL_ONLY, WITHOUT_LOAD
from report_blocks import column, plots, tables

MS = 1_000_000
TIMES = {"load": 2.0, "preprocess": 3.0, "vision": 6.0, "prefill": 66.0, "decode": 92.0}


def made(
    run_id: int,
    cell: str = "draft",
    times: dict[str, float] | None = None,
    imported: ImportedFacts | None = None,
    **changes: object,
) -> RunLog:
    """A run whose stages of `times` ms follow each other, one ms of nothing at the end; of an imported one, none."""
    (run,) = scripted.Cell(
        cell, "draft", "draft", times or TIMES, tokens=range(3), prompt=641, samples=1, is_imported=imported is not None
    ).runs(run_id)
    run.info.end_ns = None if imported else (run.info.end_ns or 0) + MS
    run.info.sample, run.info.imported = Sample(name=f"s{run_id}", prompt="?"), imported
    run.info.started_at = "2026-01-24T20:15:21+00:00"
    for name, value in changes.items():
        setattr(run.info, name, value)
    return run


def data_of(*runs: RunLog, basis: str | None = END_TO_END, **facts: object) -> ReportData:
    return gather([Source(Path("s.evprof"), runs, {"device": "CPU", "torch": "2"}, facts)], basis, "evprof report")


def jittered(run_id: int, factor: float, cell: str = "draft") -> RunLog:
    return made(run_id, cell, {name: duration * factor for name, duration in TIMES.items()})


FACTORS = (1.0, 1.1, 0.95, 1.02, 0.99, 1.04)


@pytest.fixture
def repeated() -> ReportData:
    return data_of(*(jittered(number, factor) for number, factor in enumerate(FACTORS, start=1)))


def test_the_means_are_those_of_the_runs(repeated: ReportData) -> None:
    (details,) = tables(shares(repeated))
    means = dict(zip((cell.text for cell in column(details, "time")), column(details, "mean ± std"), strict=True))
    prefill, totals = [66.0 * factor for factor in FACTORS], [170.0 * factor - factor + 1 for factor in FACTORS]
    assert means["prefill"].text == f"{fmean(prefill):.1f} ± {stdev(prefill):.1f}"
    assert means["total"].text == f"{fmean(totals):.1f} ± {stdev(totals):.1f}"
    assert means["unattributed"].text == "1.000 ± 0"
    parts = [float(cell.text.removesuffix(" %")) for cell in column(details, "share")[:6]]
    assert sum(parts) == pytest.approx(100, abs=0.2)
    assert column(details, "minimum")[3].text == f"{min(prefill):.2f}"
    assert {cell.text for cell in column(details, "n")} == {"6"}


@pytest.mark.parametrize(("basis", "stages"), [(WITHOUT_LOAD, 5), (MODEL_ONLY, 3)])
def test_a_basis_leaves_its_stages_out_everywhere(basis: str, stages: int) -> None:
    data = data_of(made(1), basis=basis)
    (details,) = tables(shares(data))
    assert "load" not in [cell.text for cell in column(details, "time")]
    assert len(details.rows) == 3 + stages  # total, to first token, per token


def test_failed_rows_and_warm_up_are_in_no_figure() -> None:
    slow = {name: 50 * duration for name, duration in TIMES.items()}
    data = data_of(
        made(1),
        made(2),
        made(3, times=slow, status=FAILED, error="CUDA out of memory."),
        made(4, times=slow, status=FAILED, error="CUDA out of memory."),
        made(5, times=slow, warmup=True),
    )
    first = tables(overview(data))[0]
    assert [cell.text for cell in column(first, "runs")] == ["2"]
    assert column(first, "total")[0].text == "170.0 ± 0 ms"
    (table,) = tables(failures(data))
    assert [cell.text for cell in table.rows[0]] == ["CUDA out of memory.", "draft", "s3, s4", "failed", "2"]


def test_what_was_measured_in_one_piece_is_never_split() -> None:
    facts = ImportedFacts("rows.json", "five_stages", 0)
    times = {"preprocess": 3.0, "vision+prefill": 72.0, "decode": 92.0}
    data = data_of(made(1, times=times, imported=facts), basis=None)
    (details,) = tables(shares(data))
    names = [cell.text for cell in column(details, "time")]
    assert names[:4] == ["preprocess", "vision + prefill", "decode", "total"]
    assert column(details, "mean ± std")[1] == Cell("72.00", Badge.IMPORTED)
    (plot,) = plots(section_of_stages(data))
    assert [series.color for series in plot.series] == ["preprocess", "vision+prefill", "decode"]
    assert "vision and prefill are one interval (draft)" in markdown(build_report(data_of(made(1, times=times))))


def test_totals_count_on_the_widest_basis_that_all_have() -> None:
    facts = ImportedFacts("rows.json", "one_vs_eight", 0)
    times = {name: duration for name, duration in TIMES.items() if name != "load"}
    old = made(1, "old", times, imported=facts)
    assert data_of(made(2), basis=None).basis == END_TO_END
    assert data_of(old, made(2), basis=None).basis == WITHOUT_LOAD
    assert data_of(old, basis=END_TO_END).basis == END_TO_END
    without = section_of_stages(data_of(old, basis=END_TO_END))
    assert column(tables(without)[0], "end to end")[0].text == "n/a (n = 0)"


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (("a · x.json", "b · x.json"), ["a", "b"]),
        (("a · x.json", "b · y.json"), ["a · x.json", "b · y.json"]),
        (("a · x.json",), ["a · x.json"]),
        (("x.json", "b · x.json"), ["x.json", "b · x.json"]),
        (("a · 1 · z", "a · 2 · z"), ["a · 1", "a · 2"]),
        (("side-by-side · a", "side-by-side · b"), ["a", "b"]),
    ],
)
def test_names_leave_out_what_all_end_in(cells: tuple[str, ...], names: list[str]) -> None:
    assert data_of(*(made(number, cell) for number, cell in enumerate(cells, start=1))).names == names


def test_names_of_two_sessions_are_told_apart() -> None:
    sources = [Source(Path(f"{name}.evprof"), [made(1, "a"), made(2, "b")]) for name in ("old", "new")]
    assert gather(sources).names == ["a · old", "b · old", "a · new", "b · new"]
    doubled = [Source(Path("s.evprof"), [made(1, ""), made(2, "")])] * 2
    assert len(set(gather(doubled).names)) == 4


def test_warnings_are_counted_and_commands_quoted() -> None:
    runs = [made(1, "", warnings=["The GPU was busy."]), made(2, "", warnings=["The GPU was busy."])]
    for run in runs:
        run.info.group_id = 1
        run.info.sample = Sample("/data/a b.npy", prompt="what's there?")
    runs[1].info.repeat = 1
    suite = {"title": "T", "name": "t", "command": "evprof suite m.toml -o out", "cells": [], "problems": ["No video."]}
    text = markdown(build_report(data_of(*runs, suite=suite)))
    assert "- The GPU was busy. (2 runs)" in text
    assert "- No video." in text
    assert "evprof suite m.toml -o out\n" in text
    assert "--events '/data/a b.npy' --prompt 'what'\"'\"'s there?' --draft EventGPT-7b" in text
    assert "--repeat 2 -o s.evprof" in text


@pytest.mark.parametrize("wrong", [7, "text", [1], [{}], {"a": {}}, None, {"cells": 3, "problems": 4, "repeat": []}])
def test_facts_of_a_wrong_kind_are_no_error(wrong: object) -> None:
    run = made(1, environment={"gpu": wrong, "gpu_end": wrong})
    run.info.sample = Sample.from_facts({"name": "s", "prompt": "?", "events": wrong, "video": wrong})
    data = data_of(run, suite=wrong, imports=wrong)
    assert build_report(data).facts or wrong is None


def figures(section: Section) -> Iterator[tuple[str, Cell]]:
    for table in tables(section):
        for row in table.rows:
            for head, cell in list(zip(table.heads, row, strict=True))[table.text_columns :]:
                # Counts of rows are no figures, and have no badge.
                if head not in ("n", "runs", "samples", "rows", "finished", "did not", "parameters"):
                    yield f"{section.title}: {table.caption}: {head}", cell


@pytest.mark.parametrize(
    "section", SECTIONS, ids=lambda section: f"{section.__module__.rpartition('.')[2]}.{section.__name__}"
)
def test_every_figure_says_where_it_comes_from(section, repeated: ReportData, speculative_run: RunLog) -> None:
    facts = ImportedFacts("rows.json", "five_stages", 0, output_tokens=3)
    old = [
        made(20 + number, "old", {"vision": 2.0 + number, "prefill+decode": 9.0}, imported=facts) for number in range(3)
    ]
    failed = made(30, status=FAILED, error="No.")
    for data in (repeated, data_of(*repeated.runs, *old, failed, speculative_run, basis=MODEL_ONLY)):
        told = section(data)
        assert told.blocks or told.missing
        for place, cell in figures(told):
            if re.search(r"\d", cell.text) and not cell.text.startswith("n/a"):
                assert cell.badge is not None, f"{place}: {cell.text}"
        for block in told.blocks:
            if isinstance(block, ReportPlot):
                assert all(series.badge is not None for series in block.series), block.title


def test_the_head_says_what_the_report_is_over() -> None:
    data = data_of(
        made(1), made(2, started_at="2026-01-24T21:00:00+00:00"), made(3, status=FAILED), suite={"title": "Mine"}
    )
    report = build_report(data)
    assert report.title == "Mine"
    assert report.summary == "2 runs of 1 configuration on 2 samples; 1 run failed and enters no figure."
    assert dict(report.facts)["Recorded"] == "2026-01-24 20:15 to 21:00 UTC"
    assert build_report(data, "Other").title == "Other"
    assert len({section.title for section in report.sections}) == len(SECTIONS)
