"""The five documents: the list of what they show, its page, and reports in its order."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import cell_runs
from evprof.cli import build_parser
from evprof.core.run_info import SpeculationFacts
from evprof.export.report.data import ReportData
from evprof.export.report.documents import (
    CLAIMS,
    FULL,
    ITEMS,
    NONE,
    PARTLY,
    Item,
    answered,
    document_sections,
    part_of,
    shown_by,
)
from evprof.export.report.parts import Heading, Report, Table
from evprof.export.report.rendering import html, markdown
from evprof.export.report.writing import build_report
from evprof.run.suites.ready import DOCUMENTS, READY
from site_pages.documents import page

ROOT = Path(__file__).resolve().parents[2]
MakeData = Callable[..., ReportData]
APART = {"preprocess": 78.7, "vision": 29.5, "prefill": 568.1, "decode": 143.9}
"""Document 002's target with a prefill that does not hold vision."""


@pytest.fixture
def measured(report_data: MakeData) -> ReportData:
    """Document 002's two configurations as if measured here, and an answer to the same elsewhere."""
    here = {"is_imported": False, "tokens": (1, 2, 3, 4, 5, 6), "text": "A car."}
    return report_data(
        cell_runs.DRAFT_002.with_(**here, name="one-vs-eight · side-by-side"),
        cell_runs.TARGET_002.with_(**here, stages=APART, name="one-vs-eight · side-by-side"),
        cell_runs.DRAFT_002.with_(**here, name="stages · side-by-side"),
    )


def test_the_page_is_what_the_list_says() -> None:
    assert (ROOT / "docs/documents.md").read_text(encoding="utf-8") == page(), (
        "write it again: PYTHONPATH=.:packaging .venv/bin/python -m site_pages.documents > docs/documents.md"
    )


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: f"{item.document}-{item.place[:30]}")
def test_an_item_has_needs_and_a_command_that_is_understood(item: Item) -> None:
    assert all(name == CLAIMS or callable(shown_by(name)) for name in item.shows)
    assert bool(item.shows) == bool(item.needs)
    assert item.needs or item.measured or item.beyond
    assert all(item.phrases)
    if item.measured:
        words = shlex.split(item.measured)
        assert build_parser().parse_args(words).command == words[0]
        if words[0] == "suite":
            assert words[1] in READY


def test_every_part_is_one_of_the_suite() -> None:
    assert {part for item in ITEMS for part in item.parts} <= set(READY[DOCUMENTS]["parts"])


def test_a_part_has_the_cells_called_after_it(measured: ReportData) -> None:
    names = [column.cell for column in part_of(measured, ("one-vs-eight",)).columns]
    assert names == ["one-vs-eight · side-by-side"] * 2
    # Of sessions that know no parts every configuration is taken.
    assert part_of(measured, ("loading",)) is measured


def marks(data: ReportData) -> dict[str, str]:
    return {entry.item.number: entry.mark for entry in answered(data)}


def test_marks_follow_what_the_sessions_hold(measured: ReportData) -> None:
    found = {entry.item.number: entry for entry in answered(measured)}
    assert len(found) == len(ITEMS)
    assert found["002.2"].mark == FULL
    assert any(isinstance(block, Table) for block in found["002.2"].blocks)
    # The same table of the same part is not shown twice.
    assert (found["002.3"].stands_at, list(found["002.3"].blocks)) == (found["002.2"], [])
    scaling = next(entry for entry in found.values() if entry.item.place == "Token Scaling Analysis")
    assert scaling.mark == NONE
    assert scaling.reason == "not in these sessions; measured by evprof suite token-scaling -o DIR"
    other = next(entry for entry in found.values() if entry.item.place.startswith("Phase 3: collect"))
    assert (other.mark, "evprof adapter collect" in other.reason) == (NONE, True)
    assert all(entry.reason for entry in found.values() if entry.mark != FULL)


