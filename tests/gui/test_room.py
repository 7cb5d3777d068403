"""Where room is short: what is shortened, and by which rule; that nothing lies upon something else."""

from __future__ import annotations

from itertools import pairwise

import pytest
from PySide6.QtCore import QPoint, QRectF
from PySide6.QtGui import QFontMetricsF, QImage
from PySide6.QtWidgets import QApplication, QWidget

from evprof.core.records import STAGES, FrameRecord
from evprof.core.run_log import RunLog
from evprof.metrics.speculation.payoff import MeasuredSpeedup
from evprof.view.columns import ShownModel
from evprof.view.labels import short_stage_titles
from ui.clinic.plots import BreakEvenPlot
from ui.columns.model_pair import ModelPair
from ui.costs.kv_panel import KvPanel
from ui.costs.side_page import PictureAndSide
from ui.costs.visual_panel import VisualPanel
from ui.players.frame_strip import GAP, FramePictures, FrameStrip
from ui.players.play_clock import PlayClock
from ui.runs.inspector import Inspector
from ui.state.run_controller import RunController
from ui.state.selection import Selection, SpanRef
from ui.style.theme import ThemeHolder
from ui.widgets.boxes import stacked
from ui.widgets.figure_table import ROW, FigureTable, TableRow
from ui.widgets.layout import side_panel
from ui.widgets.message_bar import MessageBar
from ui.widgets.panel_parts import say, scrolling, sentence
from ui.window.actions import WindowActions

NARROWEST_PX = 880 - 176 - 300 - 2
"""What the least wide window leaves between its side panels, without the lines."""


def test_a_panel_that_comes_to_the_front_covers_no_message(themes: ThemeHolder, application: QApplication) -> None:
    window = QWidget()
    ground, panel, bar = QWidget(), QWidget(), MessageBar(themes)
    panel.setParent(ground)
    stacked(ground, 0, on=window)
    bar.float_over(ground)
    window.resize(600, 400)
    window.show()
    bar.post("A sentence that somebody has to read.")
    panel.setGeometry(0, 0, 600, 400)
    panel.show()
    panel.raise_()
    application.processEvents()
    found = window.childAt(QPoint(300, window.height() - 8))
    assert found is bar or bar.isAncestorOf(found)
    window.resize(500, 300)
    application.processEvents()
    assert bar.geometry().bottom() == ground.geometry().bottom()
    assert bar.width() == ground.width()
    window.close()
    window.deleteLater()


@pytest.mark.parametrize("words", ["", "A sentence whose height follows from the width it has, on a line or on three."])
def test_parts_that_scroll_never_lie_upon_one_another(
    themes: ThemeHolder, application: QApplication, words: str
) -> None:
    tables = [FigureTable(themes) for _ in range(3)]
    for table in tables:
        table.show_rows([TableRow(f"row {number}", ("1", "2")) for number in range(6)])
    told, ground = sentence(), QWidget()
    stacked(told, *tables, None, on=ground)
    area = scrolling(ground)
    area.resize(300, 140)
    area.show()
    say(told, words)
    application.processEvents()
    assert all(one.geometry().bottom() < other.geometry().top() for one, other in pairwise(tables))
    assert [table.height() for table in tables] == [6 * ROW] * 3
    assert (told.geometry().bottom() < tables[0].geometry().top()) == bool(words)
    area.close()
    area.deleteLater()


@pytest.mark.parametrize("kind", [KvPanel, VisualPanel])
def test_panels_of_picture_and_figures_fit_between_the_side_panels(
    kind: type[KvPanel | VisualPanel],
    controller: RunController,
    selection: Selection,
    themes: ThemeHolder,
    application: QApplication,
) -> None:
    panel = kind(controller, selection, themes)
    selection.set_runs(1, 2)
    panel.resize(900, 420)
    panel.show()
    application.processEvents()
    assert isinstance(panel.body, PictureAndSide)
    assert panel.minimumSizeHint().width() <= NARROWEST_PX
    panel.resize(NARROWEST_PX, 420)
    application.processEvents()
    assert panel.body.width() <= NARROWEST_PX
    panel.finish()
    panel.close()
    panel.deleteLater()


def test_no_two_stages_are_shortened_alike() -> None:
    shortest = [short_stage_titles(stage)[-1] for stage in STAGES]
    assert len(set(shortest)) == len(STAGES)
    assert "load" in shortest, "a word of four letters is not cut"
    assert short_stage_titles("vision+prefill") == ["vision + prefill", "vis + fill", "v+p"]


