"""Decode steps compiled by torch.compile over the static cache.

A `CompiledStep` is one pure function of ids, position, keys and values. Positions and capacities are symbols, so one
compilation serves every length. The user's cache folder keeps what inductor compiled.
"""

from __future__ import annotations

import os
import shlex
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import torch

from engines.decoder.attention import attend, causal_mask, choosing_kernel
from engines.decoder.decoding import DecodeStep
from engines.decoder.kv_cache import KvCache, StaticKv
from engines.decoder.llama import BlockShape, LlamaDecoder
from evprof.core.files.user_folders import cache_folder
from evprof.core.protocols import monotonic_ns
from evprof.core.units import ms_from_ns

_SCRATCH_CAPACITY = 37
_SCRATCH_START = 11
"""Sizes nothing else has: equal numbers would be taken for one symbol when a step is compiled."""

Made = TypeVar("Made")

_FOLDER_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"

_BLOCK = 3
"""Tokens of the block compiled for; every count from 2 on shares its code."""


class CompiledStep(DecodeStep):
    kind = "compiled"

    def __init__(self, decoder: LlamaDecoder) -> None:
        super().__init__(decoder)
        # One for each kind of attention: of one function, torch compiles no more than eight.
        self._compiled: dict[str, Callable[..., tuple[torch.Tensor, torch.Tensor]]] = {}
        self._ready: set[tuple[str, int, bool, int]] = set()

    def compile_for(self, blocks: Iterable[int], *, batch: int = 1) -> float | None:
        """Compiles for these numbers of tokens and `batch` rows. Returns the ms, None if nothing was compiled. Raises
        RuntimeError."""
        # What is generated for a CPU is for so many threads.
        threads = torch.get_num_threads()
        wanted = {(self._decoder.attention, min(block, 2), batch > 1, threads) for block in blocks} - self._ready
        if not wanted:
            return None
        check_headers()
        keep_compilations()
        began_ns = monotonic_ns()
        device, dtype = self._decoder.device, self._decoder.embed_tokens.weight.dtype
        with torch.inference_mode():
            for _, block, is_batch, _ in sorted(wanted):
                rows = max(batch, 2) if is_batch else 1
                scratch = StaticKv(self._decoder.config, _SCRATCH_CAPACITY, batch=rows, device=device, dtype=dtype)
                scratch.length = _SCRATCH_START
                scratch.padding = torch.arange(rows, device=device) if is_batch else None
                self._run(torch.zeros(rows, 1 if block == 1 else _BLOCK, device=device, dtype=torch.long), scratch)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        self._ready |= wanted
        return ms_from_ns(monotonic_ns() - began_ns)

    def __call__(self, ids: torch.Tensor, cache: KvCache, keep: int, shape: BlockShape | None = None) -> torch.Tensor:
        """Token ids [B, S] -> logits [B, keep, V]; the cache grows by S. Trees go the decoder's own way."""
        # A position of 0 or 1 would be compiled for separately.
        if self.problem is None and shape is None and isinstance(cache, StaticKv) and cache.length > 1:
            try:
                logits, self.features = self._run(ids, cache)
            except Exception as problem:
                if not is_compilers(problem):
                    raise
                self.problem = first_line(problem)
            else:
                return logits[:, -keep:]
        return self.plain(ids, cache, keep, shape)

    def _run(self, ids: torch.Tensor, cache: StaticKv) -> tuple[torch.Tensor, torch.Tensor]:
        start, new = cache.length, ids.shape[1]
        # One position to spare: a view of a whole cache would be compiled for separately.
        cache.reserve(start + new + 1)
        rotation = self._decoder.rotation(start, new, cache.padding)
        attention = self._decoder.attention
        if attention not in self._compiled:
            self._compiled[attention] = compiled(_pure_step(self._decoder))
        step = self._compiled[attention]
        with choosing_kernel(attention, cache.padding if new == 1 else ids):
            told = step(ids, rotation, start, keys=cache.keys, values=cache.values, padding=cache.padding)
        cache.advance(new)
        return told


