"""The launches of Triton kernels, recorded instead of made, and compiled for GPUs that need not be there.

With tensors of the meta device a whole step of a 7B shape is recorded in a second, and nothing is computed.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import __file__ as nvidia
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend
from triton.runtime.jit import JITFunction, create_function_from_signature

_OPTIONS = ("num_warps", "num_stages")
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_.]+)", re.MULTILINE)


@dataclass(frozen=True)
class Launch:
    """A kernel with its grid, its arguments by name and what the compiler is told."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]
    options: dict[str, int]

    @property
    def name(self) -> str:
        return str(self.kernel.fn.__name__)

    @property
    def programs(self) -> int:
        count = 1
        for size in self.grid:
            count *= size
        return count

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: value for name, value in self.arguments.items() if isinstance(value, torch.Tensor)}


@dataclass(frozen=True)
class Compiled:
    """What a kernel takes of a multiprocessor: registers a thread, bytes of shared memory; `spilled` bytes of stack;
    and its instructions in order."""

    registers: int
    shared: int
    spilled: int
    instructions: tuple[str, ...]

    def resident(self, warps: int, shared_limit: int = 227 * 1024) -> int:
        """Programs that one multiprocessor of an H100 holds at once; each takes 1 KiB of shared memory besides."""
        by_registers = 65536 // (-(-self.registers // 8) * 8 * 32 * warps)
        return min(64 // warps, by_registers, shared_limit // (self.shared + 1024))


@contextmanager
def recorded() -> Iterator[list[Launch]]:
    launches: list[Launch] = []
    run = JITFunction.run

    def record(self: Any, *given: Any, grid: Any, warmup: bool, **named: Any) -> None:
        options = {name: named.pop(name) for name in _OPTIONS if name in named}
        arguments = {**dict(zip(self.arg_names, given, strict=False)), **named}
        launches.append(Launch(self, tuple(grid), arguments, options))

    JITFunction.run = record
    try:
        yield launches
    finally:
        JITFunction.run = run


def compiled(launch: Launch, capability: int) -> Compiled:
    """For a GPU of that compute capability, 80 or 90, by the compiler that comes with Triton."""
    target = GPUTarget("cuda", capability, 32)
    values, kinds = _specialized(launch, target)
    signature, fixed, hints = {}, {}, {}
    for place, (name, (kind, hint)) in enumerate(zip(launch.kernel.arg_names, kinds, strict=True)):
        signature[name] = kind
        if kind == "constexpr":
            fixed[place,] = values[name]
        elif hint:
            hints[place,] = make_backend(target).parse_attr(hint)
    made = triton.compile(ASTSource(launch.kernel, signature, fixed, hints), target=target, options=launch.options)
    used, listing = _examined(made.asm["cubin"])
    sizes = re.search(r"REG:(\d+) STACK:(\d+)", used)
    assert sizes is not None, used
    return Compiled(int(sizes[1]), made.metadata.shared, int(sizes[2]), tuple(_INSTRUCTION.findall(listing)))


def compile_key(launch: Launch) -> str:
    """Launches of one key run one compiled kernel, by Triton's own rules for a GPU of compute capability 9.0."""
    return f"{launch.name} {_specialized(launch, GPUTarget('cuda', 90, 32))[1]} {launch.options}"


def _specialized(launch: Launch, target: GPUTarget) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """Values by name, and for each argument in order its type with what Triton compiles in of its value."""
    bind = create_function_from_signature(launch.kernel.signature, launch.kernel.params, make_backend(target))
    values, kinds, _ = bind(**{name: launch.arguments[name] for name in launch.kernel.arg_names})
    return values, kinds


def _examined(binary: bytes) -> tuple[str, str]:
    """What cuobjdump, which comes with Triton, tells of its resources and instructions."""
    import tempfile

    program = Path(nvidia).parent / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(binary)
        told = [
            subprocess.run([program, option, path], capture_output=True, text=True, check=True).stdout
            for option in ("--dump-resource-usage", "--dump-sass")
        ]
    return told[0], told[1]
