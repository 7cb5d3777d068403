"""Parallel prefill, drafters without a model and lossy answers in the window: lanes, columns, badges, marks."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from PySide6.QtCore import QPointF
from PySide6.QtGui import QTextCharFormat
from PySide6.QtWidgets import QLabel

from evprof.core.protocols import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import (
    BEGIN,
    DRAFT,
    END,
    ORIGIN_DRAFT,
    SETTLED,
    TARGET,
    RoundRecord,
    SpanRecord,
    TokenRecord,
)
from evprof.core.request import RunRequest
from evprof.core.run_info import RunInfo
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.figures import stages
from evprof.view.columns import ShownModel, columns_of
from evprof.view.overlap import overlap_of
from scripted_engine import ScriptedEngine
from ui.columns.model_pair import ModelPair
from ui.comparison.sheet import title_parts
from ui.run_facts.figures import compare, figure_text
from ui.runs.run_entries import RunEntries
from ui.runs.speculation_panel import SpeculationPanel
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder
from ui.timeline.speculation_lanes import shown_overlap, wordings
from ui.timeline.timeline_view import TimelineView

MS = 1_000_000

HIDDEN, LOOKUP, LOSSY, PLAIN = 1, 2, 3, 4


@pytest.fixture(scope="module")
def scripted_recording() -> RecordLog:
    made = RecordLog()
    engine = ScriptedEngine(speed=200)
    sample = Sample("/gone/scene.npy", "/gone/scene.mp4", "What is in the scene?", "scene")
    draft = target = ModelChoice("scripted")
    for run_id, (mode, asked) in enumerate(
        (
            ("parallel-prefill", SpeculationSettings(afterwards="rounds")),
            ("speculative", SpeculationSettings(drafter="lookup")),
            ("kv-adapted", SpeculationSettings(adapter="somewhere")),
            ("target", SpeculationSettings()),
        ),
        start=1,
    ):
        settings = GenerationSettings(speculation=asked)
        request = RunRequest(mode, sample, draft, target, settings, first_run_id=run_id, group_id=run_id)
        engine.run(request, made, threading.Event())
    return made


@pytest.fixture
def view(make_timeline: Callable[..., TimelineView], controller: RunController) -> TimelineView:
    return make_timeline(controller, HIDDEN, HIDDEN, size=(1280, 460))


def test_both_models_overlap_in_two_lanes_of_one_run(view: TimelineView) -> None:
    left, right = view.scene.tracks[:2]
    assert left.run is right.run
    assert left.zero_ns == right.zero_ns
    draft, target = left.run.stage("prefill", DRAFT), left.run.stage("prefill", TARGET)
    assert draft.end_ns < target.end_ns
    rows = [track.stages.rows(track.zero_ns, 0) for track in (left, right)]
    assert max(row.starts[0] for row in rows) < min(row.ends[-1] for row in rows)
    assert not any(lane.isHidden() for lane in (view.overlap, view.rounds))


def test_the_overlap_is_the_window_and_counts_what_was_hidden_in_it(view: TimelineView) -> None:
    run = view.controller.runs[HIDDEN]
    found = shown_overlap(view.scene)
    overlap = found[1]
    assert (overlap.start_ns, overlap.end_ns) == (
        run.stage("prefill", DRAFT).end_ns,
        run.stage("prefill", TARGET).end_ns,
    )
    hidden = [entry for entry in run.rounds if entry.hidden]
    assert overlap.drafted == sum(entry.drafted for entry in hidden) > 0
    assert not overlap.is_open
    counts = f"hidden {overlap.drafted} drafted, {overlap.accepted} accepted"
    assert wordings(overlap)[1] == counts
    middle = (overlap.start_ns + overlap.end_ns) // 2 - view.scene.tracks[1].zero_ns
    hit = view.overlap.hit(QPointF(view.scene.scale.x(middle), 12))
    assert ("hidden drafted", str(overlap.drafted)) in hit.facts
    assert view.overlap.hit(QPointF(view.scene.scale.x(0), 12)) is None


def test_what_was_drafted_early_is_verified_where_it_was() -> None:
    scripted_recording = RecordLog()
    info = RunInfo(1, 1, 0, TARGET, "parallel-prefill", start_ns=0)
    scripted_recording.post(RunStarted(1, info))
    spans = (
        (0, -1, DRAFT, "prefill", 0, 10),
        (1, -1, DRAFT, "decode", 10, 40),
        (2, -1, TARGET, "prefill", 0, 100),
        (3, -1, TARGET, "decode", 100, 300),
        (4, 3, TARGET, "verify", 104, 120),
        (5, 3, TARGET, "verify", 140, 150),
    )
    for span_id, parent, role, name, start, end in spans:
        for phase in (BEGIN, END, SETTLED):
            ends = -1 if phase == BEGIN else end * MS
            scripted_recording.append(SpanRecord(1, span_id, parent, phase, role, name, start * MS, ends))
    scripted_recording.append(RoundRecord(1, 0, 10 * MS, 30 * MS, 16 * MS, 0, 5, 2, 3, "1,2,3,4,5", 1))
    scripted_recording.append(RoundRecord(1, 1, 130 * MS, 10 * MS, 10 * MS, 1 * MS, 2, 1, 2, "1,2", 0))
    controller = RunController(scripted_recording)
    controller.pull()
    run = controller.runs[1]
    from evprof.view.lanes import Track

    track = Track(columns_of(controller.runs, (1, 1))[1])
    track.update()
    columns = track.rounds()
    moments = [columns[place] for place in (0, 1, 7, 2, 3)]  # starts, drafted, begins to verify, verified, ends
    assert [int(column[0]) // MS for column in moments] == [10, 40, 104, 120, 120]
    assert [int(column[1]) // MS for column in moments] == [130, 140, 140, 150, 151]
    overlap = overlap_of(run, 0)
    assert (overlap.start_ns, overlap.end_ns, overlap.drafted, overlap.accepted) == (10 * MS, 100 * MS, 5, 2)
    controller.close()


def test_a_lossy_answer_wears_a_badge_and_a_sentence(
    pair: ModelPair, controller: RunController, themes: ThemeHolder
) -> None:
    runs = controller.runs
    pair.show_columns(*columns_of(runs, (LOSSY, LOSSY)))
    assert not pair.right.head._lossy.isHidden()
    assert "may differ from the target's own" in pair.right.head._lossy.toolTip()
    assert pair.left.head._lossy.isHidden()
    words = pair.left._stack.currentWidget().findChildren(QLabel)
    assert "No drafts in this run" in [label.text() for label in words]
    panel = SpeculationPanel(themes)
    panel.show_run(runs[LOSSY], runs)
    assert not panel.isHidden()
    assert panel.table.isHidden()
    assert "Lossy: " in f"{panel.verdict.text} {panel.why.text}"
    pair.show_columns(*columns_of(runs, (HIDDEN, HIDDEN)))
    assert pair.right.head._lossy.isHidden()
    (line,) = (line for line in RunEntries().lines(runs) if line.key == (LOSSY,))
    assert "lossy" in line.name
    assert "lossy" in line.second


def test_lossy_tokens_are_dashed_and_say_so(themes: ThemeHolder, selection: Selection) -> None:
    scripted_recording = RecordLog()
    scripted_recording.post(RunStarted(1, RunInfo(1, 1, 0, TARGET, "kv-adapted", start_ns=0)))
    scripted_recording.append(TokenRecord(1, TARGET, 0, 5, ORIGIN_DRAFT, -1, 3, " word"))
    controller = RunController(scripted_recording)
    controller.pull()
    from ui.columns.token_text import TokenText

    text = TokenText(selection, themes)
    text.show_column(columns_of(controller.runs, (1, 1))[1])
    assert "lossy: need not be the target's own" in text.describe(text.flow.marks[0])
    style = text.document().firstBlock().begin().fragment().charFormat()
    assert style.underlineStyle() == QTextCharFormat.UnderlineStyle.DashUnderline
    controller.close()


def test_what_both_models_did_is_under_no_model_of_the_comparison(scripted_recording: RecordLog) -> None:
    """A column of the panel shows one model's stages, as the strip above it; Compare names both."""
    controller = RunController(scripted_recording)
    controller.pull()
    plain, hidden = (ShownModel(controller.runs[run_id], TARGET) for run_id in (PLAIN, HIDDEN))
    rows = {row.metric: row for row in compare(plain, hidden)}
    apart = {role: stages.stage_ms(hidden.run, "prefill", role) for role in (DRAFT, TARGET)}
    assert stages.stage_total_ms(hidden.run, "prefill") != apart[TARGET]
    assert rows["prefill_ms"].b == figure_text(apart[TARGET], "ms")
    assert rows["prefill_ms"].judgement == ""
    assert title_parts(Configuration((hidden.run,)))[1].startswith("both models")
    assert title_parts(Configuration((plain.run,)))[1].startswith("scripted")
