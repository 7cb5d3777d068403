"""Model cards of adapters: written by `evprof adapter evaluate` alone, with the command that gives their figures."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines.training.making import card_of
from evprof.loaders.adapters import CARD, bundled_adapters, read_adapter
from evprof.loaders.bundled import bundled_samples
from evprof.loaders.writers.frames import write_manifest

NAMES = [adapter.name for adapter in bundled_adapters()]


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_card_says_what_its_description_says_and_how_to_measure_it_again(name: str) -> None:
    adapter = read_adapter(name)
    assert adapter.evaluation is not None
    card = (adapter.folder / CARD).read_text("utf-8")
    assert card == card_of(adapter)
    for key in ("samples_command", "command"):
        assert adapter.evaluation[key] in card.splitlines()
    assert shlex.split(adapter.evaluation["command"])[:4] == ["evprof", "adapter", "evaluate", name]
    assert len(adapter.evaluation["sample_names"]) == adapter.evaluation["samples"]


def test_an_evaluation_writes_the_command_that_repeats_it(evprof: Callable[..., Any], tmp_path: Path) -> None:
    taught, unseen = tmp_path / "taught.csv", tmp_path / "unseen.csv"
    write_manifest(taught, bundled_samples()[:2])
    write_manifest(unseen, bundled_samples()[2:])
    short = ("--max-new-tokens", 6, "--frames", 2, "--event-frames", 2, "--device", "cpu")
    assert evprof("adapter", "collect", taught, "-o", tmp_path / "data", "--no-draft", *short).code == 0
    made = tmp_path / "made"
    words = ("adapter", "train", tmp_path / "data", "--kind", "ngram", "-o", made, "--device", "cpu")
    trained = evprof(*words, "--validation", 0.5, "--json")
    assert trained.code == 0, trained.errors
    assert read_adapter(str(made)).evaluation is None
    evaluated = evprof("adapter", "evaluate", made, unseen, "--gamma", 3, "--device", "cpu", "--json")
    assert evaluated.code == 0, evaluated.errors
    told = read_adapter(str(made)).evaluation
    assert evaluated.document["evaluation"] == told
    assert told["command"] in (made / CARD).read_text("utf-8")
    again = evprof(*shlex.split(told["command"])[1:], "--no-write", "--json").document["evaluation"]
    counts = ("sample_names", "drafted", "accepted", "rounds", "gamma", "max_new_tokens", "command")
    assert {name: again[name] for name in counts} == {name: told[name] for name in counts}


def test_repeats_count_their_tokens_once(evprof: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    write_manifest(path, bundled_samples()[:1])
    words = ("adapter", "evaluate", "evprof-tiny-ngram", path, "--device", "cpu", "--no-write", "--json")
    once, thrice = (evprof(*words, "--repeat", count).document["evaluation"] for count in (1, 3))
    assert (thrice["drafted"], thrice["accepted"], thrice["rounds"]) == (
        once["drafted"],
        once["accepted"],
        once["rounds"],
    )
    assert thrice["answers"] == once["answers"] == 1