def _pure_step(decoder: LlamaDecoder) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    def step(
        ids: torch.Tensor,
        rotation: tuple[torch.Tensor, torch.Tensor],
        start: int,
        *,
        keys: list[torch.Tensor],
        values: list[torch.Tensor],
        padding: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        end = start + ids.shape[1]
        mask = causal_mask(start, ids.shape[1], padding, ids.device)

        def over_cache(index: int, queries: torch.Tensor, new: torch.Tensor, values_new: torch.Tensor) -> torch.Tensor:
            held_keys, held_values = keys[index], values[index]
            held_keys[:, :, start:end] = new
            held_values[:, :, start:end] = values_new
            return attend(
                queries,
                held_keys[:, :, :end],
                held_values[:, :, :end],
                mask,
                is_causal=False,
                kind=decoder.attention,
            )

        hidden = decoder.run_layers(decoder.embed(ids), *rotation, over_cache)
        return decoder.head(hidden), hidden

    return step


def compiled(function: Callable[..., Made]) -> Callable[..., Made]:
    """The function as one graph with symbolic sizes, compiled on first use."""
    made: Callable[..., Made] = torch.compile(_own_code(function), dynamic=True, fullgraph=True)
    return made


def _own_code(function: Callable[..., Any]) -> Any:
    """A copy with its own code object: Dynamo limits recompilations per code object."""
    if not isinstance(function, FunctionType):
        raise TypeError("a plain function is expected")
    return FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def check_headers() -> None:
    """Raises RuntimeError without Python's headers, which inductor's code includes."""
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        raise RuntimeError("Python's headers (Python.h) are not installed, and compiled code needs them")


def keep_compilations() -> Path:
    """The folder of compiled code: TORCHINDUCTOR_CACHE_DIR, or the user's cache folder. No pool of compilers is
    started: it would disturb measurements, and in a frozen program `sys.executable` is that program."""
    import torch._inductor.config as inductor
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    inductor.compile_threads = 1
    _quote_library_folder()
    # torch writes its own default, a temporary folder, into the variable as soon as it is imported.
    named, default = os.environ.get(_FOLDER_VARIABLE), default_cache_dir()
    if named is not None and Path(named) != Path(default):
        return Path(named)
    folder = cache_folder() / "inductor"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(default)
    os.environ[_FOLDER_VARIABLE] = str(folder)
    return folder


def _quote_library_folder() -> None:
    from torch.utils import cpp_extension

    folder = cpp_extension.TORCH_LIB_PATH
    if Path(folder).is_dir():  # a quoted one is none
        cpp_extension.TORCH_LIB_PATH = shlex.quote(folder)


_COMPILERS = (
    *("torch._dynamo.exc.TorchDynamoException", "torch._dynamo.exc.FailOnRecompileLimitHit"),
    *("torch._inductor.exc.OperatorIssue", "torch._inductor.exc.SubgraphLoweringException"),
    *("torch._inductor.exc.InvalidCxxCompiler", "torch._inductor.exc.CppCompileError"),
    *("torch._inductor.exc.CppWrapperCodegenError", "torch._inductor.compile_worker.subproc_pool.SubprocException"),
    *("torch._inductor.runtime.triton_heuristics.NoTritonConfigsError", "concurrent.futures._base.BrokenExecutor"),
    *("triton.errors.TritonError", "subprocess.CalledProcessError"),
)
"""What torch.compile raises, now or when code is made later than the graph; most but not all are RuntimeErrors."""


def is_compilers(problem: BaseException) -> bool:
    """Whether an exception says that something could not be compiled, not that it failed when it ran."""
    return any(f"{kind.__module__}.{kind.__qualname__}" in _COMPILERS for kind in type(problem).__mro__)


def first_line(problem: BaseException) -> str:
    if type(problem).__name__ == "FailOnRecompileLimitHit":
        return "torch has compiled it as often as it allows"
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0].rstrip(". ")
