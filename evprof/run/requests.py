"""Requests that are made for the user: a run again, the demo, and the order of the runs of a request."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from evprof.core.records import DRAFT, TARGET
from evprof.core.request import RunRequest, roles_of
from evprof.core.run_info import FEWEST_TURNS, ModelFacts, Turn
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import mode_of
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.loaders.bundled import bundled_sample
from evprof.run.turns import TurnSchedule

if TYPE_CHECKING:
    from evprof.core.run_log import RunLog


def request_again(run: RunLog, mode: str, repeat: int) -> RunRequest:
    """The same sample, models and settings in a mode, measured `repeat` times; warm-up as it is needed.

    A model that the run did not load is missing, which `RunRequest.validate` tells.
    """
    info = run.info
    taken = roles_of(mode, info.settings.speculation)
    draft, target = (_choice(info.models.get(role)) if role in taken else None for role in (DRAFT, TARGET))
    return RunRequest(mode, info.sample, draft, target, settings=info.settings, warmup=None, repeat=repeat)


def requests_beside(run: RunLog) -> list[RunRequest]:
    """A run and the target alone in turns, which is what a verdict on the run needs."""
    return requests_in_turns([request_again(run, mode, FEWEST_TURNS) for mode in ("target", run.info.mode)])


def requests_in_turns(requests: Sequence[RunRequest], order: random.Random | None = None) -> list[RunRequest]:
    """Warm-ups of all requests, then as many turns as the first is repeated, then the profiled runs.

    `group_id` counts the requests from 1. In turns an engine warms a model up only where it had to be loaded again.
    """
    schedule = TurnSchedule(order)
    aside = [
        replace(request, group_id=number, repeat=0, turn=schedule.start) for number, request in enumerate(requests, 1)
    ]
    plain = [replace(request, trace=None, nvtx=False) for request in aside]
    found = [request for request in plain if request.warmup != 0]
    for number in range(requests[0].repeat):
        for turn, request in schedule.draw(plain, lambda request: len(mode_of(request.mode).answering)):
            warmup = 0 if request.warmup == 0 else None
            found.append(replace(request, repeat=1, first_repeat=number, warmup=warmup, turn=turn))
    return found + [replace(request, warmup=0) for request in aside if request.trace is not None or request.nvtx]


def _choice(model: ModelFacts | None) -> ModelChoice | None:
    return None if model is None else ModelChoice(model.name, model.device, model.dtype, model.quantization)


def run_order(
    request: RunRequest, is_warm: Callable[[str], bool], order: random.Random | None = None
) -> Iterator[tuple[str, int, Turn | None]]:
    """(role, repeat, turn) of every measured run and every warm-up, whose repeat is negative and turn None.

    `is_warm` says whether all models that a role's runs take are loaded and, on a GPU, were run like this before; it is
    asked on the way. Without a number of warm-ups in the request there is one wherever that is not so. Both roles of a
    repeated request, and of a request that is part of a turn, run in an order that `order` draws. Two models that
    cannot stay loaded together are repeated one after the other, because in turn each run would load its model again.
    """
    roles = mode_of(request.mode).answering
    warm_ups = {role: _warm_ups(request, is_warm=is_warm(role)) for role in roles}
    most = max(warm_ups.values())
    yield from ((role, repeat, None) for repeat in range(-most, 0) for role in roles if repeat >= -warm_ups[role])
    if not request.repeat:
        return
    if not most or all(is_warm(role) for role in roles):
        yield from _measured(request, roles, order)
        return
    for role in reversed(roles):
        if not is_warm(role):  # the one that was loaded last still is
            yield from ((role, repeat, None) for repeat in range(-_warm_ups(request, is_warm=False), 0))
        yield from ((role, repeat, None) for repeat in range(request.repeat))


def _measured(
    request: RunRequest, roles: Sequence[str], order: random.Random | None
) -> Iterator[tuple[str, int, Turn | None]]:
    """The measured runs of models that stay loaded."""
    if len(roles) == 1 or (request.repeat == 1 and request.turn is None):
        yield from ((role, repeat, request.turn) for repeat in range(request.repeat) for role in roles)
        return
    schedule = TurnSchedule(order)
    for repeat in range(request.repeat):
        for turn, role in schedule.draw(roles):
            asked = request.turn
            yield role, repeat, turn if asked is None else replace(asked, place=asked.place + turn.place)


def _warm_ups(request: RunRequest, *, is_warm: bool) -> int:
    return request.warmup if request.warmup is not None else int(not is_warm)


BUNDLED_DRAFT, BUNDLED_TARGET = "evprof-tiny-eventgpt", "evprof-tiny-video-llava"
BUNDLED_HEAD = "evprof-tiny-eagle"

_DRAFTED = 4
"""Tokens a round; `docs/adapters.md` measures the bundled head with as many."""


def demo_requests() -> list[RunRequest]:
    """Side by side, and speculation with the bundled EAGLE head, of the bundled models on the bundled sample, to be run
    in turns. The head needs a warm-up of its own, because its first use takes longer than the others.

    Raises UserError without a sample.
    """
    from evprof.loaders.adapters import drafter_of

    sample = bundled_sample()
    draft, target = ModelChoice(BUNDLED_DRAFT), ModelChoice(BUNDLED_TARGET)
    drafter, head = drafter_of(BUNDLED_HEAD, None)
    speculation = SpeculationSettings(drafter, str(head.folder) if head else None, _DRAFTED)
    speculative = GenerationSettings(speculation=speculation)
    return [
        RunRequest("side-by-side", sample, draft, target, warmup=None, repeat=FEWEST_TURNS),
        RunRequest("speculative", sample, draft, target, speculative, warmup=1, repeat=FEWEST_TURNS),
    ]
