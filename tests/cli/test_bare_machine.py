"""What a machine without window, video and format libraries still does, as a GPU machine may be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bare_machine import ROOT, bare_environment

SAMPLE = ROOT / "assets" / "samples" / "bus-approaching"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that lack what such a machine lacks."""
    return bare_environment(tmp_path_factory.mktemp("bare"))


def evprof(words: list[str], environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "evprof", *words],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_events_are_run_and_saved(bare: dict[str, str], tmp_path: Path) -> None:
    events = ROOT / "assets/samples/bus-approaching/events.npy"
    words = ["run", "--events", str(events), "--mode", "draft", "--max-new-tokens", "3"]
    done = evprof([*words, "-o", "a.evprof"], bare, tmp_path)
    assert (done.returncode, "defect" in done.stderr) == (0, False), done.stderr
    assert (tmp_path / "a.evprof").is_file()


@pytest.mark.parametrize("words", [("run", "--sample", str(SAMPLE)), ("inspect", str(SAMPLE / "video.mp4"))])
def test_a_video_file_says_what_it_needs(bare: dict[str, str], tmp_path: Path, words: tuple[str, ...]) -> None:
    done = evprof([*words], bare, tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "evprof: The Python package 'av' is missing; `pip install evprof` adds what this installation lacks."
    )


def test_models_and_doctor_answer(bare: dict[str, str], tmp_path: Path) -> None:
    assert evprof(["inspect"], bare, tmp_path).returncode == 0
    done = evprof(["doctor", "--json"], bare, tmp_path)
    found = json.loads(done.stdout)
    assert found["folders"]["sessions"]["path"] == str(Path(bare["XDG_DATA_HOME"]) / "evprof" / "sessions")
    assert "The package av is not installed." in [problem["problem"] for problem in found["problems"]]
