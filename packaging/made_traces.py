"""Makes torch profiler traces in the layout that Kineto publishes, without a GPU: for tests, fuzzing and measurements.

`python packaging/made_traces.py OUT.pt.trace.json [--steps 250] [--layers 32]` writes a decoding 32-layer model: 250
steps with shapes are about 1.6 million entries and 660 MB. The times are made up; they nest and queue as real ones do.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

BASE_NS = 1_790_857_026_000_000_000
"""What Kineto writes as baseTimeNanoseconds: times count from here."""

_HEAD = {
    "schemaVersion": 1,
    "deviceProperties": [
        {
            "id": 0,
            "name": "NVIDIA H100 80GB HBM3",
            "totalGlobalMem": 84_929_347_584,
            "computeMajor": 9,
            "computeMinor": 0,
            "maxThreadsPerBlock": 1024,
            "maxThreadsPerMultiprocessor": 2048,
            "regsPerBlock": 65536,
            "warpSize": 32,
            "sharedMemPerBlock": 49152,
            "numSms": 132,
        }
    ],
    "cupti_version": 26,
    "cuda_runtime_version": 12080,
    "record_shapes": 1,
    "profile_memory": 1,
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": BASE_NS,
}

GEMM = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__"
    "5x_cublas"
)
ELEMENTWISE = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<"
    "c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> > >(at::"
    "TensorIteratorBase&, at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::"
    "binary_internal::MulFunctor<float> > const&)::{lambda(int)#1}>(int, at::native::gpu_kernel_impl_nocast<"
    "at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::"
    "MulFunctor<float> > >)"
)
ATTENTION = (
    "pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, "
    "cutlass::bfloat16_t> >"
)

Shape = Sequence[Sequence[int]]


class MadeTrace:
    """A trace under way: host work takes its time on one thread, kernels queue on one stream of one device.

    All times are quarters of a microsecond, so that they are exact in whoever reads them as floats. `runtime` is the
    category of CUDA's calls: Kineto's is `cuda_runtime`, that of 2021 `Runtime`.
    """

    def __init__(
        self,
        file: TextIO,
        *,
        pid: int = 4242,
        device: int = 0,
        start_ns: int = 5_000_000_000_000_000 % BASE_NS // 2,
        runtime: str = "cuda_runtime",
        is_pretty: bool = True,
        head: dict[str, Any] | None = None,
    ) -> None:
        self._file, self.pid, self.device, self.now_ns = file, pid, device, start_ns
        self._start_ns, self._thread = start_ns, (pid, pid)
        self._runtime = runtime
        self._entry, self._line, self._inner = ("\n  ", "\n    ", "\n      ") if is_pretty else ("", " ", "")
        self._free_ns = start_ns
        self._id = self._index = self._python = 0
        self._allocated = 0
        self.entries = 0
        words = json.dumps({**_HEAD, **(head or {})}, indent=1 if is_pretty else None)
        file.write(f'{words.rstrip().removesuffix("}").rstrip()}, "traceEvents": [')
        for name, value in (("process_name", "python"), ("process_labels", "CPU")):
            self.write({"ph": "M", "name": name, "ts": _us(start_ns), "pid": pid, "tid": 0, "args": {"name": value}})

    def write(self, entry: dict[str, Any]) -> None:
        """One entry as it is."""
        self._text(json.dumps(entry))

    def _text(self, text: str) -> None:
        self._file.write(f"{',' if self.entries else ''}{self._entry}{text}")
        self.entries += 1

    def close(self, name: str = "made.pt.trace.json") -> None:
        """Ends the list and the file's text."""
        end = max(self.now_ns, self._free_ns)
        self._slice(
            "Trace", "PyTorch Profiler (0)", ("Spans", "PyTorch Profiler"), (self._start_ns, end), '"Op count": 0'
        )
        self._file.write(f'\n  ],"traceName": "{name}" }}\n')

    def wait(self, ns: int) -> None:
        """The host does something that nobody records."""
        self.now_ns += ns

    def _slice(self, cat: str, name: str, place: tuple[Any, Any], time: tuple[int, int], args: str) -> None:
        """`place` is process and thread, `time` beginning and end."""
        line, (start, end) = self._line, time
        pid, tid = (json.dumps(word) for word in place)
        fields = (
            f'"ph": "X",{line}"cat": "{cat}"',
            f'"name": {json.dumps(name)}',
            f'"pid": {pid},{line}"tid": {tid}',
            f'"ts": {_us(start)},{line}"dur": {_us(end - start)}{line}',
            f'"args": {{{self._inner}{args}{line}}}',
        )
        self._text(f"{{{line}{f',{line}'.join(fields)}{self._entry}}}")

    @contextmanager
    def operator(
        self, name: str, shapes: Shape = (), *, cat: str = "cpu_op", stack: str = "", before_ns: int = 1_000
    ) -> Iterator[int]:
        """An operator around what happens inside; its id."""
        self._id += 1
        own, index = self._id, self._index
        self._index += 1
        start = self.now_ns
        self.now_ns += before_ns
        yield own
        self.now_ns += 750
        dims = json.dumps(shapes)
        args = f'"External id": {own},"Record function id": 0, "Ev Idx": {index}'
        if shapes:
            kinds = json.dumps(["c10::BFloat16" if shape else "Scalar" for shape in shapes])
            concrete = json.dumps(["" if shape else "1" for shape in shapes])
            args = (
                f'"External id": {own},"Record function id": 0, "Sequence number": {own}, "Fwd thread id": 0, '
                f'"Concrete Inputs": {concrete}, "Input type": {kinds}, "Input Strides": {dims}, "Input Dims": {dims}, '
                f'"Ev Idx": {index}'
            )
        if stack:
            args += f', "Call stack": {json.dumps(stack)}'
        self._slice(cat, name, self._thread, (start, self.now_ns), args)

    @contextmanager
    def annotation(self, name: str) -> Iterator[None]:
        """A `record_function` of the program, such as a stage or a profiler step."""
        with self.operator(name, cat="user_annotation"):
            yield

    @contextmanager
    def module(self, name: str, module_id: int, parent: int | None = None) -> Iterator[int]:
        """A call of an `nn.Module`; its Python id."""
        self._python += 1
        own, start = self._python, self.now_ns
        self.now_ns += 500
        yield own
        self.now_ns += 250
        args = (
            f'"Python parent id": {json.dumps(parent)}, "Python id": {own}, "Python module id": {module_id}, '
            f'"Ev Idx": {self._index}'
        )
        self._index += 1
        self._slice("python_function", f"nn.Module: {name}", self._thread, (start, self.now_ns), args)

    def launch(
        self,
        kernel: str,
        ns: int,
        owner: int = 0,
        *,
        call: str = "cudaLaunchKernel",
        grid: tuple[int, int, int] = (132, 1, 1),
        block: tuple[int, int, int] = (128, 1, 1),
        occupancy: int = 50,
        blocks_per_sm: float = 1.0,
        stream: int = 7,
        kernels: int = 1,
    ) -> None:
        """One call of the runtime and the kernels it queues, joined by a flow."""
        self._id += 1
        correlation = self._id
        start, self.now_ns = self.now_ns, self.now_ns + 2_250
        self._slice(
            self._runtime,
            call,
            self._thread,
            (start, self.now_ns),
            f'"External id": {owner}, "cbid": 211, "correlation": {correlation}',
        )
        self._flow("s", correlation, start, self.pid, self.pid)
        for _ in range(kernels):
            begin = max(self.now_ns + 1_250, self._free_ns)
            self._free_ns = begin + ns
            facts = {
                "External id": owner,
                "queued": 0,
                "device": self.device,
                "context": 1,
                "stream": stream,
                "correlation": correlation,
                "registers per thread": 32,
                "shared memory": 0,
                "blocks per SM": blocks_per_sm,
                "warps per SM": blocks_per_sm * 4,
                "grid": list(grid),
                "block": list(block),
                "est. achieved occupancy %": occupancy,
            }
            args = f",{self._inner}".join(f'"{key}": {json.dumps(value)}' for key, value in facts.items())
            self._slice("kernel", kernel, (self.device, stream), (begin, begin + ns), args)
        self._flow("f", correlation, self._free_ns - ns, self.device, stream)

    def copy(self, kind: str, count: int, ns: int, owner: int = 0, *, is_set: bool = False) -> None:
        """A copy (`HtoD` …) or a memset on the device."""
        self._id += 1
        correlation = self._id
        start, self.now_ns = self.now_ns, self.now_ns + 3_250
        call = "cudaMemsetAsync" if is_set else "cudaMemcpyAsync"
        self._slice(
            self._runtime,
            call,
            self._thread,
            (start, self.now_ns),
            f'"External id": {owner}, "cbid": 41, "correlation": {correlation}',
        )
        begin = max(self.now_ns + 750, self._free_ns)
        self._free_ns = begin + ns
        name = "Memset (Device)" if is_set else f"Memcpy {kind} (Pinned -> Device)"
        args = (
            f'"External id": {owner}, "device": {self.device}, "context": 1, "stream": 7, '
            f'"correlation": {correlation}, "bytes": {count}, "memory bandwidth (GB/s)": {count / ns}'
        )
        kind = "gpu_memset" if is_set else "gpu_memcpy"
        self._slice(kind, name, (self.device, 7), (begin, begin + ns), args)

    def synchronize(self) -> None:
        """The host waits until the device has done everything."""
        self._id += 1
        start = self.now_ns
        self.now_ns = max(self.now_ns + 1_500, self._free_ns + 1_000)
        args = f'"External id": 0, "cbid": 165, "correlation": {self._id}'
        self._slice(self._runtime, "cudaDeviceSynchronize", self._thread, (start, self.now_ns), args)

    def memory(self, count: int, address: int, *, on_device: bool = True, reserved: int = 2 << 30) -> None:
        """Bytes taken (or given back, below 0) at an address."""
        self._allocated += count
        kind, device = (1, self.device) if on_device else (0, -1)
        line = self._line
        facts = {
            "Total Reserved": reserved,
            "Total Allocated": self._allocated,
            "Bytes": count,
            "Device Id": device,
            "Device Type": kind,
            "Addr": address,
            "Ev Idx": self._index,
        }
        self._text(
            f'{{{line}"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]",{line}"pid": {self.pid}, '
            f'"tid": {self.pid},{line}"ts": {_us(self.now_ns)},{line}"args": {json.dumps(facts)}{self._entry}}}'
        )
        self._index += 1
        self.now_ns += 250

    def _flow(self, phase: str, number: int, at_ns: int, pid: Any, tid: Any) -> None:
        end = ', "bp": "e"' if phase == "f" else ""
        line = self._line
        place = f'"pid": {pid}, "tid": {tid}, "ts": {_us(at_ns)}'
        self._text(
            f'{{{line}"ph": "{phase}", "id": {number}, {place},{line}"cat": "ac2g", "name": "ac2g"{end}{self._entry}}}'
        )


