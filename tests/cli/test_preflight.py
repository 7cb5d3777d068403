"""What cannot come to a measurement is told before the engine starts, and leaves no session."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evprof.cli import preflight
from evprof.cli.run import recorded_session
from evprof.loaders.bundled import bundled_sample

SAMPLE = bundled_sample()


@pytest.fixture
def refused(evprof: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs `evprof run WORDS`, which must be refused in one line without an engine or a session; returns the line."""

    def no_engine() -> None:
        raise AssertionError("the engine was started")

    monkeypatch.setattr(recorded_session, "make_engine", no_engine)

    def run(*words: object) -> str:
        found = evprof("run", *words, "-o", tmp_path / "s.evprof")
        assert found.code in (1, 2), found.errors
        assert found.output == ""
        assert not (tmp_path / "s.evprof").exists()
        (line,) = found.errors.splitlines()
        return str(line)

    return run


def test_a_folder_that_is_no_checkpoint(refused, tmp_path) -> None:
    (tmp_path / "model").mkdir()
    assert "holds no config.json" in refused("--target", tmp_path / "model")
    (tmp_path / "model" / "inner").mkdir()
    (tmp_path / "model" / "inner" / "config.json").write_text("{}")
    assert "did you mean" in refused("--target", tmp_path / "model")


def test_a_checkpoint_of_another_family_or_without_weights(refused, tmp_path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "bert"}))
    assert "'bert'" in refused("--target", tmp_path)
    config.write_text(json.dumps({"model_type": "video_llava"}))
    assert "no weights" in refused("--target", tmp_path)
    config.write_text("{")
    assert "config.json" in refused("--target", tmp_path)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("evprof-tiny-eventgtp", "did you mean evprof-tiny-eventgpt?"),
        ("random:7b-video-lava", "did you mean random:7b-video-llava?"),
        ("checkpoints/Video-LLaVA", "did you mean checkpoints/Video-LLaVA-7B?"),
        ("./checkpoints/Video-LLaVA-7b", "did you mean checkpoints/Video-LLaVA-7B?"),
    ],
)
def test_the_name_of_no_model(refused, tmp_path, monkeypatch, name, nearest) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoints" / "Video-LLaVA-7B").mkdir(parents=True)
    assert nearest in refused("--target", name)


def test_devices(refused, monkeypatch) -> None:
    monkeypatch.setattr(preflight, "cuda_problem", lambda: "no NVIDIA GPU was found")
    assert "no NVIDIA GPU was found; use --device cpu" in refused("--device", "cuda")
    assert "did you mean cuda?" in refused("--device", "gpu")
    assert "did you mean cuda?" in refused("--device", "cdua")
    assert "--step graphs: CUDA graphs need a model on a CUDA device" in refused("--step", "graphs")
    assert "fused" in refused("--step", "fused", "--device", "cpu")
    assert "cuDNN" in refused("--attention", "cudnn")


def test_a_gpu_that_is_there_may_be_asked_for_what_it_can(monkeypatch) -> None:
    monkeypatch.setattr(preflight, "cuda_problem", lambda: "")
    preflight.check_device("cuda:1")
    assert preflight._may_use_cuda(["auto"])


def test_inputs_of_the_other_kind(refused) -> None:
    assert "is a video; did you mean --video?" in refused("--events", SAMPLE.video_path)
    assert "is an event recording; did you mean --events?" in refused("--video", SAMPLE.events_path)


def test_a_slip_in_a_path(refused, tmp_path) -> None:
    (tmp_path / "scene.npy").touch()
    assert f"did you mean {tmp_path / 'scene.npy'}?" in refused("--events", tmp_path / "scnee.npy")


def test_clips_past_the_end(refused) -> None:
    assert "no event lies" in refused("--events", SAMPLE.events_path, "--start-ms", 9_000_000, "--duration-ms", 10)
    assert "shows no frame" in refused("--video", SAMPLE.video_path, "--start-ms", 9_000_000, "--duration-ms", 10)


def test_places_that_cannot_be_written(refused, tmp_path, evprof) -> None:
    (tmp_path / "file").touch()
    assert "is a file" in refused("--torch-trace", tmp_path / "file" / "logs")
    found = evprof("run", "-o", tmp_path / "gone" / "s.evprof")
    assert (found.code, "no folder" in found.errors) == (1, True)


def test_a_suite_is_told_before_its_first_row(evprof, tmp_path) -> None:
    pytest.importorskip("torch")
    asked = ("suite", "stages", "-o", tmp_path / "results", "--device", "gpu")
    found = evprof(*asked)
    assert (found.code, "did you mean cuda?" in found.errors) == (2, True)
    samples = tmp_path / "samples.csv"
    np.save(tmp_path / "a.npy", np.zeros(3))
    (tmp_path / "a.mp4").touch()
    samples.write_text("events,video,prompt\na.npy,a.mp4,What?\n")
    found = evprof("suite", samples, "-o", tmp_path / "results")
    assert found.code == 1
    assert "None of the 1 samples can be read" in found.errors
    assert not (tmp_path / "results" / "suite.evprof").exists()
