"""`evprof demo` without a window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evprof.loaders.bundled import bundled_sample

pytestmark = pytest.mark.usefixtures("scripted")

Evprof = Callable[..., Any]


def test_five_turns_of_three_configurations_as_one_document(evprof: Evprof, tmp_path: Path) -> None:
    found = evprof("demo", "--headless", "--json", "-o", tmp_path / "d.evprof")
    assert found.code == 0, found.errors
    runs = found.document["runs"]
    assert [(run["run_id"], run["turn"]) for run in runs if run["warmup"]] == [(1, None)], "the first use of the head"
    configurations = [(1, "side-by-side", "draft"), (1, "side-by-side", "target"), (2, "speculative", "target")]
    for number in range(5):
        turn = sorted(
            (run["group_id"], run["mode"], run["role"], run["repeat"]) for run in runs[1 + 3 * number : 4 + 3 * number]
        )
        assert turn == [(*configuration, number) for configuration in configurations]
    assert [(run["turn"]["number"], run["turn"]["place"]) for run in runs[1:]] == [divmod(n, 3) for n in range(15)]
    speculative = [run for run in runs if run["mode"] == "speculative"][-1]
    assert speculative["speculation"]["rounds"] > 0
    assert speculative["settings"]["speculation"]["drafter"] == "eagle"
    assert evprof("show", tmp_path / "d.evprof", "--json").document == found.document


def test_one_verdict_in_few_lines(evprof: Evprof, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    found = evprof("demo", "-o", tmp_path / "d.evprof")
    assert found.code == 0, found.errors
    lines = found.output.splitlines()
    assert len(lines) + len(found.errors.splitlines()) <= 12
    assert lines[0].startswith("configuration")
    assert found.output.count("× as long") <= 1
    assert found.output.count("against baseline") == 1
    assert found.errors.startswith("Running without the window")
    assert f"session saved: {tmp_path / 'd.evprof'}" in found.errors


def test_the_scene_is_copied_under_the_names_of_the_pages(evprof: Evprof, tmp_path: Path) -> None:
    sample = bundled_sample()
    for _ in range(2):  # a page may be begun in a folder that has them
        assert evprof("demo", "--copy-scene", tmp_path / "new").code == 0
    assert (tmp_path / "new/scene.npy").read_bytes() == Path(str(sample.events_path)).read_bytes()
    assert (tmp_path / "new/scene.mp4").read_bytes() == Path(str(sample.video_path)).read_bytes()
    (tmp_path / "new/scene.npy").write_bytes(b"mine")
    refused = evprof("demo", "--copy-scene", tmp_path / "new")
    assert refused.code == 1
    assert "scene.npy' is there already and another file" in refused.errors
    assert (tmp_path / "new/scene.npy").read_bytes() == b"mine"
    assert evprof("demo", "--copy-scene", tmp_path, "--json").code == 2
    assert "cannot be written to" in evprof("demo", "--copy-scene", tmp_path / "new/scene.npy").errors
