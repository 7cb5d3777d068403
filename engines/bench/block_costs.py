"""What speculation pays with: the cost c of a draft's step, and v(k) of verifying k drafted tokens, in plain steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

import torch

from engines.adapters.following import HeadPass
from engines.adapters.published import Eagle1Head, layer_like
from engines.bench.ceilings import wait
from engines.bench.contenders import OURS, OurTurns, contenders_on, stepping
from engines.bench.contenders import ours_eager as eager
from engines.bench.turns import (
    ContenderTurns,
    EngineTurn,
    Runner,
    UnavailableError,
    decode_ns,
    paired_ratios,
    spread_of,
    take_turns,
)
from engines.bench.workload import Workload
from engines.loading.shapes import SEED
from evprof.core.protocols import monotonic_ns

LONGEST = 16
"""Drafted tokens of the longest block."""

MODEL, EAGLE = "a model of this shape", "an EAGLE head"

_WINDOW = 256
"""Places that the head looks back at."""


@dataclass(frozen=True)
class BlockCosts:
    workload: Workload
    draft_context: int
    rounds: int


def measure_block_costs(
    plan: BlockCosts, emit: Callable[[dict[str, Any]], None], note: Callable[[str], None], left_s: Callable[[], float]
) -> None:
    ours = [one for one in contenders_on(plan.workload.device.type) if one.name.startswith(OURS)]
    for kind in [one.name.removeprefix(OURS).removeprefix("_") or "eager" for one in ours if not one.is_compiled]:
        note(f"blocks by the {kind} step")
        try:
            workload = plan.workload
            target = _prefilled(workload, kind, tuple(range(1, LONGEST + 2)))
            draft = _prefilled(workload.with_context(plan.draft_context), kind, (1,))
            makers: dict[str, Callable[[], Runner]] = {
                str(drafted): partial(_block_turn, target, drafted + 1) for drafted in range(LONGEST + 1)
            }
            makers[MODEL] = partial(_block_turn, draft, 1)
            if kind == "eager":
                makers[EAGLE] = partial(_eagle_turn, workload)
            series = take_turns(makers, plan.rounds, limit_s=left_s(), seed=SEED, note=note)
        except UnavailableError as error:
            emit({"figure": "block", "step": kind, "status": "skipped", "reason": str(error)})
            continue
        plain = series["0"]
        for name, each in series.items():
            what = {"drafted": int(name)} if name.isdecimal() else {"draft": name}
            emit({"figure": "block" if "drafted" in what else "draft", "step": kind, **what, **_row(each, plain)})


def _prefilled(workload: Workload, kind: str, blocks: tuple[int, ...]) -> OurTurns:
    turns = eager(workload) if kind == "eager" else stepping(workload, kind, blocks)
    turns.cached.opened.crop(0)
    with torch.inference_mode():
        turns.cached.prefill(workload.embeddings, Event())
    return turns


def _block_turn(turns: OurTurns, tokens: int) -> Runner:
    cached, device = turns.cached, turns.workload.device
    ids = torch.full((1, tokens), 5, device=device)

    def turn() -> EngineTurn:
        taken = _timed(lambda: cached.step(ids, keep=tokens), device)
        cached.crop(turns.workload.prompt)
        step = cached.own_step
        if step is not None and step.problem:
            raise UnavailableError(f"it fell back to the plain step: {step.problem}")
        return taken

    return turn


def _eagle_turn(workload: Workload) -> Runner:
    decoder, device = workload.decoder, workload.device
    with torch.inference_mode():
        head = Eagle1Head(layer_like(decoder.config), bias=False, device=device, dtype=workload.dtype)
        drafting = HeadPass(head, decoder, _WINDOW + LONGEST)
        places = min(_WINDOW, workload.prompt)
        states = workload.embeddings[0, :places]
        drafting.look_back(states, states)
        last, ids = states[-1:], torch.full((1,), 5, device=device)
    known = drafting.length

    def turn() -> EngineTurn:
        taken = _timed(lambda: drafting.logits(drafting.follow(last, ids)).argmax(-1), device)
        drafting.crop(known)
        return taken

    return turn


def _timed(call: Callable[[], object], device: torch.device) -> EngineTurn:
    with torch.inference_mode():
        wait(device)
        began_ns = monotonic_ns()
        call()
        wait(device)
    return EngineTurn(0, monotonic_ns() - began_ns, (0, 0))


def _row(series: ContenderTurns, plain: ContenderTurns) -> dict[str, Any]:
    return {
        "status": "measured" if series.is_measured else "skipped",
        "reason": series.reason,
        "turns": len(series.turns),
        **spread_of("ms", series.token_ms()),
        **spread_of("in_steps", paired_ratios(series, plain, decode_ns)),
    }
