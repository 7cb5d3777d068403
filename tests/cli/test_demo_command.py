"""`evprof demo` without a window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evprof.loaders.bundled import bundled_sample

pytestmark = pytest.mark.usefixtures("scripted")

Evprof = Callable[..., Any]


def test_three_repeats_of_three_configurations_as_one_document(evprof: Evprof, tmp_path: Path) -> None:
    found = evprof("demo", "--headless", "--json", "-o", tmp_path / "d.evprof")
    assert found.code == 0, found.errors
    runs = found.document["runs"]
    assert [(run["mode"], run["role"]) for run in runs] == [
        *[("side-by-side", "draft"), ("side-by-side", "target")] * 3,
        *[("speculative", "target")] * 4,
    ]
    assert [run["group_id"] for run in runs] == [1] * 6 + [2] * 4
    assert [run["run_id"] for run in runs if run["warmup"]] == [7], "the first use of the head"
    assert runs[-1]["speculation"]["rounds"] > 0
    assert runs[-1]["settings"]["speculation"]["drafter"] == "eagle"
    assert evprof("show", tmp_path / "d.evprof", "--json").document == found.document


def test_one_verdict_in_few_lines(evprof: Evprof, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    found = evprof("demo", "-o", tmp_path / "d.evprof")
    assert found.code == 0, found.errors
    lines = found.output.splitlines()
    assert len(lines) + len(found.errors.splitlines()) == 10
    assert lines[0].startswith("configuration")
    assert found.output.count("×") == 1
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
