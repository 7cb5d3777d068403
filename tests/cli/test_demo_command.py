"""`evprof demo` without a window."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evprof.loaders.bundled import bundled_sample

pytestmark = pytest.mark.usefixtures("scripted")

Evprof = Callable[..., Any]


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], str]]:
    """Command and platform of each picture of the window, which is a file of three bytes; the folder is `tmp_path`."""
    found = []

    def run(argv: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        found.append((argv, options["env"]["QT_QPA_PLATFORM"]))
        Path(argv[-1]).write_bytes(b"png")
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    monkeypatch.chdir(tmp_path)
    return found


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
    assert not (tmp_path / "d.png").exists()


def test_ten_lines_with_one_verdict_and_the_picture_last(
    evprof: Evprof, tmp_path: Path, drawn: list[tuple[list[str], str]]
) -> None:
    found = evprof("demo", "--headless")
    assert found.code == 0, found.errors
    lines = found.output.splitlines()
    assert len(lines) + len(found.errors.splitlines()) == 9
    assert lines[0].startswith("configuration")
    assert found.output.count("×") == 1
    assert found.errors.splitlines()[-1] == f"picture of the window saved: {tmp_path / 'evprof-demo.png'}"
    ((argv, platform),) = drawn
    assert argv[-2:] == ["--screenshot", str(tmp_path / "evprof-demo.png")]
    assert platform == "offscreen"


def test_without_a_display_it_says_so_and_the_picture_lies_beside_the_session(
    evprof: Evprof, tmp_path: Path, drawn: list[tuple[list[str], str]]
) -> None:
    (tmp_path / "kept").mkdir()
    found = evprof("demo", "-o", tmp_path / "kept" / "d.evprof")
    assert found.code == 0, found.errors
    assert found.errors.startswith("Running without the window")
    assert f"session saved: {tmp_path / 'kept' / 'd.evprof'}" in found.errors
    assert found.errors.splitlines()[-1] == f"picture of the window saved: {tmp_path / 'kept' / 'd.png'}"


def test_a_picture_that_fails_is_a_warning(evprof: Evprof, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda argv, **_: subprocess.CompletedProcess(argv, 1, "", "no Qt"))
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    found = evprof("demo", "-o", tmp_path / "d.evprof")
    assert found.code == 0
    assert "warning: the window could not be drawn: no Qt" in found.errors


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
