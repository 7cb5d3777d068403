"""What the instrumentation costs: the same decode loop with and without records, in interleaved pairs."""

from __future__ import annotations

import random
import statistics
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.decoding import CachedModel, Limits, decode, make_reader
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import Sampler, greedy
from engines.decoder.step_choice import DecodeSteps, StepPlan
from engines.hardware.device import choose_device, choose_dtype
from engines.hardware.environment import describe_environment
from engines.loading.shapes import LANGUAGE_SHAPES, SEED, build_language_model, language_config
from engines.measuring.device_timer import make_timers
from engines.measuring.timing import NullClock, StageClock
from engines.tokens.answer import AlternativesLog, Answer, SilentAnswer
from evprof.core.errors import USAGE, UserError
from evprof.core.protocols import monotonic_ns
from evprof.core.records import TARGET
from evprof.core.texts import guess_among
from evprof.core.units import NS_PER_S
from evprof.core.vocabulary.switches import Switches
from evprof.metrics.estimates.estimates import verdict
from evprof.metrics.estimates.observations import Observation
from evprof.run.processes.channel import QueueSink

TOKENS, TURNS = {"cpu": 4, "cuda": 32}, 6
"""Decode steps in a row by kind of device, and how often each side gets its turn within a pair: the finer they
alternate, the more of the machine's unrest all share."""

PROMPT = range(3, 19)

Turn = dict[str, float]
"""Time per token in ns by kind: "on" with records, "off" and "off_again" without, "alternatives" with both."""


def measure_overhead(
    shape: str = "dispatch-32",
    pairs: int = 300,
    note: Callable[[str], None] = lambda _: None,
    *,
    device: str = "cpu",
    step: str = "auto",
) -> dict[str, Any]:
    """`environment`, `rows` and `summary` of `evprof bench overhead`, on one CPU thread. Raises UserError (exit code 2)
    for an unknown shape or a missing device."""
    if shape not in LANGUAGE_SHAPES:
        raise UserError(f"Unknown shape '{shape}'{guess_among(shape, LANGUAGE_SHAPES)}", exit_code=USAGE)
    if pairs < 2:
        raise UserError(f"--pairs must be at least 2, not {pairs}.", exit_code=USAGE)
    place = choose_device(device)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            loop = _Loop(_build(shape, place), step)
            if loop.sentence is not None:
                note(loop.sentence)
            measured = _measure(loop, pairs, note)
            environment = describe_environment(place)
    finally:
        torch.set_num_threads(before)
    rows = [
        {"pair": index} | {f"{kind}_us": time_ns / 1000 for kind, time_ns in turn.items()}
        for index, turn in enumerate(measured)
    ]
    where = {"shape": shape, "device": str(place), "step": loop.kind, "tokens_per_pair": loop.tokens * TURNS}
    return {"environment": environment, "rows": rows, "summary": where | summarise(measured)}


def summarise(measured: list[Turn]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "pairs": len(measured),
        "off_ms_per_token": statistics.median(turn["off"] for turn in measured) / 1e6,
    }
    for name, above, below in (
        ("instrumented_vs_off", "on", "off"),
        ("a_vs_a", "off_again", "off"),
        ("alternatives_vs_instrumented", "alternatives", "on"),
    ):
        compared = verdict(*(_observed(measured, kind) for kind in (below, above)))
        low, high = (compared and compared.interval) or (None, None)
        found |= {name: compared and compared.ratio, f"{name}_ci95_low": low, f"{name}_ci95_high": high}
    return found


def _observed(measured: list[Turn], kind: str) -> list[Observation]:
    return [Observation(turn[kind], turn=index) for index, turn in enumerate(measured)]


