"""What this machine can do at most, measured: bytes a second from memory, operations a second in matrix products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from engines.hardware.device import dtype_name, free_bytes
from evprof.core.protocols import monotonic_ns
from evprof.core.units import MIB, NS_PER_S

TRIES = 5

SAMPLE_NS = 60_000_000

_CPU_BYTES, _CUDA_BYTES = 256 * MIB, 1024 * MIB

_SHARE = 8

_CPU_WIDTH, _CUDA_WIDTH = 1024, 8192


@dataclass(frozen=True)
class Ceilings:
    """Bytes a second copied (reads and writes) and read, operations a second in `dtype`. `cache_bytes` is the
    last-level cache, if known."""

    copy_bytes_s: float
    read_bytes_s: float
    matmul_flops_s: float
    dtype: str
    threads: int
    cache_bytes: int | None

    @property
    def bandwidth_bytes_s(self) -> float:
        """The most that memory gave: decoding reads, and on CPUs reading alone is faster than copying."""
        return max(self.copy_bytes_s, self.read_bytes_s)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "bandwidth_bytes_s": self.bandwidth_bytes_s}


def measure_ceilings(device: torch.device, dtype: torch.dtype, *, scale: float = 1.0) -> Ceilings:
    """All of them on `device`, in a few seconds; `scale` shrinks buffers, matrices and samples (for tests)."""
    sample_ns = int(scale * SAMPLE_NS)
    size = int(scale * (_CUDA_BYTES if device.type == "cuda" else _CPU_BYTES))
    size = min(size, free_bytes(device) // _SHARE)
    width = max(64, int(scale * (_CUDA_WIDTH if device.type == "cuda" else _CPU_WIDTH)))
    with torch.inference_mode():
        return Ceilings(
            copy_bytes_s=copy_bandwidth(device, size, sample_ns),
            read_bytes_s=read_bandwidth(device, dtype, size, sample_ns),
            matmul_flops_s=matmul_rate(device, dtype, width, sample_ns),
            dtype=dtype_name(dtype),
            threads=torch.get_num_threads(),
            cache_bytes=last_level_cache_bytes(device),
        )


def copy_bandwidth(device: torch.device, size_bytes: int, sample_ns: int = SAMPLE_NS) -> float:
    """Bytes a second of a large copy; every byte is read once and written once."""
    source = torch.ones(size_bytes // 4, device=device)
    target = torch.zeros_like(source)
    return 2 * source.nbytes / fastest_s(lambda: target.copy_(source), device, sample_ns)


def read_bandwidth(device: torch.device, dtype: torch.dtype, size_bytes: int, sample_ns: int = SAMPLE_NS) -> float:
    rates = []
    for kind in {dtype, torch.float32}:
        columns = 4096
        matrix = torch.ones((max(1, size_bytes // kind.itemsize // columns), columns), device=device, dtype=kind)
        vector = torch.ones(columns, device=device, dtype=kind)
        rates.append(matrix.nbytes / fastest_s(partial(torch.mv, matrix, vector), device, sample_ns))
        if kind == torch.float32:
            rates.append(matrix.nbytes / fastest_s(matrix.sum, device, sample_ns))
        del matrix, vector
    return max(rates)


def matmul_rate(device: torch.device, dtype: torch.dtype, width: int, sample_ns: int = SAMPLE_NS) -> float:
    left = torch.randn((width, width), device=device, dtype=dtype)
    right = torch.randn((width, width), device=device, dtype=dtype)
    result = torch.empty_like(left)
    return 2 * width**3 / fastest_s(lambda: torch.mm(left, right, out=result), device, sample_ns)


def fastest_s(call: Callable[[], object], device: torch.device, sample_ns: int = SAMPLE_NS) -> float:
    """Seconds of one call, by the fastest of TRIES samples; the device is waited for around a sample, not a call."""
    calls = 1
    while (spent := _sample_ns(call, calls, device)) < sample_ns and calls < 10_000:
        calls = max(calls + 1, min(10 * calls, calls * sample_ns // max(spent, 1) + 1))
    return min(_sample_ns(call, calls, device) for _ in range(TRIES)) / calls / NS_PER_S


def _sample_ns(call: Callable[[], object], calls: int, device: torch.device) -> int:
    wait(device)
    began_ns = monotonic_ns()
    for _ in range(calls):
        call()
    wait(device)
    return monotonic_ns() - began_ns


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def last_level_cache_bytes(device: torch.device) -> int | None:
    """The L2 of a GPU, the largest cache that Linux lists of a CPU; None where nothing tells."""
    if device.type == "cuda":
        size = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", None)
        return int(size) if size else None
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            text = path.read_text(encoding="ascii").strip()
            sizes.append(int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text))
        except (OSError, ValueError, IndexError):
            continue
    return max(sizes, default=None)
