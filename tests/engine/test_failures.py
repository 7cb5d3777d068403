"""Runs that fail: memory that ran out, and a GPU that failed."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engines.decoder.decoding import CachedModel
from engines.decoder.step_choice import DecodeSteps
from engines.engine import LocalEngine
from engines.families.eventgpt import EventLanguageModel
from engines.families.llava_model import VideoLanguageModel
from engines.modes.failures import is_memory_failure, memory_sentence
from engines.modes.measured_run import MeasuredRun
from evprof.core.errors import GPU_LOST, EngineLost
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from run_logs import runs_of, saved_runs

FULL = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 139.72 GiB of which 1.10 GiB is "
    "free. Including non-PyTorch memory, this process has 138.60 GiB memory in use."
)


class NoMemory(TorchDispatchMode):
    """Refuses new tensors with PyTorch's error; views and what is written in place go on."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        if _storages(made) - _storages((args, kwargs)):
            raise torch.OutOfMemoryError(FULL)
        return made


def _storages(values: Any) -> set[int]:
    tensors = (value for value in tree_leaves(values) if isinstance(value, torch.Tensor))
    return {tensor.untyped_storage()._cdata for tensor in tensors}


DRAFT, TARGET = ModelChoice("tiny-draft"), ModelChoice("tiny-target")

AMOUNTS = ": 2.00 GiB were asked for and 1.10 GiB were free"


def carry_out(engine: LocalEngine, mode: str, sample: Any, *, alternatives: bool = True, **asked: Any) -> RunLog:
    speculation = SpeculationSettings(**asked)
    settings = GenerationSettings(max_new_tokens=8, alternatives=alternatives, speculation=speculation)
    return runs_of(engine, RunRequest(mode, sample, DRAFT, TARGET, settings))[-1]


class Full:
    """Takes some memory and runs out of it, the `nth` time it is asked and from then on."""

    def __init__(self, inner: Callable[..., Any], nth: int = 1) -> None:
        self._inner, self._nth, self.asked = inner, nth, 0
        self.taken: list[weakref.ref[torch.Tensor]] = []

    def __get__(self, owner: Any, kind: Any = None) -> Callable[..., Any]:
        return lambda *words, **named: self(owner, *words, **named)

    def __call__(self, *words: Any, **named: Any) -> Any:
        self.asked += 1
        if self.asked < self._nth:
            return self._inner(*words, **named)
        held = torch.zeros(64)
        self.taken.append(weakref.ref(held))
        raise torch.OutOfMemoryError(FULL)


@pytest.mark.parametrize(
    ("mode", "owner", "method", "nth", "where"),
    [
        ("target", DecodeSteps, "choose", 1, "while the decode step of the target was made"),
        ("target", VideoLanguageModel, "make_ready", 1, "while the target was made ready"),
        ("target", VideoLanguageModel, "load", 1, "in stage load of the target"),
        ("target", VideoLanguageModel, "preprocess", 1, "in stage preprocess of the target"),
        ("target", VideoLanguageModel, "encode_vision", 1, "in stage vision of the target"),
        ("target", CachedModel, "prefill", 1, "in stage prefill of the target"),
        ("target", CachedModel, "step", 3, "in stage decode of the target"),
        ("speculative", CachedModel, "step", 3, "in stage decode of the target"),
        ("parallel-prefill", EventLanguageModel, "encode_vision", 1, "in stage vision of the draft"),
        ("parallel-prefill", CachedModel, "step", 1, "in stage decode of the draft"),
        ("target", MeasuredRun, "_tell_inputs", 1, "after its last stage"),
    ],
)
def test_a_run_that_runs_out_says_where_and_the_next_one_works(
    engine, sample, monkeypatch, *, mode: str, owner, method: str, nth: int, where: str
) -> None:
    asked: dict[str, Any] = {"hidden": 4} if mode == "parallel-prefill" else {}
    expected = carry_out(engine, mode, sample, **asked)
    full = Full(getattr(owner, method), nth)
    with monkeypatch.context() as patch:
        patch.setattr(owner, method, full)
        failed = carry_out(engine, mode, sample, **asked).info
    assert (failed.status, full.asked >= nth) == ("failed", True)
    assert failed.error.startswith(f"Memory ran out on cuda:1 {where}{AMOUNTS}, with ")
    assert "; choose " in failed.error
    assert [taken() for taken in full.taken] == [None] * len(full.taken)
    again = carry_out(engine, mode, sample, **asked)
    assert (again.info.status, again.info.error) == ("finished", None)
    assert [token.token_id for token in again.tokens] == [token.token_id for token in expected.tokens]


def test_no_memory_from_the_start_is_a_failed_run(engine: LocalEngine, sample: Any) -> None:
    """Its machine is described all the same."""
    expected = carry_out(engine, "target", sample).info
    with NoMemory():
        failed = carry_out(engine, "target", sample).info
    assert failed.status == "failed"
    assert failed.error.startswith("Memory ran out on cuda:1 ")
    assert failed.environment == expected.environment


@pytest.mark.parametrize("mode", ["target", "speculative", "parallel-prefill"])
def test_no_memory_is_needed_to_describe_a_run_that_ends(engine, sample, monkeypatch, mode: str) -> None:
    # Alternatives and judgements are computed at the end, and not a description.
    asked: dict[str, Any] = {"alternatives": False, "judges": False}
    expected = carry_out(engine, mode, sample, **asked).info
    outcome = MeasuredRun._add_outcome

    def described(*given: Any) -> dict[str, Any]:
        with NoMemory():
            return outcome(*given)

    monkeypatch.setattr(MeasuredRun, "_add_outcome", described)
    ended = carry_out(engine, mode, sample, **asked).info
    assert (ended.status, ended.error) == ("finished", None)
    assert ended.models == expected.models


@pytest.mark.parametrize(
    "problem",
    [
        torch.OutOfMemoryError("no more"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 17179869184 bytes."),
        RuntimeError(
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 17179869184 bytes. Error code 12"
        ),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    ],
)
def test_every_shape_of_it_is_known(problem: Exception) -> None:
    assert is_memory_failure(problem)
    said = memory_sentence(problem, doing="between two stages", devices={"target": "cpu"}, held_bytes=13 << 30)
    amount = ": 16.00 GiB were asked for" if "17179869184" in str(problem) else ""
    assert said == (
        f"Memory ran out on cpu between two stages{amount}, with 13.00 GiB of weights loaded; choose a smaller model "
        "or dtype, fewer frames or fewer new tokens."
    )


@pytest.mark.parametrize("method", ["make_ready", "load", "preprocess", "encode_vision"])
def test_a_gpu_that_fails_in_any_stage_ends_the_engine(engine, sample, monkeypatch, method: str) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise torch.AcceleratorError("CUDA error: unspecified launch failure\nCompile with …")

    monkeypatch.setattr(VideoLanguageModel, method, fails)
    recording = RecordLog()
    request = RunRequest(
        "target", sample, target=ModelChoice("tiny-target"), settings=GenerationSettings(max_new_tokens=4), repeat=3
    )
    with pytest.raises(EngineLost, match="unspecified launch failure"):
        engine.run(request, recording, threading.Event())
    (run,) = saved_runs(recording)
    assert run.info.status == "failed"
    assert (
        run.info.error
        == f"{GPU_LOST} (unspecified launch failure), and its engine must start again before the next run."
    )
