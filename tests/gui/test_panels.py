"""Comparison, speculation, inspector, lists and messages: what they say of known runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from evprof.core.protocols import RunEnded, RunStarted
from evprof.core.run_info import FAILED, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.loaders.bundled import bundled_samples
from evprof.metrics.comparison.rows import comparison_rows
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.figures.stages import BASES
from evprof.metrics.speculation.outcome import acceptance
from evprof.metrics.speculation.payoff import payoff_of
from evprof.metrics.speculation.verdicts import speculation_verdict
from evprof.view.columns import ShownModel, columns_of
from kept import Keep
from ui.run_facts import figures
from ui.run_facts.run_text import NOTHING
from ui.runs.inspector import Inspector
from ui.runs.pair_figures import ComparisonPanel
from ui.runs.run_entries import RunEntries
from ui.runs.speculation_panel import SpeculationPanel
from ui.samples.sample_list import SampleList
from ui.state.current import CurrentState
from ui.state.recent import Recent
from ui.state.run_controller import RunController
from ui.state.selection import Selection, SpanRef, TimeRange, TokenRef
from ui.style.theme import ThemeHolder
from ui.widgets.message_bar import MessageBar


def cells(panel: ComparisonPanel) -> dict[str, tuple[str, ...]]:
    return {row.name: row.cells for row in panel.table.rows}


@pytest.mark.parametrize("basis", BASES)
def test_the_comparison_says_what_the_command_says(runs: dict[int, RunLog], themes: ThemeHolder, basis: str) -> None:
    panel = ComparisonPanel(themes)
    panel.show_columns(*columns_of(runs, (1, 2)))
    panel.basis.choose(basis)
    shown = cells(panel)
    rows = {
        row.metric: row for row in comparison_rows((Configuration((runs[1],)), Configuration((runs[2],))), 0, basis)
    }
    total = rows["total_ms"]
    assert total.values[1] is not None
    assert float(shown["total"][1]) == pytest.approx(total.values[1], rel=0.01, abs=0.06)
    assert shown["total"][2] == figures.ratio_text(total.ratio[1])
    assert shown["visual tokens"][:2] == ("583", "2,056")
    assert ("load" in shown) == (basis == "end-to-end")
    assert ("unattributed" in shown) == (basis != "model-only")


def test_a_speculative_run_compares_its_two_models(runs: dict[int, RunLog], themes: ThemeHolder) -> None:
    panel = ComparisonPanel(themes)
    panel.show_columns(*columns_of(runs, (3, 3)))
    shown = cells(panel)
    assert shown["visual tokens"][:2] == ("583", "2,056")
    # Decoding belongs to the run, so only the answering model's column has it.
    assert shown["decode"][0] == NOTHING
    assert float(shown["decode"][1]) > 0
    assert shown["prefill"][0] != NOTHING


def test_a_trace_is_left_out_and_the_panel_says_so(runs: dict[int, RunLog], themes: ThemeHolder) -> None:
    info = RunInfo.from_json(runs[2].info.to_json() | {"profiled": True, "run_id": 9})
    panel = ComparisonPanel(themes)
    panel.show_columns(ShownModel(runs[1], "draft"), ShownModel(RunLog(info), "target"))
    assert "torch trace" in panel.left_out.text()
    assert panel.table.isHidden()


def test_the_speculation_panel_counts_and_judges(runs: dict[int, RunLog], themes: ThemeHolder) -> None:
    panel = SpeculationPanel(themes)
    panel.show_run(runs[3], runs)
    counts = acceptance(runs[3])
    assert panel.table.rows[0].cells[0] == f"{counts.accepted} / {counts.drafted}"
    assert panel.table.rows[1].cells[1] == f"{counts.mean_acceptance_length:.2f}"
    verdict = speculation_verdict(runs[3], list(runs.values()), payoff_of(runs[3], runs.values()))
    assert (panel.verdict.text, panel.why.text) == (verdict.head, verdict.why)
    # One run of each kind says nothing for sure: turns are offered, and what it is held against can be changed.
    assert panel.against.text() == "vs run 4 ▾"
    assert not panel.turns.isHidden()
    assert not panel.isHidden()
    panel.show_run(runs[2], runs)
    assert panel.isHidden()


def inspected(inspector: Inspector) -> dict[str, str]:
    return {detail.name: detail.text for section in inspector.sections for detail in section.details}


def test_the_inspector_knows_a_span(controller: RunController, selection: Selection, themes: ThemeHolder) -> None:
    inspector = Inspector(selection, controller, themes)
    vision = controller.runs[2].stage("vision", "target")
    selection.select(SpanRef(2, vision.span_id))
    said = inspected(inspector)
    assert said["visual_embeddings"].startswith("[1, 2056, 512] bf16")
    assert said["share of the run"].endswith("%")
    assert {"tower", "projector"} <= set(said)
    assert "provisional" not in said["duration"]
    prefill = controller.runs[2].stage("prefill", "target")
    assert prefill.duration_ns is not None
    selection.select(SpanRef(2, prefill.span_id))
    rate = float(inspected(inspector)["throughput"].removesuffix(" tok/s").replace(",", ""))
    assert rate == pytest.approx(2089e9 / prefill.duration_ns, rel=0.01)


def test_the_inspector_sums_up_a_range(controller: RunController, selection: Selection, themes: ThemeHolder) -> None:
    inspector = Inspector(selection, controller, themes)
    selection.set_runs(None, 2)
    run = controller.runs[2]
    assert run.info.start_ns is not None
    first, third = run.tokens[0].t_ns - run.info.start_ns, run.tokens[2].t_ns - run.info.start_ns
    selection.select(TimeRange(first, third))
    assert inspected(inspector)["tokens"] == "3"
    selection.select(None)
    assert inspector.sections[0].head == "Run 2 · Side by side"
    selection.set_runs(None, None)
    assert not inspector.sections


def test_the_last_selection_wins(controller: RunController, selection: Selection, themes: ThemeHolder) -> None:
    inspector = Inspector(selection, controller, themes)
    selection.select(SpanRef(2, 0))
    selection.select(TokenRef(2, 1))
    assert inspector.sections[0].head == "Token 1"
    selection.select(SpanRef(2, 0))
    assert inspector.sections[0].head.startswith("load")


def test_a_speculative_line_tells_its_gain_and_a_failed_one_its_sentence(controller: RunController) -> None:
    controller.recording.post(
        RunStarted(50, RunInfo(50, 50, 0, "target", "target", sample=Sample(name="scene"), start_ns=0))
    )
    controller.recording.post(RunEnded(50, FAILED, "The device ran out of memory."))
    controller.pull()
    found = {line.key: line for line in RunEntries().lines(controller.runs)}
    assert found[(3,)].figure == "?", "one run a side is too few"
    assert (found[(50,)].figure, found[(50,)].role) == ("failed", "bad")
    assert found[(50,)].second == "The device ran out of memory."


def test_samples_show_what_they_hold(themes: ThemeHolder, wait_until: Callable[..., None], tmp_path: Path) -> None:
    samples = SampleList(themes, bundled_samples(), CurrentState())
    samples.add(Sample(video_path=str(tmp_path / "drive.mp4")))
    samples.add(Sample(video_path=str(tmp_path / "drive.mp4")))
    lines = samples.list.lines
    assert lines[0].name == "drive.mp4"
    assert lines[0].second.startswith("video")
    assert lines[1].second.startswith("events · video")
    assert len(lines) == len(bundled_samples()) + 1
    samples.read_durations()
    bundled = bundled_samples()[0].name
    wait_until(lambda: next(line for line in samples.list.lines if line.name == bundled).second)
    samples.close_reader()
    chosen: list[Sample] = []
    samples.sample_chosen.connect(chosen.append)
    # A file that is not there is taken off the list by now.
    row = [line.name for line in samples.list.lines].index(bundled)
    samples.list.setCurrentIndex(samples.list.model().index(row, 0))
    assert chosen == [bundled_samples()[0]]


def test_of_equal_messages_the_newer_ones_action_is_done(themes: ThemeHolder, keep: Keep) -> None:
    done: list[str] = []
    bar = keep(MessageBar(themes))
    for what in ("older", "newer"):
        bar.post("Run 2 deleted.", "info", "Undo", partial(done.append, what))
    bar.act()
    assert done == ["newer"]
    assert bar.shown is None


def test_recent_survives_a_restart_and_a_broken_file(tmp_path: Path) -> None:
    path = tmp_path / "config" / "recent.json"
    recent = Recent(path)
    for number in range(12):
        recent.note_sample(Sample(events_path=f"/{number}.npy"))
    recent.note_sample(Sample(events_path="/5.npy", start_us=2_000, duration_us=50_000))
    recent.note_model("/models/one")
    again = Recent(path)
    assert [sample.events_path for sample in again.samples][:2] == ["/5.npy", "/11.npy"]
    assert (again.samples[0].start_us, again.samples[0].duration_us) == (2_000, 50_000)
    assert len(again.samples) == 8
    assert again.models == ["/models/one"]
    path.write_text('{"samples": [3], "models": 7}')
    assert Recent(path).samples == []
