"""The recipe of the bundled adapters, with few scenes: from a seed to an evaluated adapter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bundled_pair.adapters import RECIPES, make_adapters
from bundled_pair.grammar import parse
from bundled_pair.scene_files import write_scene_files
from evprof.core.vocabulary.drafters import TAUGHT_KINDS
from evprof.loaders.adapters import read_adapter
from evprof.loaders.bundled import assets_folder
from evprof.loaders.collection import scene_of
from evprof.loaders.manifests.manifest import read_manifest
from make_pair import main


def test_scenes_are_a_list_of_samples_and_never_on_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    training = read_manifest(write_scene_files(tmp_path / "scenes", 2, 7, held_out=False, note=told.append))
    assert told == [0, 1, 2]
    assert (len(training.samples), training.problems) == (8, ())
    assert [sample.name for sample in training.samples[:2]] == ["scene-0000", "scene-0000 question 2"]
    assert all(sample.reference and parse(sample.reference) for sample in training.samples)
    monkeypatch.setattr(
        "sys.argv", ["make_pair", "scenes", "--count", "2", "--held-out", "-o", str(tmp_path / "held-out")]
    )
    assert main() == 0
    held_out = read_manifest(tmp_path / "held-out" / "scenes.csv").samples
    assert len({sample.prompt for sample in held_out}) == 2
    assert {sample.prompt for sample in held_out}.isdisjoint(sample.prompt for sample in training.samples)
    scenes = [{scene_of(sample) for sample in samples} for samples in (training.samples, held_out)]
    assert [len(found) for found in scenes] == [2, 2]
    assert scenes[0].isdisjoint(scenes[1])
    before = (tmp_path / "scenes" / "scene-0001" / "video.mp4").stat().st_mtime_ns
    write_scene_files(tmp_path / "scenes", 2, 7, held_out=False)
    assert (tmp_path / "scenes" / "scene-0001" / "video.mp4").stat().st_mtime_ns == before


def test_the_bundled_samples_are_made_by_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["make_pair", "samples", "--out", str(tmp_path)])
    assert main() == 0
    made = sorted(tmp_path.rglob("sample.json"))
    bundled = [path for folder in ("samples", "held-out") for path in (assets_folder() / folder).rglob("sample.json")]
    assert [path.relative_to(tmp_path) for path in made] == sorted(
        path.relative_to(assets_folder()) for path in bundled
    )
    for path in made:
        assert path.read_bytes() == (assets_folder() / path.relative_to(tmp_path)).read_bytes()
        events = (
            np.load(place.with_name("events.npy"), allow_pickle=True).item()
            for place in (path, assets_folder() / path.relative_to(tmp_path))
        )
        one, other = events
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_the_recipe_makes_an_evaluated_adapter(tmp_path: Path) -> None:
    lines: list[str] = []
    (folder,) = make_adapters(
        tmp_path / "out", tmp_path / "work", 7, kinds=["ngram"], scenes=2, held_out=1, note=lines.append
    )
    adapter = read_adapter(str(folder))
    assert adapter.name == "evprof-tiny-ngram"
    assert adapter.evaluation is not None
    assert adapter.evaluation["same_answers"] == adapter.evaluation["answers"] == 1
    assert adapter.training["examples"] == adapter.training["validation_examples"] == 4
    assert any("decoding" in line for line in lines)
    assert set(RECIPES) <= set(TAUGHT_KINDS)
