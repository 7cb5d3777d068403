"""What `evprof bench speculation` measures on: the bundled held-out scenes, the bundled samples, or a list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evprof.core.sample import Sample
from evprof.loaders.bundled import bundled_samples, held_out_scenes, pair_evaluation
from evprof.loaders.writers.frames import write_manifest
from evprof.run.benches import speculation
from evprof.run.requests import BUNDLED_DRAFT, BUNDLED_TARGET


@pytest.fixture
def measured_on(evprof: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Sample]]:
    """The samples that `evprof bench speculation WORDS` would measure on."""
    pytest.importorskip("torch")

    def ask(*words: object) -> list[Sample]:
        plans: list[speculation.SpeculationPlan] = []

        def keep(_engine: object, plan: speculation.SpeculationPlan, *_: object) -> dict[str, Any]:
            plans.append(plan)
            return {"rows": [], "summary": {}}

        monkeypatch.setattr(speculation, "measure_speculation", keep)
        assert evprof("bench", "speculation", *words, "--json").code == 0
        return list(plans[0].samples)

    return ask


def test_held_out_scenes_by_default(measured_on: Callable[..., list[Sample]]) -> None:
    assert measured_on() == held_out_scenes()
    assert [sample.name for sample in held_out_scenes()] == [f"scene {number}" for number in range(1, 9)]
    assert measured_on("--scenes", 2) == held_out_scenes()[:2]


def test_a_list_of_ones_own(measured_on: Callable[..., list[Sample]], tmp_path: Path) -> None:
    listed = tmp_path / "mine.csv"
    write_manifest(listed, bundled_samples()[1:])
    found = measured_on("--data", listed)
    assert [(sample.name, sample.prompt) for sample in found] == [
        (sample.name, sample.prompt) for sample in bundled_samples()[1:]
    ]


@pytest.mark.parametrize("count", [-1, 9, 20])
def test_no_more_scenes_than_there_are(evprof: Callable[..., Any], count: int) -> None:
    pytest.importorskip("torch")
    found = evprof("bench", "speculation", "--scenes", count)
    assert (found.code, found.output) == (2, "")
    assert f"8 held-out scenes are bundled, not {count}" in found.errors
    assert "--data" in found.errors


def test_what_is_known_of_the_bundled_pair_comes_with_its_figures(evprof, monkeypatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(speculation, "measure_speculation", lambda *_: {"rows": [], "summary": {}})
    known = evprof("bench", "speculation", "--json").document["pair"]
    assert known == pair_evaluation(BUNDLED_TARGET, BUNDLED_DRAFT)
    assert known is not None
    words = ("--target", "random:160m-video-llava", "--json")
    assert evprof("bench", "speculation", *words).document["pair"] is None
