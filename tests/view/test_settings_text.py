"""Runs that differ in a switch read differently: rows, labels and differences, of what was taken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evprof.core.run_info import ImportedFacts, ModelFacts, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.inputs import InputSettings
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.core.vocabulary.switches import Switches
from evprof.metrics.configurations.settings_text import (
    SPECULATION_KEYS,
    differences,
    run_label,
    settings_of,
    told_settings,
)
from evprof.view.columns import ShownModel
from scripted_pair import SCRIPTED_DRAFT, SCRIPTED_TARGET
from told import told

FACTS = {"draft": SCRIPTED_DRAFT.facts, "target": SCRIPTED_TARGET.facts}


def run(
    settings: GenerationSettings | None = None,
    role: str = "target",
    mode: str = "target",
    facts: dict[str, ModelFacts] | None = None,
    run_id: int = 1,
) -> RunLog:
    made = RunInfo(run_id, run_id, 0, role, mode, settings or GenerationSettings())
    roles = ("draft", "target") if mode == "speculative" else (role,)
    made.models = {name: (facts or FACTS)[name] for name in roles}
    return RunLog(made)


def switched(**switches: Any) -> GenerationSettings:
    return GenerationSettings(switches=Switches(**switches))


def taken(**facts: Any) -> dict[str, ModelFacts]:
    return {role: replace(model, **facts) for role, model in FACTS.items()}


def test_a_run_at_its_defaults_has_no_label() -> None:
    assert run_label([run()]) == ""
    assert run_label([run(mode="speculative")]) == ""
    # What the engine resolved "auto" to is no choice of anybody's.
    read = InputSettings(draft_input="events", target_input="video")
    assert run_label([run(GenerationSettings(input=read), mode="speculative", facts=taken(cache="static"))]) == ""


@pytest.mark.parametrize(
    ("settings", "role", "label"),
    [
        (switched(attention="eager"), "target", "eager attention"),
        (switched(attention="flash"), "target", "flash"),
        (switched(cache="static"), "target", "static"),
        (switched(cache="hqq4"), "target", "hqq4 cache"),
        (switched(step="eager"), "target", "eager step"),
        (switched(step="compiled"), "target", "compiled"),
        (switched(step="graphs"), "target", "graphs"),
        (switched(prefill_chunk=512), "target", "chunk 512"),
        (switched(early_exit=9), "target", "exit 9 at 0.9"),
        (switched(early_exit=9, exit_confidence=0.75), "target", "exit 9 at 0.75"),
        (switched(vision_cache="memory"), "target", "vision cache"),
        (switched(prefetch="cold"), "draft", "cold files"),
        (switched(visual_keep=0.5), "target", "keep 0.5"),
        (switched(visual_keep=0.5, prune_by="similarity"), "target", "keep 0.5 by similarity"),
        (switched(prune_by="similarity"), "target", ""),
        (switched(projector="fused"), "draft", "fused projector"),
        (switched(projector="fused"), "target", ""),
        (GenerationSettings(input=InputSettings(target_input="events")), "target", "reads events"),
        (GenerationSettings(input=InputSettings(target_input="events")), "draft", ""),
        (GenerationSettings(input=InputSettings(draft_input="video")), "draft", "reads video"),
        (GenerationSettings(input=InputSettings(prompt_style="training")), "draft", "training prompt"),
        (GenerationSettings(input=InputSettings(event_markers=False)), "draft", "no markers"),
        (GenerationSettings(input=InputSettings(canvas="640x480")), "draft", "canvas 640x480"),
        (GenerationSettings(input=InputSettings(canvas="640x480")), "target", ""),
        (GenerationSettings(input=InputSettings(pooling="none"), event_frames=1), "draft", "1 frame · unpooled"),
        (GenerationSettings(frames=4), "target", "4 frames"),
        (GenerationSettings(frames=4), "draft", ""),
        (GenerationSettings(temperature=0.7, seed=3), "target", "temperature 0.7 · seed 3"),
        (GenerationSettings(seed=3), "target", ""),
        (GenerationSettings(ignore_eos=True), "target", "past the end"),
        (switched(cache="static", step="compiled", visual_keep=0.5), "target", "static · compiled · keep 0.5"),
    ],
)
def test_every_setting_off_its_default_is_in_the_label(settings: GenerationSettings, role: str, label: str) -> None:
    mode = role
    asked = {name: getattr(settings.switches, name) for name in ("attention", "cache", "step")}
    facts = taken(**{name: value for name, value in asked.items() if value != "auto"})
    assert run_label([run(settings, role, mode, facts)]) == label


def test_every_field_of_the_switches_can_be_told_apart() -> None:
    """A field that is added later must be said, too: each one changed alone gives rows of its own."""
    changed: dict[str, Any] = {
        "attention": "eager",
        "cache": "static",
        "step": "compiled",
        "prefill_chunk": 64,
        "early_exit": 2,
        "exit_confidence": 0.5,
        "vision_cache": "memory",
        "visual_keep": 0.25,
        "prune_by": "similarity",
        "projector": "fused",
        "prefetch": "cold",
    }
    assert set(changed) == set(Switches().to_json())
    enabling: dict[str, dict[str, Any]] = {"exit_confidence": {"early_exit": 3}, "prune_by": {"visual_keep": 0.25}}
    for name, value in changed.items():
        base = enabling.get(name, {})
        texts = []
        for switches in (base, {**base, name: value}):
            info = run(switched(**switches), "draft", "draft").info
            info.models = {}
            texts.append([setting.text for setting in settings_of(RunLog(info), "draft")])
        assert texts[0] != texts[1], name


def test_what_was_taken_instead_stands_behind_an_arrow() -> None:
    found = run(switched(step="compiled"), facts=taken(step="eager"))
    assert run_label([found]) == "compiled → eager"
    rows = {setting.key: setting.text for setting in settings_of(found, "target")}
    assert rows["step"] == "eager"


def test_one_model_of_two_is_named_by_its_role() -> None:
    facts = {"draft": replace(FACTS["draft"], quantization="int8"), "target": FACTS["target"]}
    assert run_label([run(mode="speculative", facts=facts)]) == "draft int8"
    both = taken(quantization="nf4")
    assert run_label([run(mode="speculative", facts=both)]) == "nf4"
    pair = [run(role=role, mode="side-by-side", facts=facts) for role in ("draft", "target")]
    assert run_label(pair) == "draft int8"
    fused = switched(projector="fused", visual_keep=0.5)
    assert run_label([run(fused, mode="speculative")]) == "keep 0.5 · fused projector"


def test_differences_are_of_what_was_taken() -> None:
    a = ShownModel(run(switched(), facts=taken(cache="dynamic")), "target")
    b = ShownModel(run(switched(cache="static"), facts=taken(cache="static"), run_id=2), "target")
    assert [(mine.text, other.text) for mine, other in differences(a, b)] == [("dynamic", "static")]
    same = ShownModel(run(switched(), facts=taken(cache="static"), run_id=3), "target")
    assert differences(same, b) == []
    c = ShownModel(run(switched(visual_keep=0.5, cache="static"), facts=taken(cache="static"), run_id=4), "target")
    assert [mine.name for mine, _ in differences(a, c)] == ["KV cache", "tokens kept"]


def test_settings_of_other_programs_are_read_as_far_as_they_go() -> None:
    read = {"temperature": 0.5, "gamma": "many", "input": None, "switches": {"cache": "paged", "newer": 1}, "newer": {}}
    made = RunInfo(1, 1, 0, "target", "target", **told(read))
    assert (made.settings.temperature, made.settings.speculation.gamma) == (0.5, 5)
    assert made.given_settings == {"temperature": 0.5, "cache": "paged"}
    assert run_label([RunLog(made)]) == "paged · temperature 0.5"


def test_an_imported_run_says_all_its_file_gives_however_deep() -> None:
    given = told({"event_frames": 1, "input": {"pooling": "none"}})
    made = RunInfo(1, 1, 0, "draft", "draft", **given, imported=ImportedFacts("f.json", "one-vs-eight", 0))
    assert "pooling" in {setting.key for setting in told_settings(RunLog(made), "draft")}


def speculating(mode: str = "speculative", **asked: Any) -> dict[str, str]:
    """Key -> row of what concerns drafting in a run that asks for it."""
    made = run(GenerationSettings(speculation=SpeculationSettings(**asked)), mode=mode)
    return {setting.key: setting.text for setting in settings_of(made, "target") if setting.key in SPECULATION_KEYS}


def test_only_what_means_something_is_said_of_drafting() -> None:
    assert speculating("target", drafter="lookup") == {}
    seen = {"draft_keep": "as the target's"}
    assert speculating() == {"drafter": "model", "gamma": "5", "length": "fixed", **seen}
    assert speculating(drafter="suffix", draft_keep=0.5) == {"drafter": "suffix", "gamma": "5", "length": "fixed"}
    assert speculating(draft_keep=0.5, draft_prune_by="random")["draft_keep"] == "0.5 by random"
    assert speculating(hidden=3, verify="last-chunk", afterwards="rounds") == speculating()
    assert speculating(drafter="eagle", adapter="/some/where/head/", tree="3,2") == {
        "drafter": "eagle head",
        "tree": "3,2",
    }
    window = {"begins": "with load", "hidden": "as time allows", "verify": "after prefill", "afterwards": "plain"}
    assert speculating("parallel-prefill", length="heuristic") == {
        "drafter": "model",
        "shape": "chain",
        **seen,
        **window,
    }
    assert speculating("parallel-prefill", afterwards="rounds", hidden=0, verify="last-chunk") == {
        **speculating(),
        "begins": "with load",
        "hidden": "0",
        "verify": "in the last chunk",
        "afterwards": "rounds",
    }
    assert speculating("kv-adapted", adapter="maps") == {"adapter": "maps"}


@pytest.mark.parametrize(
    ("mode", "asked", "label"),
    [
        ("speculative", {}, ""),
        ("speculative", {"drafter": "lookup"}, "lookup"),
        (
            "speculative",
            {"drafter": "ngram", "adapter": "/a/counts", "length": "budgeted"},
            "ngram counts · budgeted length",
        ),
        ("speculative", {"drafter": "eagle", "adapter": "head", "tree": "2,2"}, "eagle head · tree 2,2"),
        ("parallel-prefill", {}, ""),
        (
            "parallel-prefill",
            {"hidden": 4, "begins": "prefill", "verify": "last-chunk"},
            "from prefill · 4 hidden · last-chunk",
        ),
        ("parallel-prefill", {"hidden": 0, "afterwards": "rounds"}, "0 hidden · then rounds"),
        ("kv-adapted", {"adapter": "maps"}, "maps"),
    ],
)
def test_drafting_that_is_not_as_ever_is_in_the_label(mode: str, asked: dict[str, Any], label: str) -> None:
    assert run_label([run(GenerationSettings(speculation=SpeculationSettings(**asked)), mode=mode)]) == label


def test_sessions_from_before_drafters_read_as_the_draft_model() -> None:
    made = run(mode="speculative")
    values = made.info.to_json()
    del values["settings"]["speculation"]
    made = RunLog(RunInfo.from_json(values))
    assert {setting.text for setting in settings_of(made, "target") if setting.key == "drafter"} == {"model"}
    assert made.info.settings.speculation.length == "fixed"
