"""A GPU that fails under a run: the run says so, and the engine says that its process can do no more."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from engines.engine import LocalEngine
from engines.families.llava_model import VideoLanguageModel
from evprof.core.errors import GPU_LOST, EngineLost
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice


@pytest.mark.parametrize("method", ["make_ready", "load", "preprocess", "encode_vision"])
def test_a_gpu_that_fails_in_any_stage_ends_the_engine(
    engine: LocalEngine, sample: Any, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise torch.AcceleratorError("CUDA error: unspecified launch failure\nCompile with …")

    monkeypatch.setattr(VideoLanguageModel, method, fails)
    recording = RecordLog()
    request = RunRequest(
        "target", sample, target=ModelChoice("tiny-target"), settings=GenerationSettings(max_new_tokens=4), repeat=3
    )
    with pytest.raises(EngineLost, match="unspecified launch failure"):
        engine.run(request, recording, threading.Event())
    book = RunBook(recording)
    book.update()
    (run,) = book.runs.values()
    assert run.info.status == "failed"
    assert (
        run.info.error
        == f"{GPU_LOST} (unspecified launch failure), and its engine must start again before the next run."
    )
