"""Requests: what is refused before anything is loaded, and the way through the pipe."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evprof.core.errors import USAGE, UserError
from evprof.core.request import RunRequest, TraceSettings
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import KV_ADAPTED, MODES
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.core.vocabulary.switches import Switches

BOTH = Sample("e.npy", "v.mp4", "What?", "name")
FULL = RunRequest(
    "speculative",
    BOTH,
    ModelChoice("d", "cuda:1", "bfloat16", "int8"),
    ModelChoice("t"),
    GenerationSettings(
        max_new_tokens=7, frames=4, temperature=0.5, speculation=SpeculationSettings(length="budgeted", hidden=3)
    ),
    warmup=1,
    repeat=3,
    trace=TraceSettings("logs", 4),
    first_run_id=9,
    group_id=4,
)


def test_through_the_pipe_and_back():
    assert RunRequest.from_json(json.loads(json.dumps(FULL.to_json()))) == FULL
    plain = RunRequest("draft", Sample("e.npy"), ModelChoice("d"))
    assert RunRequest.from_json(json.loads(json.dumps(plain.to_json()))) == plain


def test_unknown_keys_are_ignored():
    values = FULL.to_json()
    values["later"] = values["sample"]["later"] = values["settings"]["later"] = values["draft"]["later"] = 1
    assert RunRequest.from_json(values) == FULL


@pytest.mark.parametrize("mode", MODES)
def test_a_complete_request_is_fine_in_every_mode(mode):
    trained = GenerationSettings(speculation=SpeculationSettings(adapter="map"))
    replace(FULL, mode=mode, settings=trained if mode == KV_ADAPTED else FULL.settings).validate()


def speculating(**asked):
    return GenerationSettings(speculation=SpeculationSettings(**asked))


@pytest.mark.parametrize(
    ("mode", "settings", "word"),
    [
        ("kv-adapted", GenerationSettings(), "--adapter"),
        ("parallel-prefill", speculating(drafter="lookup"), "drafter lookup does not"),
        ("speculative", speculating(drafter="eagle"), "--adapter"),
        ("speculative", speculating(drafter="guess"), "--drafter must be one of"),
        ("speculative", speculating(length="long"), "--draft-length must be one of"),
        ("speculative", speculating(begins="never"), "--draft-begins must be one of"),
        ("speculative", speculating(verify="before"), "--verify must be one of"),
        ("speculative", speculating(afterwards="rest"), "--afterwards must be one of"),
        ("speculative", speculating(hidden=-1), "--hidden-tokens must be 0 or more"),
        ("speculative", speculating(tree="3,2"), "Only some drafters draft trees"),
        ("speculative", speculating(drafter="recycling", tree="dynamic:8:3"), "knows no chances"),
        ("speculative", speculating(drafter="eagle", adapter="a", tree="3,0"), "children by level"),
        ("speculative", speculating(drafter="eagle", adapter="a", tree="99,99"), "256 is the most"),
        ("speculative", GenerationSettings(switches=Switches(early_exit=2)), "Early exit changes the answer"),
        ("parallel-prefill", GenerationSettings(switches=Switches(early_exit=2)), "Early exit changes the answer"),
    ],
)
def test_speculation_that_means_nothing_is_refused_with_the_option_named(mode, settings, word):
    with pytest.raises(UserError, match=word) as caught:
        replace(FULL, mode=mode, settings=settings).validate()
    assert caught.value.exit_code == USAGE


@pytest.mark.parametrize(("drafter", "roles"), [("model", ("draft", "target")), ("lookup", ("target",))])
def test_who_takes_part_depends_on_the_drafter(drafter, roles):
    request = replace(FULL, settings=speculating(drafter=drafter))
    assert request.roles == roles
    replace(request, draft=request.draft if "draft" in roles else None).validate()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"mode": "backwards"}, "backwards"),
        ({"draft": None}, "--draft"),
        ({"target": None}, "--target"),
        ({"sample": Sample(video_path="v.mp4")}, "--events"),
        ({"sample": Sample(events_path="e.npy")}, "--video"),
        ({"repeat": 0}, "--repeat"),
        ({"warmup": -1}, "--warmup"),
        ({"settings": GenerationSettings(max_new_tokens=0)}, "--max-new-tokens"),
        ({"settings": GenerationSettings(temperature=-0.1)}, "--temperature"),
        ({"settings": GenerationSettings(temperature=float("nan"))}, "--temperature"),
        ({"settings": GenerationSettings(top_p=0.0)}, "--top-p"),
        ({"settings": GenerationSettings(top_p=1.1)}, "--top-p"),
        ({"settings": GenerationSettings(top_k=-1)}, "--top-k"),
        ({"settings": GenerationSettings(speculation=SpeculationSettings(gamma=0))}, "--gamma"),
        ({"settings": GenerationSettings(frames=0)}, "--frames"),
        ({"settings": GenerationSettings(event_frames=0)}, "--event-frames"),
    ],
)
def test_what_means_nothing_is_refused_with_the_option_named(changes, word):
    with pytest.raises(UserError, match=word) as caught:
        replace(FULL, **changes).validate()
    assert caught.value.exit_code == USAGE


@pytest.mark.parametrize(
    ("mode", "lacking"),
    [("target", {"draft": None, "sample": Sample(video_path="v")}), ("draft", {"target": None, "sample": Sample("e")})],
)
def test_a_single_model_needs_only_its_own_input(mode, lacking):
    replace(FULL, mode=mode, **lacking).validate()
