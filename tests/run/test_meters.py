"""What tells power: NVML's counters and RAPL's, by a clock of our own and a folder of our own; and who samples them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.protocols import RunDescribed, RunEnded
from evprof.core.recording import RecordLog
from evprof.core.run_info import FINISHED
from evprof.run.meters.samplers import (
    NO_GPU,
    PowerSampler,
    RaplMeter,
    RunSamplers,
    nvml_meters,
    rapl_meters,
    rapl_problem,
)
from fake_nvml import MS, FakeClock, FakeGpu, FakeNvml, facts_on

QUESTIONS = {
    "nvmlDeviceGetTotalEnergyConsumption": "energy_uj",
    "nvmlDeviceGetPowerUsage": "power_mw",
    "nvmlDeviceGetTemperature": "temperature_c",
    "nvmlDeviceGetCurrentClocksThrottleReasons": "throttle_bits",
}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_000 * MS)


def test_a_gpu_tells_everything_in_our_units(clock):
    gpu = FakeGpu(lambda _: 250.0, throttle=lambda _: 0x4)
    assert tuple(FakeNvml([gpu], clock).meters()[0].read().values()) == (
        *(5_250_000_000, 250_000, 1980, 3201, 55, 0x4),
        *(97, 61),
    )


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_a_driver_withholds_is_unknown_and_asked_once(clock, question):
    nvml = FakeNvml([FakeGpu(withheld={question})], clock)
    meter = nvml.meters()[0]
    told = [meter.read() for _ in range(3)]
    assert all(QUESTIONS[question] not in reading for reading in told)
    assert all(reading["sm_mhz"] == 1980 for reading in told)
    assert nvml.calls.count(question) == 1


@pytest.mark.parametrize(("shown", "expected"), [
    (None, ["GPU-a", "GPU-b", "GPU-c"]),
    ("2,0", ["GPU-c", "GPU-a"]),
    ("GPU-b", ["GPU-b"]),
    ("1,-1,0", ["GPU-b"]),
    ("", []),
    ("0,7,1", ["GPU-a"]),
    ("GPU-", []),
])  # fmt: skip
def test_gpus_are_numbered_as_cuda_shows_them(clock, monkeypatch, shown, expected):
    nvml = FakeNvml([FakeGpu(uuid=f"GPU-{letter}") for letter in "abc"], clock)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    meters = nvml_meters({} if shown is None else {"CUDA_VISIBLE_DEVICES": shown})
    assert [meter.device for meter in meters] == [f"cuda:{number}" for number in range(len(expected))]
    handles = [nvml.gpus[["GPU-a", "GPU-b", "GPU-c"].index(name)] for name in expected]
    for meter, gpu in zip(meters, handles, strict=True):
        gpu.clock_mhz = lambda _: 777
        assert meter.read()["sm_mhz"] == 777
        gpu.clock_mhz = lambda _: 1980


def zone(folder: Path, name: str, label: str, energy_uj: int | None, range_uj: int = 262_143_328_850) -> Path:
    place = folder / name
    place.mkdir(parents=True)
    (place / "name").write_text(f"{label}\n")
    (place / "max_energy_range_uj").write_text(f"{range_uj}\n")
    if energy_uj is None:
        (place / "energy_uj").mkdir()  # cannot be read, whoever asks
    else:
        (place / "energy_uj").write_text(f"{energy_uj}\n")
    return place


def test_packages_are_read_and_their_parts_are_not(tmp_path):
    zone(tmp_path, "intel-rapl:1", "package-1", 2_000)
    zone(tmp_path, "intel-rapl:0", "package-0", 1_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 5)
    zone(tmp_path, "intel-rapl:2", "psys", 9_000)
    zone(tmp_path, "intel-rapl-mmio:0", "package-0", 7)
    assert [(meter.device, meter.read()) for meter in rapl_meters(tmp_path)] == [
        ("cpu:0", {"energy_uj": 1_000}),
        ("cpu:1", {"energy_uj": 2_000}),
    ]
    assert rapl_problem(tmp_path) is None


def test_a_counter_that_only_root_may_read_is_a_sentence_and_never_0(tmp_path):
    place = zone(tmp_path, "intel-rapl:0", "package-0", None)
    assert rapl_meters(tmp_path) == []
    assert RaplMeter(place, "cpu:0").read() == {}
    assert rapl_problem(tmp_path) == f"The processor's energy is not measured: only root may read {place}/energy_uj."


@given(st.lists(st.integers(0, 999_999), min_size=1, max_size=30), st.integers(0, 999_999))
def test_a_counter_goes_on_where_the_kernels_begins_again(tmp_path_factory, steps, start):
    """Any number of overflows, fewer than one between two readings."""
    place = zone(tmp_path_factory.mktemp("rapl"), "intel-rapl:0", "package-0", start, range_uj=1_000_000)
    meter = RaplMeter(place, "cpu:0")
    first = meter.read()["energy_uj"]
    for true_uj in itertools.accumulate(steps):
        (place / "energy_uj").write_text(str((start + true_uj) % 1_000_000))
        assert meter.read()["energy_uj"] - first == true_uj


def described(*devices: str) -> RunDescribed:
    return RunDescribed(1, {"models": {str(place): facts_on(device) for place, device in enumerate(devices)}})


def devices_of(records) -> list[str]:
    return [record.device for record in records]


def sampled(clock: FakeClock, pid: int = os.getpid()) -> tuple[RunSamplers, RecordLog]:
    meters = FakeNvml([FakeGpu()], clock).meters()
    return RunSamplers(pid, clock=clock, meters=meters, nvml=(None, [])), RecordLog()


def test_ten_samples_a_second_however_often_it_is_asked(clock):
    samplers, recording = sampled(clock)
    for step in range(1000):
        clock.now_ns = (1000 + 3 * step) * MS
        samplers.sample((7,), recording)
    power, memory = (recording.streams[name].rows() for name in ("power", "memory"))
    assert len(power) == len(memory) == 30
    assert {(record.run_id, record.device) for record in power} == {(7, "cuda:0")}
    assert all(record.gpu_bytes == NO_GPU and record.rss_bytes > 1 << 20 for record in memory)
    assert max(later.t_ns - sooner.t_ns for sooner, later in itertools.pairwise(memory)) <= 103 * MS


def test_each_run_has_a_sample_however_short_it_is(clock):
    samplers, recording = sampled(clock)
    for run_id in (1, 1, 2, 2, 3):
        clock.now_ns += MS
        samplers.sample((run_id,), recording)
    assert [record.run_id for record in recording.streams["memory"].rows()] == [1, 2, 3]


def test_a_process_that_is_gone_gives_no_sample(clock):
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        samplers, recording = sampled(clock, process.pid)
    for one in (samplers, sampled(clock, process.pid)[0]):
        one.sample((1,), recording)
    assert not recording.streams["memory"]


def test_only_gpus_that_hold_a_model_are_read_once_that_is_known(clock):
    nvml = FakeNvml([FakeGpu(), FakeGpu(), FakeGpu()], clock)
    sampler = PowerSampler(nvml.meters(), clock=clock)
    assert devices_of(sampler.sample(1)) == ["cuda:0", "cuda:1", "cuda:2"]
    sampler.note(described("cuda:2", "cpu"))
    assert devices_of(sampler.sample(1)) == ["cuda:2"]
    sampler.note(described("cuda"))
    assert devices_of(sampler.sample(1)) == ["cuda:0", "cuda:2"]


def test_a_run_ends_with_a_sample_before_the_message_that_ends_it(clock):
    samplers, recording = sampled(clock, 1 << 22)
    samplers.sample((1,), recording)
    clock.now_ns += 20 * MS
    samplers.sample((1,), recording)
    assert len(recording.streams["power"]) == 1
    samplers.note(RunEnded(1, FINISHED, None, {}), recording)
    assert [record.t_ns for record in recording.streams["power"].rows()] == [1_000 * MS, 1_020 * MS]
    samplers.sample((), recording)
    assert len(recording.streams["power"]) == 2