class _Loop:
    def __init__(self, model: LlamaDecoder, step: str) -> None:
        self._model = model
        self._sink = QueueSink()
        self._embeddings = model.embed(torch.tensor([list(PROMPT)], device=model.device))
        self._pieces = [f" {index}" for index in range(model.config.vocab_size)]
        self._pools: dict[str, list[Any]] = {}
        self._run_id = 0
        self.tokens = TOKENS[model.device.type]
        self._capacity = len(PROMPT) + self.tokens * TURNS + 2
        chosen = DecodeSteps(model).choose(Switches(step=step), StepPlan((1,), len(PROMPT), self._capacity))
        self._step, self.kind, self.sentence = chosen.step, chosen.kind, chosen.sentence

    def start(self) -> dict[str, _Running]:
        self._sink.take()  # nothing piles up
        cached = CachedModel.over(self._model, TARGET, bytes_per_position=1)
        cached.own_step = self._step
        if isinstance(self._step, GraphStep):
            cached.cache = self._step.open_cache(self._capacity)
        first = int(greedy(cached.prefill(self._embeddings, _NEVER)))
        return {kind: self._running(cached, first, kind) for kind in ("on", "off", "off_again", "alternatives")}

    def _running(self, cached: CachedModel, first: int, kind: str) -> _Running:
        clock: StageClock = NullClock()
        answer: Answer = SilentAnswer()
        if kind in ("on", "alternatives"):
            self._run_id += 1
            clock = StageClock(self._sink, self._run_id, timers=make_timers([cached.device], self._pools))
            answer = Answer(self._sink, self._run_id, TARGET, self._pieces)
        answer.add(first)
        sampler: Sampler = greedy
        if kind == "alternatives":
            dtype = self._model.embed_tokens.weight.dtype
            sampler = AlternativesLog(cached.device, self._model.rows, dtype, self.tokens * TURNS).watched(greedy)
        return _Running(cached, answer, clock, self.tokens, sampler)


class _Running:
    """One run's decode stage, advanced some tokens at a time; `time_ns` is what that took, stage records included."""

    def __init__(self, cached: CachedModel, answer: Answer, clock: StageClock, tokens: int, sampler: Sampler) -> None:
        self._cached = cached
        self._answer = answer
        self._clock = clock
        self._tokens = tokens
        self._sampler = sampler
        began_ns = monotonic_ns()
        self._stage = clock.stage("decode", TARGET, cached.device)
        self._stage.__enter__()
        self.time_ns = monotonic_ns() - began_ns

    def advance(self) -> None:
        ids, device = self._answer.ids, self._cached.device
        self._cached.crop_to(self._answer)
        last, limits = torch.tensor([[ids[-1]]], device=device), Limits(len(ids) + self._tokens)
        reader = make_reader(device)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        began_ns = monotonic_ns()
        sampler, clock = self._sampler, self._clock
        decode(self._cached, last, self._answer, limits, sampler=sampler, clock=clock, stop=_NEVER, reader=reader)
        self.time_ns += monotonic_ns() - began_ns

    def time_per_token(self) -> float:
        began_ns = monotonic_ns()
        self._stage.__exit__(None, None, None)
        spent_ns = self.time_ns + monotonic_ns() - began_ns
        self._clock.finish()
        return spent_ns / (self._tokens * TURNS)


_NEVER = threading.Event()


def _measure(loop: _Loop, pairs: int, note: Callable[[str], None]) -> list[Turn]:
    order = random.Random(SEED)
    _turn(loop, order)  # the first of everything is slow
    began_ns = monotonic_ns()
    measured: list[Turn] = []
    for index in range(pairs):
        measured.append(_turn(loop, order))
        if (index + 1) % 50 == 0 and index + 1 < pairs:
            left_s = (monotonic_ns() - began_ns) / NS_PER_S / (index + 1) * (pairs - index - 1)
            note(f"overhead: {index + 1} of {pairs} pairs, about {left_s:.0f} s left")
    return measured


def _turn(loop: _Loop, order: random.Random) -> Turn:
    runs = loop.start()
    kinds = list(runs)
    for _ in range(TURNS):
        order.shuffle(kinds)
        for kind in kinds:
            runs[kind].advance()
    return {kind: run.time_per_token() for kind, run in runs.items()}


def _build(shape: str, device: torch.device) -> LlamaDecoder:
    model = build_language_model(language_config(LANGUAGE_SHAPES[shape]))
    nn.Module.to(model, device=device, dtype=choose_dtype("auto", device))
    return LlamaDecoder.take_over(model)