@pytest.mark.parametrize("width", [70, 120, 200, 400])
def test_times_below_frames_keep_clear_of_one_another(themes: ThemeHolder, runs: dict[int, RunLog], width: int) -> None:
    strip = FrameStrip(themes, PlayClock())
    strip.resize(width, 110)
    records = [FrameRecord(1, "target", place, 150_000 * place, 150_000 * place, "", b"") for place in range(8)]
    pictures = FramePictures(ShownModel(runs[2], "target"))
    pictures.records, pictures.images = records, [QImage(64, 48, QImage.Format.Format_RGB32) for _ in records]
    strip._pictures = pictures
    metrics = QFontMetricsF(themes.theme.font(10.0))
    cells = strip.cells()
    labels = strip._labels(metrics, cells)
    boxes = [
        QRectF(cell.left(), cell.bottom(), metrics.horizontalAdvance(label), 14)
        for cell, label in zip(cells, labels, strict=True)
        if label
    ]
    assert labels[0].startswith("0")
    for one, other in pairwise(boxes):
        assert one.top() != other.top() or one.right() + GAP <= other.left() + 0.01
    assert max(box.right() for box in boxes) <= width
    strip.deleteLater()


def test_what_is_chosen_comes_into_sight(
    controller: RunController, selection: Selection, themes: ThemeHolder, application: QApplication
) -> None:
    """In a low window the details stand below the comparison: nobody who clicked a stage saw them."""
    above, inspector = QWidget(), Inspector(selection, controller, themes)
    above.setFixedHeight(500)
    panel = side_panel(above, inspector)
    panel.resize(300, 400)
    panel.show()
    application.processEvents()
    assert inspector.visibleRegion().isEmpty()
    span = controller.runs[2].stage("prefill", "target")
    assert span is not None
    selection.select(SpanRef(2, span.span_id))
    application.processEvents()
    assert inspector.visibleRegion().boundingRect().height() >= 130
    place = panel.verticalScrollBar().value()
    selection.select(SpanRef(2, span.span_id + 1))
    application.processEvents()
    assert panel.verticalScrollBar().value() == place, "what is in sight stays where it is"
    panel.close()
    panel.deleteLater()


def test_a_wide_interval_leaves_the_curve_its_height(themes: ThemeHolder) -> None:
    plot = BreakEvenPlot(themes)
    curve = [(gamma, 0.9 - 0.04 * gamma) for gamma in range(1, 13)]
    for ends in ((0.19, 6.8), (0.5, 0.9)):
        plot.show_curves(curve, [], None, (4.0, MeasuredSpeedup("decode", 0.67, ends, 3, 3)))
        top = plot.box.viewRange()[1][1]
        assert 1.25 <= top <= 2.2
    plot.deleteLater()


def test_the_menu_fits_a_low_screen(application: QApplication) -> None:
    """Qt breaks one that is too high into two columns, of which the second looks like another menu."""
    window = QWidget()
    menu = WindowActions(window).menu(window)
    assert menu.actionGeometry(menu.actions()[0]).left() == menu.actionGeometry(menu.actions()[-1]).left()
    assert sum(menu.actionGeometry(action).height() for action in menu.actions()) <= 720 - 24
    window.deleteLater()


@pytest.mark.parametrize("width", [420, 478, 560, 700, 798, 900, 1300])
def test_a_models_name_is_whole_or_ends_in_dots(
    runs: dict[int, RunLog], selection: Selection, themes: ThemeHolder, application: QApplication, width: int
) -> None:
    pair = ModelPair(selection, themes)
    pair.resize(1600, 700)
    pair.show()
    pair.show_columns(ShownModel(runs[1], "draft"), ShownModel(runs[2], "target"))
    pair.resize(width, 700)
    application.processEvents()
    for head in (pair.left.head, pair.right.head):
        assert head._name.width() >= head._name.sizeHint().width()
        shown = [part for part in (head._name, head._chips, head._part) if not part.isHidden()]
        assert all(part.width() >= part.sizeHint().width() for part in shown)
        assert head._state.text == "finished"
        assert head._state.width() >= head._state.sizeHint().width()
        assert head._state.geometry().right() < head.width()
    pair.close_feeds()
    pair.close()
    pair.deleteLater()