def _us(ns: int) -> str:
    return f"{'-' if ns < 0 else ''}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def _elementwise(trace: MadeTrace, name: str, *shapes: Sequence[int]) -> None:
    with trace.operator(name, shapes) as own:
        trace.launch(ELEMENTWISE, 1_750, own)


def _linear(trace: MadeTrace, rows: int, width: int, out: int) -> None:
    shapes = [[1, 1, width], [out, width], []]
    with (
        trace.operator("aten::linear", shapes),
        trace.operator("aten::matmul", [[1, 1, width], [width, out]]),
        trace.operator("aten::mm", [[rows, width], [width, out]]) as own,
    ):
        trace.launch(GEMM, width * out // 750_000 * 250, own, grid=(out // 64, 1, 1), blocks_per_sm=0.48, occupancy=13)


def decode_layer(trace: MadeTrace, length: int, width: int = 4096) -> None:
    """One layer of one decode step of a Llama; `length` positions are cached."""
    hidden = [1, 1, width]
    heads = [1, 32, 1, 128]
    for _ in range(2):
        for name in ("aten::pow", "aten::mean", "aten::add", "aten::rsqrt", "aten::mul", "aten::mul"):
            _elementwise(trace, name, hidden, [])
    for _ in range(3):
        _linear(trace, 1, width, width)
    for _ in range(2):
        for name in ("aten::mul", "aten::neg", "aten::cat", "aten::mul", "aten::add"):
            _elementwise(trace, name, heads, heads)
    for _ in range(2):
        _elementwise(trace, "aten::index_copy_", [1, 32, length, 128], heads)
    cached = [1, 32, length, 128]
    with (
        trace.operator("aten::scaled_dot_product_attention", [heads, cached, cached, [], [], [], []]),
        trace.operator("aten::_flash_attention_forward", [heads, cached, cached, [], [], []]) as own,
    ):
        trace.launch(ATTENTION, 4_000 + length // 100 * 250, own)
    _linear(trace, 1, width, width)
    _elementwise(trace, "aten::add", hidden, hidden, [])
    for _ in range(2):
        _linear(trace, 1, width, 11008)
    _elementwise(trace, "aten::silu", [1, 1, 11008])
    _elementwise(trace, "aten::mul", [1, 1, 11008], [1, 1, 11008])
    _linear(trace, 1, 11008, width)
    _elementwise(trace, "aten::add", hidden, hidden, [])


def write_decoding(path: Path, steps: int, layers: int, *, is_pretty: bool = True) -> int:
    """Writes a decoding model's trace; the number of its entries."""
    with path.open("w", encoding="utf-8") as file:
        trace = MadeTrace(file, is_pretty=is_pretty)
        with trace.annotation("decode"):
            for step in range(steps):
                with trace.annotation(f"ProfilerStep#{step}"):
                    for layer in range(layers):
                        address = 0x7F0000000000 + 512 * (step * layers + layer)
                        trace.memory(8_192, address)
                        decode_layer(trace, 640 + step)
                        trace.memory(-8_192, address)
                    trace.copy("DtoH", 4, 1_500)
                    trace.synchronize()
        trace.close(path.name)
        return trace.entries


def main() -> None:
    """See the top."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--layers", type=int, default=32)
    options = parser.parse_args()
    entries = write_decoding(options.out, options.steps, options.layers)
    print(f"{options.out}: {entries:,} entries, {options.out.stat().st_size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
