"""Contenders of the benchmarks of models: our own decode steps, and transformers' `generate`.

Our contenders run the decode loop of real runs, without records. The decode time of `generate` is measured from
inside: two hooks remove themselves after the prefill, so neither the setup of `generate` nor the prefill counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any

import torch

from engines.bench.ceilings import wait
from engines.bench.turns import EngineTurn, Runner, UnavailableError
from engines.bench.workload import Workload
from engines.decoder.compiled_step import first_line
from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.kv_cache import STATIC, KvCache
from engines.decoder.quantized_kv import make_cache
from engines.decoder.sampling import greedy
from engines.decoder.step_choice import DecodeSteps, StepPlan
from engines.measuring.timing import NullClock
from engines.tokens.answer import SilentAnswer
from evprof.core.errors import UserError
from evprof.core.protocols import monotonic_ns
from evprof.core.records import TARGET
from evprof.core.vocabulary.settings import choices_of
from evprof.core.vocabulary.switches import Switches

_NEVER = Event()


@dataclass(frozen=True)
class OurTurns:
    """Takes turns with our decoder over `cached`, by its own step where it has one."""

    cached: CachedModel
    workload: Workload

    def __call__(self) -> EngineTurn:
        """Raises UnavailableError when the step gave up or failed in this turn."""
        try:
            taken = run_once(self.cached, self.workload)
        except RuntimeError as error:
            raise UnavailableError(f"it failed: {first_line(error)}") from error
        step = self.cached.own_step
        if step is not None and step.problem:
            raise UnavailableError(f"it fell back to the plain step: {step.problem}")
        return taken


def ours_eager(workload: Workload) -> OurTurns:
    cached = CachedModel(workload.decoder, TARGET, workload.device, workload.decoder.rows, cache=_cache_of(workload))
    return OurTurns(cached, workload)


def stepping(workload: Workload, kind: str, blocks: tuple[int, ...] = (1,)) -> OurTurns:
    """The step of a kind, prepared as in a run's setup, for blocks of these sizes. Raises UnavailableError if there is
    none."""
    decoder = workload.decoder
    try:
        chosen = DecodeSteps(decoder).choose(Switches(step=kind), StepPlan(blocks, workload.prompt, workload.capacity))
    except UserError as error:
        raise UnavailableError(str(error)) from None
    step = chosen.step
    if step is None or chosen.kind != kind:
        raise UnavailableError(chosen.sentence or f"there is no step '{kind}'")
    cache = (step.open_cache(workload.capacity) if isinstance(step, GraphStep) else None) or _cache_of(workload)
    return OurTurns(CachedModel(decoder, TARGET, workload.device, decoder.rows, cache=cache, own_step=step), workload)


def _cache_of(workload: Workload) -> KvCache:
    """Made as runs make it: what is compiled for tensors of inference mode is compiled again for others."""
    config, capacity = workload.decoder.config, workload.capacity
    with torch.inference_mode():
        return make_cache(STATIC, config, capacity=capacity, device=workload.device, dtype=workload.dtype)


def run_once(cached: CachedModel, workload: Workload) -> EngineTurn:
    """One turn over an emptied cache; the device is waited for at the ends of prefill and decode, not in between."""
    cached.opened.crop(0)
    answer = SilentAnswer()
    with torch.inference_mode():
        wait(workload.device)
        began_ns = monotonic_ns()
        logits = cached.prefill(workload.embeddings, _NEVER)
        wait(workload.device)
        prefilled_ns = monotonic_ns()
        first = greedy(logits)
        answer.add(int(first))
        decode(cached, first, answer, Limits(workload.tokens), sampler=greedy, clock=NullClock(), stop=_NEVER)
        wait(workload.device)
    return EngineTurn(prefilled_ns - began_ns, monotonic_ns() - prefilled_ns, tuple(answer.ids))


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
                raise UnavailableError(f"transformers could not compile its step: {first_line(error)}") from error
        try:
            with torch.inference_mode():
                return _generate(self.workload, self.options)
        except torch.OutOfMemoryError as error:
            raise UnavailableError(f"its growing cache did not fit: {first_line(error)}") from error


def hf_eager(workload: Workload) -> GeneratedTurns:
    """`generate` in inference mode, where it is 10 % faster than its default, and so harder to beat."""
    return GeneratedTurns(workload)


def hf_static_compiled(workload: Workload, backend: str | Callable[..., Any] = "inductor") -> GeneratedTurns:
    """Static cache and `CompileConfig`; transformers compiles the step on GPUs only."""
    from transformers.generation.configuration_utils import CompileConfig

    options = {"cache_implementation": "static", "compile_config": CompileConfig(backend=backend)}
    return GeneratedTurns(workload, options, is_static=True)


def _generate(workload: Workload, options: dict[str, Any]) -> EngineTurn:
    model: Any = workload.model
    times_ns: list[int] = []

    def before(*_: Any) -> None:
        handles[0].remove()
        wait(workload.device)
        times_ns.append(monotonic_ns())

    def after(*_: Any) -> None:
        handles[1].remove()
        wait(workload.device)
        times_ns.append(monotonic_ns())

    handles = [model.register_forward_pre_hook(before), model.register_forward_hook(after)]
    try:
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
    began_ns, prefilled_ns = times_ns
    return EngineTurn(prefilled_ns - began_ns, ended_ns - prefilled_ns, tuple(map(int, ids[0].tolist())))


OURS, OURS_COMPILED = "ours", "ours_compiled"
HF_EAGER, HF_STATIC_COMPILED = "hf_eager", "hf_static_compiled"

_ON_A_CPU = ("compiled", "identical")


@dataclass(frozen=True)
class EngineContender:
    name: str
    make: Callable[[Workload], Runner]
    only_on: str | None = None

    @property
    def is_compiled(self) -> bool:
        """Whether preparing it takes a compiler, and so up to minutes."""
        return self.name.endswith("compiled")


CONTENDERS = (
    EngineContender(OURS, ours_eager),
    *(
        EngineContender(f"{OURS}_{kind}", partial(stepping, kind=kind), only_on=None if kind in _ON_A_CPU else "cuda")
        for kind in choices_of("step")
        if kind not in ("auto", "eager")
    ),
    EngineContender(HF_EAGER, hf_eager),
    EngineContender(HF_STATIC_COMPILED, hf_static_compiled, only_on="cuda"),
)


def contenders_on(device_type: str) -> tuple[EngineContender, ...]:
    return tuple(contender for contender in CONTENDERS if contender.only_on in (None, device_type))
