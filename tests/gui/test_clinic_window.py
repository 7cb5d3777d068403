"""The acceptance clinic: what it shows of scripted runs, the selection of a round, and the sliders."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTableWidget

from evprof.core.protocols import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import JudgementRecord, RoundRecord, TokenRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import RunInfo, SpeculationFacts
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.metrics.speculation.clinic import DRAFT_RATE, TOKEN_RATE, definitions
from evprof.metrics.speculation.failure_modes import first_rejections
from evprof.metrics.speculation.outcome import acceptance
from evprof.metrics.speculation.payoff import DECODE, prediction_of
from evprof.metrics.speculation.verdicts import speculation_sentence
from kept import Keep
from scripted_engine import ScriptedEngine
from told import in_turns
from ui.clinic.break_even import WhatIf
from ui.clinic.window import REJECTION_HEADS, ClinicDialog, rejection_cells
from ui.run_facts.run_text import chance_text, piece_text
from ui.runs.speculation_panel import SpeculationPanel
from ui.state.run_controller import RunController
from ui.state.selection import RoundRef, Selection
from ui.style.theme import ThemeHolder

SPECULATIVE, PLAIN, HIDDEN, LOSSY = 2, 8, 14, 16
"""Run ids of the first of five speculative and five plain repeats, of a parallel prefill and an adapted cache."""


def played(sink: RecordLog) -> None:
    """Five speculative repeats, five plain ones, one parallel prefill, one adapted cache; slow enough to be timed."""
    engine = ScriptedEngine(speed=60)
    sample = Sample("/gone/scene.npy", "/gone/scene.mp4", "What is in the scene?", "scene")
    draft = target = ModelChoice("scripted")
    first = 1
    for group, (mode, repeat) in enumerate(
        (("speculative", 5), ("target", 5), ("parallel-prefill", 1), ("kv-adapted", 1)), start=1
    ):
        adapter = "somewhere" if mode == "kv-adapted" else None
        settings = GenerationSettings(speculation=SpeculationSettings(adapter=adapter))
        request = RunRequest(
            mode, sample, draft, target, settings=settings, warmup=1, repeat=repeat, first_run_id=first, group_id=group
        )
        engine.run(request, sink, threading.Event())
        first += 1 + repeat


@pytest.fixture(scope="module")
def recording() -> RecordLog:
    made = RecordLog()
    played(made)
    return made


@pytest.fixture
def controller(recording: RecordLog, pulled: Callable[..., RunController]) -> RunController:
    made = pulled(recording)
    in_turns(made.runs.values())
    return made


@pytest.fixture
def dialog(application, controller: RunController, selection: Selection, themes: ThemeHolder, keep) -> ClinicDialog:
    """The clinic of the first speculative run."""
    selection.set_runs(SPECULATIVE, SPECULATIVE)
    made = ClinicDialog(controller, selection, themes)
    made.show()
    application.processEvents()
    return keep(made)


def others(dialog: ClinicDialog) -> list[RunLog]:
    return list(dialog._controller.runs.values())


def texts_of(table: QTableWidget, row: int) -> tuple[str, ...]:
    return tuple(table.item(row, column).text() for column in range(table.columnCount()))


def test_without_speculation_it_offers_a_run(dialog: ClinicDialog, selection: Selection) -> None:
    asked: list[str] = []
    dialog.run_asked.connect(asked.append)
    selection.set_runs(None, PLAIN)
    assert dialog.empty.isVisible()
    # The session has runs that speculate: it names them.
    assert dialog.empty.words[1] == "Choose one in the list: runs 1, 2, … 16 (10 runs)."
    assert not dialog.body.isVisible()
    assert dialog.clinic is None
    dialog.empty.activated.emit()
    assert asked == ["speculative"]


def test_definitions_stand_with_their_counts(dialog: ClinicDialog) -> None:
    run = dialog._controller.runs[SPECULATIVE]
    alone = {entry.name: entry for entry in definitions(run)}
    shown = {entry.name: entry for entry in dialog.clinic.definitions}
    rows = [texts_of(dialog.definitions, row) for row in range(dialog.definitions.rowCount())]
    assert dialog.warning.isVisible()
    assert [row[0] for row in rows] == list(shown)
    # Three equal repeats are one answer.
    assert {name: entry.denominator for name, entry in alone.items()} == {
        name: shown[name].denominator for name in alone
    }
    counted = acceptance(run)
    rate = next(row for row in rows if row[0] == DRAFT_RATE)
    assert rate[1].startswith(alone[DRAFT_RATE].formula)
    assert rate[2:] == (f"{counted.accepted} / {counted.drafted}", f"{100 * counted.draft_acceptance_rate:.1f} %")


def test_a_rejection_leads_to_its_round(dialog: ClinicDialog, selection: Selection) -> None:
    run = dialog._controller.runs[SPECULATIVE]
    found = first_rejections(run)
    assert len(found) > 2
    assert dialog.rejections.rowCount() == len(found)
    assert texts_of(dialog.rejections, 0) == rejection_cells(found[0])
    assert rejection_cells(found[0])[REJECTION_HEADS.index("draft")] == piece_text(found[0].draft_piece)
    place = dialog.rejections.visualRect(dialog.rejections.model().index(0, 2)).center()
    QTest.mouseClick(dialog.rejections.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert selection.chosen == RoundRef(run.run_id, found[0].round_index)
    QTest.keyClick(dialog.rejections, Qt.Key.Key_Down)
    assert selection.chosen == RoundRef(run.run_id, found[1].round_index)


def test_break_even_shows_the_measured_point(dialog: ClinicDialog) -> None:
    run = dialog._controller.runs[SPECULATIVE]
    found = prediction_of(run, others(dialog))
    assert dialog.sentence.text == speculation_sentence(run, others(dialog))
    assert dialog.plot.measured == found.measured[DECODE]
    assert dialog.plot.measured.interval is not None
    assert dialog.plot.state == WhatIf(found)
    assert not dialog.sliders.back.isEnabled()


@pytest.mark.parametrize("name", ["gamma", "alpha"])
def test_a_slider_changes_the_sentence_until_it_goes_back(dialog: ClinicDialog, name: str) -> None:
    slider = getattr(dialog.sliders, name)
    before, curve, measured = dialog.sentence.text, dialog.plot.state.curve(), dialog.plot.measured
    slider.setFocus()
    QTest.keyClick(slider, Qt.Key.Key_PageUp if slider.value() < slider.maximum() else Qt.Key.Key_PageDown)
    assert dialog.sentence.text == dialog.plot.state.sentence != before
    # The axis of the curve is the number of drafted tokens.
    assert (dialog.plot.state.curve() == curve) == (name == "gamma")
    assert dialog.plot.measured == measured
    QTest.mouseClick(dialog.sliders.back, Qt.MouseButton.LeftButton)
    assert dialog.sentence.text == before
    assert not dialog.plot.state.is_assumed


def test_assumed_values_stay_while_the_run_is_the_same(dialog: ClinicDialog, selection: Selection) -> None:
    dialog.sliders.alpha.setValue(90)
    dialog._key = None
    dialog._fill()
    assert dialog.plot.state.alpha == 0.9
    selection.set_runs(SPECULATIVE + 1, SPECULATIVE + 1)
    assert not dialog.plot.state.is_assumed


def test_other_modes_have_no_break_even(dialog: ClinicDialog, selection: Selection) -> None:
    selection.set_runs(HIDDEN, HIDDEN)
    assert "hidden acceptance" in [entry.name for entry in dialog.clinic.definitions]
    assert "not called" in dialog.clinic.sentence
    assert not dialog.break_even.isVisible()
    assert not dialog.no_plain.isVisible()  # it has a baseline
    selection.set_runs(LOSSY, LOSSY)
    assert dialog.badge.isVisible()
    assert "may differ from the target's own" in dialog.lossy.text()
    assert [entry.name for entry in dialog.clinic.definitions] == ["agreement with the plain answer"]
    assert 0 < dialog.clinic.definitions[0].value < 1


def test_pieces_and_chances_are_told_apart() -> None:
    assert piece_text(" car") == "␣car"
    assert piece_text("") == "(end)"
    assert (chance_text(None), chance_text(0.0), chance_text(0.5), chance_text(1.0)) == (
        "–",
        "< 0.1 %",
        "50.0 %",
        "100.0 %",
    )


def test_a_run_that_goes_on_fills_it(
    selection: Selection, themes: ThemeHolder, recording: RecordLog, wait_until: Callable, keep: Keep
) -> None:
    growing = RecordLog()
    controller = keep(RunController(growing))
    selection.set_runs(1, 1)
    dialog = keep(ClinicDialog(controller, selection, themes))
    dialog.show()
    assert dialog.empty.isVisible()
    for message in recording.messages():
        if getattr(message, "run_id", None) == 1:
            growing.post(message)
    controller.pull()
    wait_until(lambda: dialog.clinic is not None)
    assert dialog.clinic.definitions[0].value is None
    for name, stream in recording.streams.items():
        growing.extend(name, [row for row in stream.rows() if row[0] == 1])
    controller.pull()
    wait_until(lambda: any(entry.name == TOKEN_RATE for entry in dialog.clinic.definitions if entry.value is not None))


@pytest.mark.parametrize("ids", ["1,x,,2", "", "-5", "9" * 5000])
@pytest.mark.parametrize(("drafted", "accepted", "emitted"), [(3, 0, 1), (0, 7, 0), (-2, -1, -5), (10**12, 2, 2)])
def test_rounds_that_cannot_be_break_nothing(
    selection: Selection, themes: ThemeHolder, ids: str, *, pulled, keep, drafted: int, accepted: int, emitted: int
) -> None:
    recording = RecordLog()
    info = RunInfo(1, 1, 0, "target", "speculative", sample=Sample(name="a"), start_ns=0)
    info.speculation = SpeculationFacts("x", "model", tree="a,b" if accepted == 7 else "")
    recording.post(RunStarted(1, info))
    for place, round_index in ((0, -1), (1, 99), (7, 0)):
        recording.append(TokenRecord(1, "target", place, 1, "weird", round_index, 5, "a"))
    recording.append(JudgementRecord(1, 5, -3, -9, 1, 2, 0, -5, 10**9, 3, -1, "", ""))
    for round_index in (0, 0, 9):
        recording.append(RoundRecord(1, round_index, -5, 5, -5, 5, drafted, accepted, emitted, ids, 1))
    controller = pulled(recording)
    selection.set_runs(1, 1)
    dialog = keep(ClinicDialog(controller, selection, themes))
    dialog.show()
    QApplication.processEvents()
    for row in range(dialog.rejections.rowCount()):
        dialog.rejections.setCurrentCell(row, 0)
    panel = SpeculationPanel(themes)
    panel.show_run(controller.runs[1], controller.runs)
