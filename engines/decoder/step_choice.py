"""Chooses the decode step of a run: eager, compiled, captured, fused, identical or early exit.

Compiled and captured steps are kept with the model and made in setup, before the run's zero. If a step is not the one
requested, a sentence gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from engines.decoder.attention import CUDNN
from engines.decoder.bucket_pass import STRIDE
from engines.decoder.compiled_step import CompiledStep, first_line, is_compilers
from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.decoding import DecodeStep
from engines.decoder.eager_steps import IDENTICAL, EarlyExitStep, IdenticalStep
from engines.decoder.fused_check import FusedGraphs
from engines.decoder.fused_pass import FUSED, fusing_problem
from engines.decoder.kv_cache import STATIC
from engines.decoder.llama import LlamaDecoder
from evprof.core.errors import USAGE, UserError
from evprof.core.vocabulary.switches import Switches

EAGER, COMPILED, GRAPHS = "eager", "compiled", "graphs"

_MADE_WORDS = {COMPILED: "compiled", GRAPHS: "captured as a CUDA graph", FUSED: "fused", IDENTICAL: "identical"}

_Step = CompiledStep | GraphStep | IdenticalStep

_TEXT_POSITIONS = 64
_LEAST_VISUAL = 576


@dataclass(frozen=True)
class StepPlan:
    """The numbers of tokens of the steps, the expected first position, the cache's capacity and kind, the rows."""

    blocks: tuple[int, ...]
    start: int
    capacity: int
    cache: str = STATIC
    batch: int = 1


@dataclass(frozen=True)
class ChosenStep:
    """The step of a run (None: the decoder's own pass). `sentence` says why it is not the requested one; `compile_ms`
    is None if nothing was made."""

    step: DecodeStep | None
    kind: str = EAGER
    sentence: str | None = None
    compile_ms: float | None = None


class DecodeSteps:
    """The steps of one loaded model, each made once. `last_prompt` is how long its last prompt was."""

    def __init__(self, decoder: LlamaDecoder) -> None:
        self.last_prompt = 0
        self._decoder = decoder
        self._made: dict[str, _Step] = {}
        self._asked: tuple[Any, ...] = ()

    def choose(self, switches: Switches, plan: StepPlan) -> ChosenStep:
        """The step for a run, made if need be. Raises UserError for what cannot be asked of this model or device."""
        # What failed is tried again when something else is asked, for then the cause may be gone.
        asked = (switches.step, self._decoder.attention, plan.blocks, plan.capacity // STRIDE, plan.cache, plan.batch)
        if asked != self._asked:
            self._asked = asked
            self._made = {name: step for name, step in self._made.items() if step.problem is None}
        chosen = self._choose(switches, plan)
        self.release(kept=chosen.step)
        return chosen

    def release(self, kept: DecodeStep | None = None) -> None:
        """Gives back the caches of captured steps, all but one's: they stand beside the run's own otherwise."""
        for step in self._made.values():
            if isinstance(step, GraphStep) and step is not kept:
                problem = step.problem
                step.release()
                step.problem = problem

    def _choose(self, switches: Switches, plan: StepPlan) -> ChosenStep:
        is_cuda = is_on_cuda(self._decoder)
        asked = switches.step
        if asked == GRAPHS and not is_cuda:
            raise UserError(
                f"CUDA graphs need a CUDA device and the model is on {self._decoder.device}; choose --step compiled.",
                exit_code=USAGE,
            )
        if asked == FUSED and not is_cuda:
            raise UserError(
                f"The fused step needs a CUDA device, the model is on {self._decoder.device}; choose --step compiled.",
                exit_code=USAGE,
            )
        if switches.early_exit is not None:
            exiting = self._exiting(switches.early_exit, switches.exit_confidence)
            return ChosenStep(exiting, sentence=_because(asked, "early exit decides token by token how far to go"))
        if asked == EAGER or (asked == "auto" and (not is_cuda or plan.batch > 1)):
            return ChosenStep(None)
        if plan.cache != STATIC:
            return ChosenStep(None, sentence=_because(asked, f"it needs a static cache, and this one is {plan.cache}"))
        if asked in (GRAPHS, FUSED, IDENTICAL) and plan.batch > 1:
            reason = "it takes one row, and this is a batch" if asked == IDENTICAL else "a batch is not captured"
            return ChosenStep(None, sentence=_because(asked, reason))
        if asked == "auto":
            asked = FUSED
        return self._made_for(asked, plan, self._fusing_problem(switches) if asked == FUSED else "")

    def _fusing_problem(self, switches: Switches) -> str:
        if switches.attention not in ("auto", CUDNN):
            return f"attention {switches.attention} was asked for, and it computes its own"
        return fusing_problem(self._decoder)

    def _exiting(self, layer: int, confidence: float) -> EarlyExitStep:
        layers = len(self._decoder.layers)
        if layer >= layers:
            raise UserError(
                f"--early-exit {layer} leaves nothing out of {layers} layers; choose 1 to {layers - 1}.",
                exit_code=USAGE,
            )
        return EarlyExitStep(self._decoder, layer, confidence)

    def _made_for(self, kind: str, plan: StepPlan, problem: str = "") -> ChosenStep:
        for name, make in self._ways(kind):
            if name == FUSED and problem:
                continue
            step = self._made.get(name)
            if step is None:
                step = self._made[name] = make()
            if step.problem is None:
                # The others first: their memory may be what is missing.
                self.release(kept=step)
                try:
                    made_ms = _prepare(step, plan)
                    sentence = None if step.kind == kind else _because(kind, problem, step.kind)
                    if reason := getattr(step, "prefill_problem", ""):
                        sentence = f"The prefill is not fused but runs eagerly: {reason}."
                    return ChosenStep(step, step.kind, sentence, made_ms)
                except torch.OutOfMemoryError:
                    raise
                except Exception as error:
                    if not isinstance(error, RuntimeError | OSError) and not is_compilers(error):
                        raise
                    step.problem = first_line(error)
            problem = problem or step.problem
        return ChosenStep(None, sentence=_because(kind, problem))

    def _ways(self, kind: str) -> list[tuple[str, Callable[[], _Step]]]:
        decoder = self._decoder
        graphs: tuple[str, Callable[[], _Step]] = (GRAPHS, lambda: GraphStep(decoder))
        if kind == GRAPHS:
            return [graphs]
        if kind == IDENTICAL:
            return [(IDENTICAL, lambda: IdenticalStep(decoder))]
        if kind == FUSED:
            return [(FUSED, lambda: FusedGraphs(decoder)), graphs]
        return [(COMPILED, lambda: CompiledStep(decoder))]


def no_step(switches: Switches, reason: str) -> ChosenStep:
    return ChosenStep(None, sentence=_because(switches.step, reason))


def is_on_cuda(decoder: LlamaDecoder) -> bool:
    return decoder.device.type == "cuda"


def expected_prompt(visual: int) -> int:
    """An estimate of a first prompt's positions, for captures in setup; a wrong one costs a capture later."""
    return _TEXT_POSITIONS + max(_LEAST_VISUAL, visual)


def _prepare(step: _Step, plan: StepPlan) -> float | None:
    if isinstance(step, GraphStep):
        return step.capture_for(plan.blocks, plan.start, plan.capacity)
    return step.compile_for(plan.blocks, batch=plan.batch)


def _because(asked: str, reason: str, taken: str = EAGER) -> str | None:
    if asked not in _MADE_WORDS:
        return None
    return f"The decode step is not {_MADE_WORDS[asked]} but {_MADE_WORDS.get(taken, 'runs eagerly')}: {reason}."
