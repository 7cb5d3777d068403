"""`evprof demo` without a window."""

from __future__ import annotations

import subprocess

import pytest

pytestmark = pytest.mark.usefixtures("scripted")


def test_three_runs_as_one_document(evprof, tmp_path) -> None:
    found = evprof("demo", "--headless", "--json", "-o", tmp_path / "d.evprof")
    assert found.code == 0, found.errors
    runs = found.document["runs"]
    assert [run["mode"] for run in runs] == ["side-by-side", "side-by-side", "speculative"]
    assert [run["role"] for run in runs] == ["draft", "target", "target"]
    assert [run["group_id"] for run in runs] == [1, 1, 2]
    assert runs[2]["speculation"]["rounds"] > 0
    assert [run["model"]["name"] for run in evprof("show", tmp_path / "d.evprof", "--json").document["runs"]]
    assert not (tmp_path / "d.png").exists()


def test_without_a_display_it_says_so_and_leaves_a_picture(evprof, tmp_path, monkeypatch) -> None:
    drawn = []

    def run(argv, **options):
        drawn.append((argv, options["env"]["QT_QPA_PLATFORM"]))
        (tmp_path / "d.png").write_bytes(b"png")
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    found = evprof("demo", "-o", tmp_path / "d.evprof")
    assert found.code == 0, found.errors
    assert found.errors.startswith("Running without the window")
    assert f"session saved: {tmp_path / 'd.evprof'}" in found.errors
    assert f"picture of the window saved: {tmp_path / 'd.png'}" in found.errors
    ((argv, platform),) = drawn
    assert argv[-4:] == ["gui", str(tmp_path / "d.evprof"), "--screenshot", str(tmp_path / "d.png")]
    assert platform == "offscreen"


def test_a_picture_that_fails_is_a_warning(evprof, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda argv, **_: subprocess.CompletedProcess(argv, 1, "", "no Qt"))
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    found = evprof("demo", "-o", tmp_path / "d.evprof")
    assert found.code == 0
    assert "warning: the window could not be drawn: no Qt" in found.errors
