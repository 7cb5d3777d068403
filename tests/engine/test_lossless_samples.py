"""On every bundled sample the bundled pair answers as the target alone, whoever drafts and whenever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assets
from engines.engine import LocalEngine
from evprof.core.request import RunRequest
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import PARALLEL_PREFILL, SPECULATIVE
from evprof.core.vocabulary.speculation import SpeculationSettings
from run_logs import ids_of, runs_of

ASSETS = Path(assets.__file__).parent
SAMPLES = sorted(folder.name for folder in (ASSETS / "samples").iterdir() if (folder / "events.npy").exists())
QUESTION = "Describe in detail what happened in the scene."

DRAFTERS: dict[str, dict[str, Any]] = {
    "the event model": {},
    "as many as go well": {"length": "heuristic"},
    "as many as pay": {"length": "budgeted"},
    "the event model on a tenth": {"draft_keep": 0.1, "draft_prune_by": "similarity"},
    "the event model on any tenth": {"draft_keep": 0.1, "draft_prune_by": "random"},
    "prompt lookup": {"drafter": "lookup"},
    "a suffix automaton": {"drafter": "suffix"},
    "recycled tokens": {"drafter": "recycling"},
    "recycled tokens as a tree": {"drafter": "recycling", "tree": "4,2,1"},
    "the target itself": {"drafter": "self"},
    "a head": {"drafter": "eagle", "adapter": "evprof-tiny-eagle"},
    "a head's tree": {"drafter": "eagle", "adapter": "evprof-tiny-eagle", "tree": "3,2,1"},
    "hidden states": {"drafter": "hidden", "adapter": "evprof-tiny-hidden"},
    "a tuned draft": {"drafter": "lora", "adapter": "evprof-tiny-lora"},
    "counts": {"drafter": "ngram", "adapter": "evprof-tiny-ngram"},
}

INSIDE: dict[str, dict[str, Any]] = {
    "as many as fit": {},
    "none": {"hidden": 0},
    "one": {"hidden": 1},
    "nine": {"hidden": 9},
    "a tree of nine": {"hidden": 9, "shape": "tree"},
    "a tree as fits, and rounds": {"shape": "tree", "afterwards": "rounds"},
    "a tree of thirty, and rounds": {"hidden": 30, "shape": "tree", "afterwards": "rounds"},
    "in the last chunk": {"hidden": 6, "verify": "last-chunk"},
    "and rounds after": {"hidden": 4, "afterwards": "rounds"},
    "in the last chunk, and rounds": {"verify": "last-chunk", "afterwards": "rounds"},
    "from the prefill on": {"begins": "prefill"},
}


@pytest.fixture(scope="module")
def bundled() -> Iterator[LocalEngine]:
    engine = LocalEngine(make_room=lambda *_: None)
    engine._tools.draft_worker.submit(lambda: None).result()  # its thread is the engine's, not the first test's
    yield engine
    engine.close()


def answer(engine: LocalEngine, mode: str, name: str, **asked: Any) -> RunLog:
    folder = ASSETS / "samples" / name
    drawn = {key: asked.pop(key) for key in ("temperature", "top_k") if key in asked}
    settings = GenerationSettings(max_new_tokens=64, speculation=SpeculationSettings(**asked), **drawn)
    request = RunRequest(
        mode,
        Sample(str(folder / "events.npy"), str(folder / "video.mp4"), QUESTION),
        ModelChoice("evprof-tiny-eventgpt"),
        ModelChoice("evprof-tiny-video-llava"),
        settings,
        keeps_frames=False,
    )
    run = runs_of(engine, request)[-1]
    assert (run.info.status, run.info.error) == ("finished", None)
    return run


@pytest.fixture(scope="module")
def own_answers(bundled: LocalEngine) -> dict[str, list[int]]:
    """The target's answers without any draft, at least twenty tokens each, and each another one."""
    found = {name: ids_of(answer(bundled, "target", name)) for name in SAMPLES}
    assert all(len(ids) >= 20 for ids in found.values())
    assert len({tuple(ids) for ids in found.values()}) == len(SAMPLES) >= 3
    return found


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("who", DRAFTERS)
def test_rounds_give_the_targets_own_answer(
    bundled: LocalEngine, own_answers: dict[str, list[int]], who: str, name: str
) -> None:
    run = answer(bundled, SPECULATIVE, name, **DRAFTERS[who])
    assert ids_of(run) == own_answers[name]
    assert sum(record.emitted for record in run.rounds) == len(own_answers[name]) - 1
    assert run.info.speculation.is_lossless
    if who == "the target itself":
        assert all(record.accepted == record.drafted for record in run.rounds)


@pytest.mark.parametrize("who", DRAFTERS)
def test_drawn_from_the_likeliest_token_alone_it_is_the_same_answer(
    bundled: LocalEngine, own_answers: dict[str, list[int]], who: str
) -> None:
    """Drafts and verdicts are drawn, and there is only one thing to draw: every step of sampling is gone through."""
    name = SAMPLES[0]
    run = answer(bundled, SPECULATIVE, name, **DRAFTERS[who], temperature=1.0, top_k=1)
    assert ids_of(run) == own_answers[name]


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("how", INSIDE)
def test_drafts_inside_the_prefill_give_the_targets_own_answer(
    bundled: LocalEngine, own_answers: dict[str, list[int]], how: str, name: str
) -> None:
    run = answer(bundled, PARALLEL_PREFILL, name, **INSIDE[how])
    assert ids_of(run) == own_answers[name]
    if (forced := INSIDE[how].get("hidden")) is not None:
        assert sum(record.drafted for record in run.rounds if record.hidden) <= forced
