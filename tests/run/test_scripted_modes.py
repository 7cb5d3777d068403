"""The script in the modes that take both models: what it records is what an engine would."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.metrics.speculation.clinic import per_position
from evprof.metrics.speculation.failure_modes import CONTENT, SHIFTED, SURFACE, first_rejections
from scripted_engine import ScriptedEngine


def play(mode: str, stop: threading.Event | None = None, speed: float = 2000, **asked: Any) -> RunLog:
    recording = RecordLog()
    request = RunRequest(
        mode,
        Sample("e.npy", "v.mp4", prompt="What?"),
        ModelChoice("draft"),
        ModelChoice("target"),
        settings=GenerationSettings(speculation=SpeculationSettings(**asked)),
    )
    ScriptedEngine(speed=speed).run(request, recording, stop or threading.Event())
    book = RunBook(recording)
    book.update()
    [run] = book.runs.values()
    return run


PLAIN = "A red car drives towards the camera"


@pytest.mark.parametrize(
    ("mode", "asked"),
    [
        ("speculative", {}),
        ("speculative", {"drafter": "lookup"}),
        ("parallel-prefill", {"hidden": 4}),
        ("parallel-prefill", {"hidden": 0}),
        ("parallel-prefill", {"hidden": 1, "verify": "last-chunk", "afterwards": "rounds"}),
        ("parallel-prefill", {"begins": "prefill"}),
    ],
)
def test_every_way_of_drafting_gives_the_plain_answer(mode: str, asked: dict[str, Any]) -> None:
    run, plain = play(mode, **asked), play("target")
    assert run.info.status == "finished"
    assert [token.token_id for token in run.tokens] == [token.token_id for token in plain.tokens]
    assert run.info.text == plain.info.text
    assert sum(entry.emitted for entry in run.rounds) <= len(run.tokens)
    assert {entry.round_index for entry in run.judgements} == {entry.round_index for entry in run.rounds}
    assert run.info.speculation is not None
    assert run.info.speculation.is_lossless


def test_rounds_fail_in_each_way() -> None:
    run = play("speculative")
    found = first_rejections(run)
    assert {entry.kind for entry in found} == {SHIFTED, SURFACE, CONTENT}
    for entry in found:
        assert entry.draft_chance is not None
        assert entry.target_chance is not None
        assert entry.cross_chance is not None
        assert entry.cross_chance < entry.target_chance
    assert all(place.overlap is not None for place in per_position(run) if place.judged)
    assert play("speculative", judges=False).judgements == []


def test_a_drafter_of_the_targets_own_needs_no_draft() -> None:
    run = play("speculative", drafter="lookup")
    assert list(run.info.models) == ["target"]
    assert not run.stages("draft")
    assert "draft" not in run.kv
    assert run.info.speculation is not None
    assert run.info.speculation.kind == "lookup"


def test_both_prefill_at_once() -> None:
    run = play("parallel-prefill", speed=20, hidden=3)
    draft, target = run.stage("prefill", "draft"), run.stage("load", "target")
    assert draft is not None
    assert target is not None
    ends = [span.end_ns for span in run.stages("target") if span.name == "prefill"]
    assert draft.start_ns < (ends[0] or 0)
    [hidden] = [entry for entry in run.rounds if entry.hidden]
    assert (hidden.drafted, hidden.accepted, hidden.emitted) == (3, 3, 4)
    assert hidden.start_ns < (ends[0] or 0)
    assert [token.round_index for token in run.tokens[:5]] == [0, 0, 0, 0, -1]
    decode = run.stage("decode", "target")
    assert decode is not None
    assert [part.name for part in run.children(decode.span_id)] == ["verify"]


def test_an_adapted_cache_gives_another_answer() -> None:
    run = play("kv-adapted", adapter="a map")
    assert run.info.text is not None
    assert not run.info.text.startswith(PLAIN)
    assert {token.origin for token in run.tokens} == {"draft"}
    assert [span.name for span in run.stages("target")] == ["preprocess", "prefill", "decode"]
    facts = run.info.speculation
    assert facts is not None
    assert (facts.kind, facts.adapter, facts.is_lossless) == ("kv", "a map", False)


def test_stopping_ends_both_models_spans() -> None:
    stop = threading.Event()
    stop.set()
    run = play("parallel-prefill", stop)
    assert run.info.status == "cancelled"
    assert all(span.end_ns is not None for span in run.spans.values())