def test_a_question_needs_what_it_asks(report_data: MakeData) -> None:
    """Plain runs, drafters and another kernel answer nothing about caches, formats, adapters and other frames."""
    plain = cell_runs.TARGET_002.with_(is_imported=False, mode="target", tokens=(1, 2, 3), text="A car.")
    eager = plain.with_(
        name="eager", model={"attention": "eager"}, settings={"switches": {"attention": "eager"}} | plain.settings
    )
    drafting = [
        plain.with_(
            name=kind, mode="speculative", rounds=((5, 1, 0),), speculation=SpeculationFacts(kind, kind, adapter)
        )
        for kind, adapter in (("model", None), ("lookup", None), ("eagle", "evprof-tiny-eagle"))
    ]
    found = marks(report_data(plain, *drafting, eager))
    unmeasured = ("000.12", "001.6", "001.8", "001.11", "001.15", "001.21", "001.22", "002.2", "003.12")
    assert {number: found[number] for number in unmeasured} == dict.fromkeys(unmeasured, NONE)
    assert (found["000.11"], found["001.14"], found["002.10"]) == (FULL, PARTLY, FULL)
    halved = plain.with_(name="half", settings=plain.settings | {"switches": {"visual_keep": 0.5}})
    found = marks(report_data(plain, halved))
    assert (found["000.12"], found["001.11"], found["001.15"]) == (PARTLY, PARTLY, NONE)


def test_a_part_of_an_answer_names_the_rest(report_data: MakeData) -> None:
    here = {"is_imported": False, "tokens": (1, 2, 3, 4, 5, 6), "text": "A car."}
    pair = [cell.with_(**here, stages={"load": 9.0} | APART) for cell in (cell_runs.DRAFT_002, cell_runs.TARGET_002)]
    found = {entry.item.number: entry for entry in answered(report_data(*pair))}
    shares = found["003.1"]  # The table has every stage, and no row for generation as a whole.
    assert (shares.mark, shares.reason) == (PARTLY, "without “generation” in its tables")
    assert found["002.4"].mark == FULL
    few = report_data(*(cell.with_(samples=3) for cell in pair))
    assert next(entry for entry in answered(few) if entry.item.number == "002.4").reason.endswith("5 scenes")
    drafting = cell_runs.TARGET_002.with_(**here, mode="speculative", rounds=((5, 1, 0),), samples=3)
    acceptance = next(entry for entry in answered(report_data(drafting)) if entry.item.number == "002.16")
    assert (acceptance.mark, acceptance.reason) == (
        NONE,
        "not in these sessions; measured by evprof suite drafters -o DIR",
    )
    drafting = drafting.with_(speculation=SpeculationFacts("model", "model"))
    acceptance = next(entry for entry in answered(report_data(drafting)) if entry.item.number == "002.16")
    assert (acceptance.mark, acceptance.reason) == (PARTLY, "without 5 scenes")


def test_the_report_counts_its_items_and_writes_them_in_order(measured: ReportData) -> None:
    summary, *documents = document_sections(measured)
    counts = next(block for block in summary.blocks if isinstance(block, Table))
    marks = Counter(entry.mark for entry in answered(measured))
    assert [cell.text for cell in counts.rows[-1][2:]] == [str(marks[mark]) for mark in (FULL, PARTLY, NONE)]
    heads = [block.text for section in documents for block in section.blocks if isinstance(block, Heading)]
    assert [head.split()[1] for head in heads] == [item.number for item in ITEMS]
    whole = build_report(measured, by_documents=True)
    assert [section.title for section in whole.sections[:2]] == ["The five documents", documents[0].title]
    text = markdown(Report("r", sections=tuple(documents)))
    assert f"### {heads[0]}" in text.replace("\\", "")
    page = html(Report("r", sections=tuple(documents)))
    assert '<h3 id="h-002-2-results-summary">✔ 002.2 Results Summary</h3>' in page
    assert '<p>Shown at <a href="#h-002-2-results-summary">✔ 002.2 Results Summary</a></p>' in page
