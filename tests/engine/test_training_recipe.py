"""The recipe of the bundled adapters, with few scenes: from a seed to an evaluated adapter."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.tiny.__main__ import main
from engines.tiny.adapters import RECIPES, make_adapters
from engines.tiny.captions import parse
from engines.tiny.scene_files import KEY_QUESTION, write_scene_files
from evprof.core.vocabulary.drafters import ADAPTER_KINDS
from evprof.loaders.adapters import read_adapter
from evprof.loaders.collection import scene_of
from evprof.loaders.manifests.manifest import read_manifest


def test_scenes_are_a_list_of_samples_and_never_on_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    training = read_manifest(write_scene_files(tmp_path / "scenes", 2, 7, held_out=False, note=told.append))
    assert told == [0, 1, 2]
    assert (len(training.samples), training.problems) == (4, ())
    assert [sample.name for sample in training.samples[:2]] == ["scene-0000", "scene-0000 question 2"]
    assert all(sample.reference and parse(sample.reference) for sample in training.samples)
    monkeypatch.setattr("sys.argv", ["tiny", "scenes", "--count", "2", "--held-out", "-o", str(tmp_path / "held-out")])
    assert main() == 0
    held_out = read_manifest(tmp_path / "held-out" / "scenes.csv").samples
    assert [sample.prompt for sample in held_out] == [KEY_QUESTION] * 2
    scenes = [{scene_of(sample) for sample in samples} for samples in (training.samples, held_out)]
    assert [len(found) for found in scenes] == [2, 2]
    assert scenes[0].isdisjoint(scenes[1])
    before = (tmp_path / "scenes" / "scene-0001" / "video.mp4").stat().st_mtime_ns
    write_scene_files(tmp_path / "scenes", 2, 7, held_out=False)
    assert (tmp_path / "scenes" / "scene-0001" / "video.mp4").stat().st_mtime_ns == before


def test_the_recipe_makes_an_evaluated_adapter(tmp_path: Path) -> None:
    lines: list[str] = []
    (folder,) = make_adapters(
        tmp_path / "out", tmp_path / "work", 7, kinds=["ngram"], scenes=2, held_out=1, note=lines.append
    )
    adapter = read_adapter(str(folder))
    assert adapter.name == "evprof-tiny-ngram"
    assert adapter.evaluation is not None
    assert adapter.evaluation["same_answers"] == adapter.evaluation["answers"] == 1
    assert adapter.training["examples"] == adapter.training["validation_examples"] == 2
    assert any("decoding" in line for line in lines)
    assert set(RECIPES) <= set(ADAPTER_KINDS)
