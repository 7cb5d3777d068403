"""The machine of a run: GPU state and architecture of models."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engines.hardware.environment import NOTHING, GpuWatch, card_facts, gpu_state, gpu_warnings
from engines.inspection import describe_model
from engines.loading.weights import find_checkpoint
from evprof.core.protocols import RunEnded, RunWarned
from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice

GPU = torch.device("cuda", 0)


class FakeNvml:
    """One GPU; `withheld` are the questions its driver does not answer."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        self.withheld: set[str] = set()
        self.pids = [os.getpid(), 4_000_000]
        self.handles: list[str] = []

    def nvmlInit(self) -> None:
        self._answer("nvmlInit", None)

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        self.handles.append(uuid)
        return uuid

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Callable[..., Any]] = {
            "nvmlDeviceGetEnforcedPowerLimit": lambda _: 700_000,
            "nvmlDeviceGetPowerUsage": lambda _: 123_456,
            "nvmlDeviceGetClockInfo": lambda _, kind: {1: 1980, 2: 3201}[kind],
            "nvmlDeviceGetMaxClockInfo": lambda *_: 1980,
            "nvmlDeviceGetTemperature": lambda *_: 41,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _: 0x1 | 0x4 | 0x40,
            "nvmlDeviceGetComputeRunningProcesses": lambda _: [
                SimpleNamespace(pid=pid, usedGpuMemory=5 << 30) for pid in self.pids
            ],
        }
        if name not in answers:
            raise AttributeError(name)
        return lambda *words: self._answer(name, answers[name](*words))

    def _answer(self, name: str, value: Any) -> Any:
        if name in self.withheld:
            raise self.NVMLError(f"{name} is not supported")
        return value


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(uuid="12-ab"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    return fake


def test_every_figure(nvml: FakeNvml) -> None:
    assert gpu_state(GPU) == {
        "clocks_mhz": 1980,
        "memory_clocks_mhz": 3201,
        "most_clocks_mhz": 1980,
        "power_limit_w": 700.0,
        "power_w": pytest.approx(123.456),
        "temperature_c": 41,
        "throttle_reasons": ["power cap", "thermal slowdown (hardware)"],
        "other_processes": 1,
    }
    assert nvml.handles == ["GPU-12-ab"]


def test_what_the_driver_withholds_is_none(nvml: FakeNvml) -> None:
    nvml.withheld = {"nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetComputeRunningProcesses"}
    nvml.withheld.add("nvmlDeviceGetCurrentClocksThrottleReasons")
    state = gpu_state(GPU)
    assert (state["power_limit_w"], state["other_processes"], state["throttle_reasons"]) == (None, None, None)
    assert state["temperature_c"] == 41


def test_no_gpu_no_driver_no_library(nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu_state(torch.device("cpu")) is None
    nvml.withheld = {"nvmlInit"}
    assert gpu_state(GPU) is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu_state(GPU) is None


def state(**changes: Any) -> dict[str, Any]:
    calm = {"clocks_mhz": 1980, "temperature_c": 50, "throttle_reasons": [], "other_processes": 0}
    return {**calm, **changes}


def test_a_calm_gpu_of_ones_own_is_no_warning() -> None:
    assert gpu_warnings(state(), state()) == []
    assert gpu_warnings(None, None) == []
    assert gpu_warnings(state(throttle_reasons=None, other_processes=None), None) == []
    assert gpu_warnings(state(throttle_reasons=["applications clocks setting"]), state()) == []


def test_slowed_down_in_between() -> None:
    (said,) = gpu_warnings(state(), state(clocks_mhz=1200, throttle_reasons=["thermal slowdown (software)"]))
    assert "slowed down by thermal slowdown (software) (at 1,980 MHz and 1,200 MHz)" in said
    (said,) = gpu_warnings(state(), state(temperature_c=91))
    assert "91 °C" in said


def test_a_watch_compares_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter([state(), state(), state(throttle_reasons=["power cap"], clocks_mhz=900), state()])
    monkeypatch.setattr("engines.hardware.environment.gpu_state", lambda _: next(states))
    watch = GpuWatch([GPU, torch.device("cpu"), GPU, torch.device("cuda", 1)])
    now, said = watch.look_again()
    assert now[GPU]["clocks_mhz"] == 900
    assert [sentence.split(" was")[0] for sentence in said] == ["The GPU cuda:0"]


def test_a_run_says_how_the_gpu_fared(engine, sample, sink, never, monkeypatch) -> None:
    """A run that a stand-in for the watch calls throttled: warned about, and the state is in its environment."""

    class Throttled(GpuWatch):
        def look_again(self) -> Any:
            return {torch.device("cpu"): state(temperature_c=90)}, ["The GPU was slowed down by power cap."]

    monkeypatch.setattr("engines.modes.measured_run.GpuWatch", Throttled)
    request = RunRequest("draft", sample, ModelChoice("tiny-draft"), None, GenerationSettings(max_new_tokens=2))
    engine.run(request, sink, never)
    warned = [message.sentence for message in sink.messages if isinstance(message, RunWarned)]
    assert warned.count("The GPU was slowed down by power cap.") == 1
    (ended,) = [message for message in sink.messages if isinstance(message, RunEnded)]
    assert ended.facts["environment"]["gpu_end"]["temperature_c"] == 90
    assert ended.facts["environment"]["gpu"] is None


def test_a_card_is_told_by_what_runs_are_compared_by(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(uuid="1b2c", major=9, minor=0, multi_processor_count=132, total_memory=150 << 30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: fake)
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91_002)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    facts = card_facts(GPU)
    assert set(facts) == set(NOTHING)
    assert (facts["compute_capability"], facts["sm_count"], facts["gpu_memory_bytes"]) == ("9.0", 132, 150 << 30)
    assert (facts["cudnn"], facts["allocator"]) == ("9.10.2", "expandable_segments:True")
    assert facts["tf32"] == {"matmul": False, "cudnn": True}
    assert len(facts["gpu_id"]) == 12
    assert "1b2c" not in str(facts)
    other = fake.__dict__ | {"uuid": "1b2d"}
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(**other))
    assert card_facts(GPU)["gpu_id"] != facts["gpu_id"]


SETTINGS = GenerationSettings(max_new_tokens=101, frames=8, event_frames=5)


def described(name: str) -> dict:
    found = describe_model(find_checkpoint(name).config, SETTINGS)
    assert json.loads(json.dumps(found)) == found
    return found


def test_operations_are_two_for_every_weight_and_position() -> None:
    """Prompt: 8 · 576 visual positions and 35 of text. Attention comes on top, which is small at these lengths."""
    flops = described("random:7b-llava")["flops"]
    weights = 32 * (4 * 4096**2 + 3 * 4096 * 11_008)
    assert flops["prefill_positions"] == 8 * 576 + 35
    assert 1 < flops["prefill"] / (2 * weights * flops["prefill_positions"]) < 1.2
    assert flops["decode_context"] == 8 * 576 + 35 + 101 / 2
    assert 1 < flops["decode_per_token"] / (2 * (weights + 32_064 * 4096)) < 1.2
    tower = 23 * (4 * 1024**2 + 2 * 1024 * 4096)
    assert 1 < flops["vision_per_frame"] / (2 * 577 * (tower + 1024 * 4096 + 4096**2)) < 1.1
