"""transformers' `generate`, as contenders: with its growing cache, and with its static cache and compiled step.

Its decode time is taken from inside: two hooks that remove themselves after the prefill's pass, so that neither the
set-up of `generate` nor the prefill counts, and no step carries a hook.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch.profiler import record_function

from engines.bench.ceilings import wait
from engines.bench.turns import DECODE_BEGINS, EngineTurn, UnavailableError
from engines.bench.workload import Workload
from evprof.core.clock import monotonic_ns


@dataclass(frozen=True)
class GeneratedTurns:
    """Takes turns with `generate`; `options` are its own. `is_static`: they depend on the number of tokens."""

    workload: Workload
    options: dict[str, Any] = field(default_factory=dict)
    is_static: bool = False

    def __call__(self) -> EngineTurn:
        """Raises UnavailableError when memory is short or a compiler is missing or fails."""
        if self.is_static:
            try:
                return _generate(self.workload, self.options)
            except Exception as error:  # compilers fail in their own ways, each with its own class
                raise UnavailableError(f"transformers could not compile its step: {_first_words(error)}") from error
        try:
            with torch.inference_mode():
                return _generate(self.workload, self.options)
        except torch.OutOfMemoryError as error:
            raise UnavailableError(f"its growing cache did not fit: {_first_words(error)}") from error

    def shortened(self, tokens: int) -> Self:
        """The same with fewer tokens, unless it would have to be compiled anew."""
        if self.is_static:
            return self
        return replace(self, workload=replace(self.workload, tokens=min(tokens, self.workload.tokens)))


def eager(workload: Workload) -> GeneratedTurns:
    """`generate` in inference mode, where it is 10 % faster than its default, and so harder to beat."""
    return GeneratedTurns(workload)


def static_compiled(workload: Workload, backend: str | Callable[..., Any] = "inductor") -> GeneratedTurns:
    """Static cache and `CompileConfig`; what transformers compiles is the step, not the prefill.

    On a CPU transformers never compiles by itself; its own test switch is set there. Raises UnavailableError where a
    version has none.
    """
    options = {"cache_implementation": "static", "compile_config": _compile_config(workload.device, backend)}
    return GeneratedTurns(workload, options, is_static=True)


def _compile_config(device: torch.device, backend: str | Callable[..., Any]) -> Any:
    from transformers.generation.configuration_utils import CompileConfig

    if device.type == "cuda":
        return CompileConfig(backend=backend)
    # The default mode is CUDA graphs', of which a CPU has none.
    config: Any = CompileConfig(backend=backend, mode="default")
    if not hasattr(config, "_compile_all_devices"):
        raise UnavailableError("this version of transformers compiles generate on GPUs only")
    config._compile_all_devices = True
    return config


def _first_words(error: Exception) -> str:
    """The first line of a message, and the next where that one only announces it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].endswith(":"):
        lines[0] = " ".join(lines[:2])
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _generate(workload: Workload, options: dict[str, Any]) -> EngineTurn:
    """One turn; greedy, and never ended before `tokens`."""
    prefill = _PrefillTimes(workload.device)
    handles = prefill.watch(workload.model)
    try:
        model: Any = workload.model
        ids = model.generate(
            inputs_embeds=workload.embeddings,
            attention_mask=torch.ones(workload.embeddings.shape[:2], dtype=torch.int64, device=workload.device),
            max_new_tokens=workload.tokens,
            min_new_tokens=None,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            eos_token_id=None,
            pad_token_id=0,
            **options,
        )
        wait(workload.device)
        ended_ns = monotonic_ns()
    finally:
        for handle in handles:
            handle.remove()
    return EngineTurn(
        prefill.ended_ns - prefill.began_ns, ended_ns - prefill.ended_ns, tuple(int(each) for each in ids[0].tolist())
    )


class _PrefillTimes:
    """When the first forward pass began and ended."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.began_ns = self.ended_ns = 0

    def watch(self, model: torch.nn.Module) -> list[Any]:
        """Hooks for one pass; they remove themselves."""

        def before(*_: Any) -> None:
            handles[0].remove()
            wait(self._device)
            self.began_ns = monotonic_ns()

        def after(*_: Any) -> None:
            handles[1].remove()
            wait(self._device)
            with record_function(DECODE_BEGINS):
                self.ended_ns = monotonic_ns()

        handles = [model.register_forward_pre_hook(before), model.register_forward_hook(after)]
        return handles
