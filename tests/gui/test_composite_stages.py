"""Intervals that cover several stages: one striped bar, one line of figures, and what an imported file lacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QImage

from evprof.core.recording import RecordLog
from evprof.core.run_info import ImportedFacts
from evprof.core.run_log import RunBook, RunLog
from evprof.view.columns import ShownModel
from evprof.view.lanes import Track
from ui.columns.stage_strip import HEIGHT, StageStrip
from ui.run_facts.figures import compare
from ui.run_facts.run_text import lacking, stage_now
from ui.runs.pair_figures import ComparisonPanel
from ui.runs.run_details import span_sections, summary_sections
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder

FILE = ImportedFacts("/data/rows.json", "per_sample_rows", 7, output_tokens=41, notes=["Two parts are one here."])
STAGES = {"load+preprocess": 40.0, "vision": 20.0, "prefill+decode": 300.0}


@pytest.fixture
def scripted_recording(add_row: Callable[..., None]) -> RecordLog:
    """One imported row of both models, the second with its text."""
    recording = RecordLog()
    for run_id, role, text in ((1, "draft", None), (2, "target", "A car on a road.")):
        add_row(recording, run_id, STAGES, cell=role, role=role, mode="side-by-side", group=7, imported=FILE, text=text)
    return recording


@pytest.fixture
def imported(controller: RunController) -> RunLog:
    """The draft's half, which has no text."""
    return controller.runs[1]


def _colors(image: QImage, box: QRectF) -> set[str]:
    area = box.toRect()
    return {
        image.pixelColor(x, y).name()
        for x in range(area.left(), area.right() + 1)
        for y in range(area.top(), area.bottom() + 1)
    }


def test_the_strip_has_one_segment_per_interval(imported: RunLog, selection: Selection, themes: ThemeHolder) -> None:
    strip = StageStrip(selection, themes)
    strip.resize(400, HEIGHT)
    strip.show_column(ShownModel(imported, "draft"))
    assert [part.span.name for part in strip.segments()] == list(STAGES)
    image = strip.grab().toImage()
    last = strip.segments()[-1]
    found = _colors(image, QRectF(last.left + 200, 2, last.width - 210, HEIGHT - 4))
    assert {themes.theme.stage(name).name() for name in ("prefill", "decode")} <= found


def test_figures_have_a_line_for_the_piece_and_none_for_what_is_in_it(controller: RunController) -> None:
    a, b = ShownModel(controller.runs[1], "draft"), ShownModel(controller.runs[2], "target")
    rows = {row.name: row for row in compare(a, b)}
    assert (rows["prefill + decode"].a, rows["prefill + decode"].b) == ("300.0", "300.0")
    assert rows["vision"].a == "20.0"
    assert not {"prefill", "decode", "load", "preprocess"} & set(rows)
    alone = {row.name: row for row in compare(a, None)}
    assert alone["load + preprocess"].a == "40.0"
    assert alone["load + preprocess"].b == "–"


def test_the_inspector_says_that_nothing_was_divided(imported: RunLog) -> None:
    span = next(span for span in imported.spans.values() if span.name == "prefill+decode")
    (section,) = span_sections(imported, span)
    assert section.head.startswith("prefill + decode · ")
    assert "one time for prefill, decode" in section.note


def test_the_inspector_says_where_a_run_comes_from(imported: RunLog) -> None:
    section = next(part for part in summary_sections(ShownModel(imported, "draft"), None) if part.head == "Imported")
    assert [(detail.name, detail.text) for detail in section.details][:3] == [
        ("file", "rows.json"),
        ("family", "per sample rows"),
        ("row", "7"),
    ]
    assert section.note == "Two parts are one here."
    assert stage_now(imported, "draft") == "imported"
    imported.info.profiled = True
    assert stage_now(imported, "draft").endswith("tokens: profiled")  # the profiler limits its answer


def test_made_up_times_of_tokens_are_nowhere(imported: RunLog) -> None:
    track = Track(ShownModel(imported, "draft"))
    track.update()
    assert len(imported.tokens) == 3
    assert len(track.token_times()) == 0
    assert track.mean_latency_ms() is None


def test_what_a_file_lacks_is_said(imported: RunLog, runs_of_ours: dict[int, RunLog]) -> None:
    assert lacking([imported], "the time of each token") == "Not in rows.json: the time of each token."
    assert lacking([imported, runs_of_ours[1]], "anything") == ""


@pytest.fixture
def runs_of_ours(played: RecordLog) -> dict[int, RunLog]:
    """Runs that were made here."""
    book = RunBook(played)
    book.update()
    return dict(book.runs)


def test_the_comparison_takes_a_basis_that_the_file_has_a_total_on(add_row, themes: ThemeHolder) -> None:
    recording = RecordLog()
    for run_id in (1, 2):
        served = {"preprocess+vision+prefill": 80.0, "decode": 30.0}
        add_row(recording, run_id, served, cell="vLLM", role="target", mode="target", group=run_id, imported=FILE)
    made = RunController(recording)
    made.pull()
    one, other = (ShownModel(made.runs[number], "target") for number in (1, 2))
    panel = ComparisonPanel(themes)
    panel.show_columns(None, one)
    assert panel.basis.key == "without-load"
    panel.basis.choose("model-only")
    panel.show_columns(None, other)
    assert panel.basis.key == "model-only"
    made.close()
