"""The acceptance clinic: what it shows of scripted runs, its way back into the window, sliders; that it goes away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from evprof.core.protocols import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import JudgementRecord, RoundRecord, TokenRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import RunInfo, SpeculationFacts
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.metrics.speculation.clinic import (
    DRAFT_RATE,
    TOKEN_RATE,
    definitions,
    per_position,
)
from evprof.metrics.speculation.failure_modes import KINDS, counts, first_rejections
from evprof.metrics.speculation.outcome import acceptance
from evprof.metrics.speculation.payoff import DECODE, prediction_of
from evprof.metrics.speculation.verdicts import speculation_sentence
from scripted_engine import ScriptedEngine
from told import in_processes
from ui.clinic.break_even import ALPHA, GAMMA, TOKENS, VERIFY, WhatIf
from ui.clinic.window import ClinicDialog
from ui.run_facts.run_text import chance_text, piece_text
from ui.runs.speculation_panel import SpeculationPanel
from ui.state.run_controller import RunController
from ui.state.selection import RoundRef, Selection
from ui.style.theme import ThemeHolder

SPECULATIVE, PLAIN, HIDDEN, LOSSY = 2, 6, 10, 12
"""Run ids of the first of three speculative and three plain repeats, of a parallel prefill and an adapted cache."""


def played(sink: RecordLog) -> None:
    """Three speculative repeats, three plain ones, one parallel prefill, one adapted cache; slow enough to be timed."""
    engine = ScriptedEngine(speed=60)
    sample = Sample("/gone/scene.npy", "/gone/scene.mp4", "What is in the scene?", "scene")
    draft = target = ModelChoice("scripted")
    first = 1
    for group, (mode, repeat) in enumerate(
        (("speculative", 3), ("target", 3), ("parallel-prefill", 1), ("kv-adapted", 1)), start=1
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
def controller(application: QApplication, recording: RecordLog) -> Iterator[RunController]:
    made = RunController(recording)
    made.pull()
    in_processes(made.runs.values())
    yield made
    made.close()


@pytest.fixture
def dialog(
    application: QApplication, controller: RunController, selection: Selection, themes: ThemeHolder
) -> Iterator[ClinicDialog]:
    """The clinic of the first speculative run."""
    selection.set_runs(SPECULATIVE, SPECULATIVE)
    made = ClinicDialog(controller, selection, themes)
    made.show()
    application.processEvents()
    yield made
    made.close()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def others(dialog: ClinicDialog) -> list[RunLog]:
    return list(dialog._controller.runs.values())


def test_without_speculation_it_teaches_and_offers_a_run(dialog: ClinicDialog, selection: Selection) -> None:
    asked: list[str] = []
    dialog.run_asked.connect(asked.append)
    selection.set_runs(None, PLAIN)
    assert dialog.empty.isVisible()
    assert not dialog.body.isVisible()
    assert dialog.clinic is None
    dialog.empty.activated.emit()
    assert asked == ["speculative"]


def test_too_few_runs_are_not_called(dialog: ClinicDialog, selection: Selection) -> None:
    lone = next(run for run in others(dialog) if run.info.mode == "parallel-prefill" and not run.info.warmup)
    selection.set_runs(lone.run_id, lone.run_id)
    assert dialog.clinic.sentence == speculation_sentence(lone, others(dialog))
    assert "not called faster or slower" in dialog.clinic.sentence


def test_definitions_stand_with_their_counts(dialog: ClinicDialog) -> None:
    run = dialog._controller.runs[SPECULATIVE]
    alone = {entry.name: entry for entry in definitions(run)}
    shown = {entry.name: entry for entry in dialog.clinic.definitions}
    table = dialog.definitions.list
    assert dialog.definitions.warning.isVisible()
    assert [table.item(row, 0).text() for row in range(table.rowCount())] == list(shown)
    # Three equal repeats are one answer.
    for name, entry in alone.items():
        assert shown[name].value == pytest.approx(entry.value)
        assert shown[name].denominator == entry.denominator
    texts = [table.item(row, column).text() for row in range(table.rowCount()) for column in range(4)]
    counted = acceptance(run)
    assert f"{counted.accepted} / {counted.drafted}" in texts
    assert f"{100 * counted.draft_acceptance_rate:.1f} %" in texts
    assert any(text.startswith(alone[DRAFT_RATE].formula) for text in texts)


def test_places_and_rounds_are_those_of_the_metrics(dialog: ClinicDialog) -> None:
    dialog.tabs.setCurrentIndex(1)
    run = dialog._controller.runs[SPECULATIVE]
    assert dialog.places.places.positions == tuple(per_position(run))
    assert sum(dialog.places.histogram.counts.values()) == len(run.rounds)
    assert dialog.places.places.isVisible()
    assert "judged at 1" in dialog.places.places.accessibleDescription()
    dialog.resize(dialog.width() + 40, dialog.height())
    QApplication.processEvents()
    texts = [item for item in dialog.places.histogram.scene().items() if type(item).__name__ == "TextItem"]
    assert len(texts) == len(dialog.places.histogram.counts)


def test_failures_are_counted_listed_and_filtered(dialog: ClinicDialog) -> None:
    dialog.tabs.setCurrentIndex(2)
    found = first_rejections(dialog._controller.runs[SPECULATIVE])
    counted = counts(found)
    assert found
    page = dialog.failures
    assert page.model.rows == found
    for kind in KINDS:
        page.kinds.choose(kind)
        assert len(page.model.rows) == counted[kind]
        assert {entry.kind for entry in page.model.rows} <= {kind}
    page.kinds.choose("all")
    first = page.model.index(0, 2)
    assert page.model.data(first) == piece_text(found[0].draft_piece)
    assert page.model.data(page.model.index(0, 3)) == chance_text(found[0].draft_chance)
    assert page.model.data(page.model.index(0, 6)) == chance_text(found[0].target_chance)
    assert page.model.headerData(7, Qt.Orientation.Horizontal) == "kind"


def test_a_line_leads_to_its_round_and_its_place_in_the_text(dialog: ClinicDialog, selection: Selection) -> None:
    run = dialog._controller.runs[SPECULATIVE]
    dialog.tabs.setCurrentIndex(2)
    table = dialog.failures.table
    place = table.visualRect(dialog.failures.model.index(1, 2)).center()
    QTest.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=place)
    chosen = dialog.failures.model.rows[1]
    assert selection.chosen == RoundRef(run.run_id, chosen.round_index)
    QTest.keyClick(table, Qt.Key.Key_Down)
    later = dialog.failures.model.rows[2]
    assert selection.chosen == RoundRef(run.run_id, later.round_index)


def test_break_even_stands_on_what_was_measured(dialog: ClinicDialog) -> None:
    dialog.tabs.setCurrentIndex(3)
    page, run = dialog.break_even, dialog._controller.runs[SPECULATIVE]
    found = prediction_of(run, others(dialog))
    assert found is not None
    assert page.sentence.text == speculation_sentence(run, others(dialog))
    gamma, measured = page.plot.measured
    assert (gamma, measured) == (found.mean_gamma, found.of(DECODE))
    assert measured.interval is not None
    assert page.plot.here is None
    assert not page.sliders.back.isEnabled()


@pytest.mark.parametrize("name", [GAMMA, ALPHA, TOKENS, VERIFY])
def test_every_slider_changes_sentence_and_curve(dialog: ClinicDialog, name: str) -> None:
    dialog.tabs.setCurrentIndex(3)
    page = dialog.break_even
    slider = page.sliders.sliders[name]
    before, curve, measured = page.sentence.text, page.plot.decode, page.plot.measured
    slider.setFocus()
    QTest.keyClick(slider, Qt.Key.Key_PageUp if slider.value() < slider.maximum() else Qt.Key.Key_PageDown)
    assert page.sentence.text != before
    assert page.sentence.text == page.state.sentence
    # How many are drafted is the axis itself; everything else moves the curve.
    assert (page.plot.decode == curve) == (name == GAMMA)
    assert page.plot.measured == measured
    assert page.plot.here is not None
    QTest.mouseClick(page.sliders.back, Qt.MouseButton.LeftButton)
    assert page.sentence.text == before
    assert page.plot.here is None
    assert not page.state.assumed


def test_what_is_assumed_stays_while_the_run_is_the_same(
    dialog: ClinicDialog, selection: Selection, controller: RunController
) -> None:
    page = dialog.break_even
    page.sliders.sliders[ALPHA].setValue(90)
    dialog._key = None
    dialog._fill()
    assert page.state.assumed[ALPHA] == 0.9
    selection.set_runs(SPECULATIVE + 1, SPECULATIVE + 1)
    assert not page.state.assumed


def test_more_acceptance_saves_more_and_a_dear_verification_cannot_pay(dialog: ClinicDialog) -> None:
    state = dialog.break_even.state
    assert state is not None
    saved = [state.with_value(ALPHA, alpha).saved_ms for alpha in (0.0, 0.3, 0.6, 0.9, 1.0)]
    assert saved == sorted(saved)
    assert "would save" in state.with_value(ALPHA, 1.0).with_value(TOKENS, 1000).sentence
    dear = state.with_value(VERIFY, 50.0)
    assert "it cannot pay at any acceptance" in dear.sentence
    assert WhatIf(state.measured).value(VERIFY) == pytest.approx(state.measured.v)


def test_without_a_plain_run_break_even_says_what_it_takes(
    application: QApplication, selection: Selection, themes: ThemeHolder
) -> None:
    recording = RecordLog()
    sample = Sample("/gone/scene.npy", "/gone/scene.mp4", "What?", "scene")
    draft = target = ModelChoice("scripted")
    ScriptedEngine(speed=2000).run(RunRequest("speculative", sample, draft, target), recording, threading.Event())
    controller = RunController(recording)
    controller.pull()
    selection.set_runs(1, 1)
    dialog = ClinicDialog(controller, selection, themes)
    dialog.tabs.setCurrentIndex(3)
    dialog.show()
    application.processEvents()
    assert dialog.break_even.empty.isVisible()
    asked: list[str] = []
    dialog.run_asked.connect(asked.append)
    dialog.break_even.empty.activated.emit()
    assert asked == ["target"]
    dialog.close()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def test_parallel_prefill_and_an_adapted_cache_have_their_own_words(
    dialog: ClinicDialog, selection: Selection, application: QApplication
) -> None:
    selection.set_runs(HIDDEN, HIDDEN)
    names = [entry.name for entry in dialog.clinic.definitions]
    assert "hidden acceptance" in names
    dialog.tabs.setCurrentIndex(3)
    application.processEvents()
    assert dialog.break_even.empty.isVisible()
    selection.set_runs(LOSSY, LOSSY)
    application.processEvents()
    assert dialog.badge.isVisible()
    assert "may differ from the target's own" in dialog.lossy.text()
    assert [entry.name for entry in dialog.clinic.definitions] == ["agreement with the plain answer"]
    assert 0 < dialog.clinic.definitions[0].value < 1
    dialog.tabs.setCurrentIndex(1)
    assert not dialog.places.places.isVisible()


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
    application: QApplication, selection: Selection, themes: ThemeHolder, recording: RecordLog, wait_until: Callable
) -> None:
    growing = RecordLog()
    controller = RunController(growing)
    selection.set_runs(1, 1)
    dialog = ClinicDialog(controller, selection, themes)
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
    wait_until(lambda: dialog.clinic.histogram)
    by_name = {entry.name: entry.value for entry in dialog.clinic.definitions}
    assert by_name[TOKEN_RATE] is not None
    dialog.close()
    controller.close()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.mark.parametrize("ids", ["1,x,,2", "", "-5", "9" * 5000])
@pytest.mark.parametrize(("drafted", "accepted", "emitted"), [(3, 0, 1), (0, 7, 0), (-2, -1, -5), (10**12, 2, 2)])
def test_rounds_that_cannot_be_break_nothing(
    application: QApplication,
    selection: Selection,
    themes: ThemeHolder,
    ids: str,
    *,
    drafted: int,
    accepted: int,
    emitted: int,
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
    controller = RunController(recording)
    controller.pull()
    selection.set_runs(1, 1)
    dialog = ClinicDialog(controller, selection, themes)
    dialog.show()
    for place in range(dialog.tabs.count()):
        dialog.tabs.setCurrentIndex(place)
        application.processEvents()
    for entry in dialog.failures.model.rows:
        dialog.failures.round_chosen.emit(entry)
    panel = SpeculationPanel(themes)
    panel.show_run(controller.runs[1], controller.runs)
    dialog.close()
    controller.close()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)
