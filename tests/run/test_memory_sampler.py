"""Ten samples a second of a process that is there, none of one that is gone, and GPU bytes only when known."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

from evprof.run.meters.memory_sampler import NO_GPU, MemorySampler, nvml_process_bytes


class FakeClock:
    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def __call__(self) -> int:
        return self.now_ns


def test_ten_samples_a_second_however_often_it_is_asked():
    clock = FakeClock()
    sampler = MemorySampler(os.getpid(), clock=clock, gpu_bytes=lambda pid: 4096)
    samples = []
    for step in range(1000):
        clock.now_ns = 1_000_000_000 + step * 3_000_000
        if sample := sampler.sample_if_due(7):
            samples.append(sample)
    assert len(samples) == 30
    assert {sample.run_id for sample in samples} == {7}
    assert all(sample.gpu_bytes == 4096 and sample.rss_bytes > 1 << 20 for sample in samples)
    gaps = [later.t_ns - sooner.t_ns for sooner, later in itertools.pairwise(samples)]
    assert max(gaps) <= 103_000_000


def test_each_run_has_a_sample_however_short_it_is():
    clock = FakeClock()
    sampler = MemorySampler(os.getpid(), clock=clock, gpu_bytes=lambda pid: NO_GPU)
    found = []
    for run_id in (1, 1, 2, 2, 3):
        clock.now_ns += 1_000_000
        found.append(sampler.sample_if_due(run_id) is not None)
    assert found == [True, False, True, False, True]


def test_a_process_that_is_gone_gives_no_sample():
    process = subprocess.Popen([sys.executable, "-c", ""])
    sampler = MemorySampler(process.pid, gpu_bytes=lambda pid: NO_GPU)
    process.wait()
    assert sampler.sample_if_due(1) is None
    assert MemorySampler(process.pid, gpu_bytes=lambda pid: NO_GPU).sample_if_due(1) is None


def test_without_a_gpu_process_the_bytes_are_unknown_not_zero():
    assert nvml_process_bytes()(os.getpid()) == NO_GPU
