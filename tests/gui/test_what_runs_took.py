"""What a run took is visible: in the run list, in the comparison's heads and in the inspector."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from evprof.core.protocols import RunDescribed, RunWarned
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_info import KvFacts, LengthFacts
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.inputs import InputSettings
from evprof.core.vocabulary.switches import Switches
from evprof.metrics.figures import kv_cache
from evprof.view.columns import ShownModel
from scripted_engine import ScriptedEngine
from scripted_pair import SCRIPTED_TARGET, Script
from ui.columns.model_column import ModelColumn
from ui.players.event_player import EventPlayer
from ui.players.play_clock import PlayClock
from ui.runs.inspector import Inspector
from ui.runs.run_entries import RunEntries
from ui.runs.run_list import RunList
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder

PLAIN, STATIC, MANY, PAIR, SPECULATIVE = 1, 2, 3, 4, 6


def play(recording: RecordLog, run_id: int, mode: str, switches: Switches, **facts: Any) -> None:
    settings = GenerationSettings(switches=switches, input=InputSettings(target_input="video", draft_input="events"))
    lengths = replace(SCRIPTED_TARGET.lengths, per_frame=[257] * 8)
    model = replace(SCRIPTED_TARGET, facts=replace(SCRIPTED_TARGET.facts, **facts), lengths=lengths)
    choice = ModelChoice("scripted")
    sample = Sample("/gone/scene.npy", "/gone/scene.mp4", "What?", "scene")
    request = RunRequest(mode, sample, choice, choice, settings, first_run_id=run_id, group_id=run_id)
    ScriptedEngine(Script(target=model), speed=2000).run(request, recording, threading.Event())


@pytest.fixture
def scripted_recording() -> RecordLog:
    """Plain, static, and several switches at once; then a pair and a speculative run with a quantized target."""
    recording = RecordLog()
    play(recording, PLAIN, "target", Switches())
    play(recording, STATIC, "target", Switches(cache="static"), cache="static")
    many = Switches(cache="static", step="compiled", visual_keep=0.5)
    play(recording, MANY, "target", many, cache="static", step="eager", quantization="int4")
    play(recording, PAIR, "side-by-side", Switches(prefill_chunk=256), quantization="nf4")
    play(recording, SPECULATIVE, "speculative", Switches(vision_cache="memory"), quantization="nf4")
    recording.post(RunWarned(MANY, "The decode step stayed eager: there is no compiler."))
    return recording


def said(inspector: Inspector, head: str) -> dict[str, tuple[str, ...]]:
    """Lines of a section, by name: their cells."""
    section = next(entry for entry in inspector.sections if entry.head == head)
    return {
        detail.name: (detail.text,) if detail.beside is None else (detail.text, detail.beside)
        for detail in section.details
    }


def test_the_run_list_tells_runs_of_one_mode_apart(
    controller: RunController, selection: Selection, themes: ThemeHolder
) -> None:
    labels = {line.key: line.second for line in RunEntries().lines(controller.runs)}
    assert labels == {
        (PLAIN,): "scene",
        (STATIC,): "scene · static",
        (MANY,): "scene · int4 · static · compiled → eager · keep 0.5",
        (PAIR, PAIR + 1): "scene · chunk 256 · target nf4",
        (SPECULATIVE,): "scene · vision cache · target nf4",
    }
    lines = {line.key: line for line in RunList(selection, controller, themes).list.lines}
    assert lines[STATIC,].second == "scene · static"
    assert (lines[PLAIN,].second, lines[PLAIN,].badges) == ("scene", ("cold",))
    assert "int4 · static" in lines[MANY,].tip


def test_two_runs_stand_side_by_side_while_nothing_is_selected(inspector: Inspector, selection: Selection) -> None:
    selection.set_runs(PLAIN, MANY)
    models = said(inspector, f"Runs {PLAIN} and {MANY}")
    assert models["weights"] == ("bf16", "int4")
    assert models["KV cache"] == ("dynamic", "static")
    assert models["decode step"] == ("eager", "eager")
    assert models["tokens kept"] == ("all", "0.5 by attention")
    assert models["frames"] == ("8", "8")
    assert "prefill" not in models
    roles = {detail.name: detail.roles for detail in inspector.sections[0].details}
    assert roles["weights"] == ("", "accent")
    assert roles["attention"] == ("", "")
    warnings = next(section for section in inspector.sections if section.head == "Warnings")
    assert warnings.note == f"Run {MANY}: The decode step stayed eager: there is no compiler."


def test_a_speculative_run_shows_both_models(inspector: Inspector, selection: Selection) -> None:
    selection.set_runs(SPECULATIVE, SPECULATIVE)
    section = inspector.sections[0]
    assert section.head == f"Run {SPECULATIVE} · Speculative"
    assert section.heads == ("draft", "target")
    models = said(inspector, section.head)
    assert models["weights"] == ("bf16", "nf4")
    assert models["reads"] == ("events", "video")
    assert models["vision cache"] == ("memory", "memory")
    cache = said(inspector, "KV cache")
    assert cache["rolled back"][0] != "–"


def test_the_cache_is_told_by_what_filled_it(
    inspector: Inspector, selection: Selection, controller: RunController
) -> None:
    selection.set_runs(None, STATIC)
    run = controller.runs[STATIC]
    cache = said(inspector, "KV cache")
    origins = kv_cache.bytes_by_origin(run)
    assert cache["visual"] == ("48.19 MiB",)
    assert cache["of single frames"] == ("8 × 6.02 MiB",)
    assert origins["system"] == 0
    assert "system" not in cache
    assert "stored" not in cache
    facts = run.info.kv["target"]
    fuller = KvFacts(facts.measured_bytes, 64 << 20, facts.per_layer_bytes, 0, 50 << 20)
    uneven = LengthFacts(2089, 0, 33, 2056, [1000, 1056])
    controller.recording.post(RunDescribed(STATIC, {"kv": {"target": fuller}, "lengths": {"target": uneven}}))
    controller.pull()
    selection.set_runs(None, None)
    selection.set_runs(None, STATIC)
    cache = said(inspector, "KV cache")
    assert (cache["stored"], cache["reserved"]) == (("50.00 MiB",), ("64.00 MiB",))
    assert cache["of single frames"] == ("2 × ≤ 24.75 MiB",)


def test_a_column_plays_what_its_model_read(
    controller: RunController, selection: Selection, themes: ThemeHolder, files: dict[str, str]
) -> None:
    info = controller.runs[PLAIN].info
    settings = GenerationSettings(input=InputSettings(target_input="events"))
    shown = Sample(files["events"], files["video"])
    run = RunLog(replace(info, run_id=78, settings=settings, sample=shown))
    column = ModelColumn("target", selection, themes, PlayClock())
    column.show_column(ShownModel(run, "target"))
    assert isinstance(column.player, EventPlayer)
    assert not column.player.isHidden()
    column.show_column(ShownModel(RunLog(replace(info, run_id=79, sample=shown)), "target"))
    assert column.player.accessibleName() == "video player"
    column.close()
