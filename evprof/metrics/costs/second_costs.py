"""What a second of input costs each model in visual tokens, and whether scenes with more in them cost more.

A second of events stands beside a second of video: tokens, what they take before the first token, and their bytes of
cache. What a frame is held against is how much happened in it: events per second of a slice, motion of a video frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evprof.core.run_log import RunLog
from evprof.core.units import bytes_text, ms_text, number_text
from evprof.core.vocabulary.families import EVENTS
from evprof.metrics.configurations.settings_text import kind_read
from evprof.metrics.costs.visual_costs import TokenCost, VisualCosts, is_of_moments


@dataclass(frozen=True)
class SecondCost:
    """Tokens, time before the first token and bytes over the sensor time they stand for. None: not known."""

    tokens: float
    ms: float | None
    kv_bytes: float


@dataclass(frozen=True)
class FrameSecond:
    """What a second like this frame's costs, with its part of what all frames share. `activity` is events per second,
    or of a video frame its motion in % (see `evprof.loaders.pictures.motion`); None where that is not known."""

    frame: int
    cost: SecondCost
    activity: float | None


@dataclass(frozen=True)
class SecondCosts:
    """A second of one model's input: of all frames together, and frame by frame. `reads` is EVENTS or VIDEO."""

    reads: str
    whole: SecondCost
    frames: tuple[FrameSecond, ...]

    @property
    def activity_key(self) -> str:
        return "events_per_s" if self.reads == EVENTS else "motion_percent"


def second_costs(
    run: RunLog, role: str, costs: VisualCosts, motions: Sequence[float | None] = ()
) -> SecondCosts | None:
    """What a second of a model's input costs; None where nobody knows how much sensor time its frames cover.

    `motions` are those of the frames that the run kept, in order.
    """
    if not costs.sensor_s:
        return None
    reads = kind_read(run, role)
    shown, count = run.frames.get(role, []), len(costs.frames)
    shared = _part(costs.shared, count) if count else None
    frames = []
    for entry in costs.frames:
        if entry.start_us is None or entry.end_us is None or shared is None:
            continue
        lasts = costs.sensor_s / count if is_of_moments(shown) else (entry.end_us - entry.start_us) / 1e6
        if lasts > 0:
            activity = motions[entry.frame] if entry.frame < len(motions) else None
            if reads == EVENTS:
                held = _events_in(run, role, entry.frame, count)
                activity = None if held is None else held / lasts
            frames.append(FrameSecond(entry.frame, _over(lasts, _amounts(entry.cost), shared), activity))
    return SecondCosts(reads, _over(costs.sensor_s, _amounts(costs.whole)), tuple(frames))


Amounts = tuple[float, float | None, float]
"""Tokens, ms before the first token, bytes."""


def _amounts(cost: TokenCost) -> Amounts:
    return float(cost.tokens), cost.first_token_ms, float(cost.kv_bytes)


def _part(cost: TokenCost, count: int) -> Amounts:
    tokens, spent, nbytes = _amounts(cost)
    return tokens / count, None if spent is None else spent / count, nbytes / count


def _over(seconds: float, *parts: Amounts) -> SecondCost:
    known = [spent for _, spent, _ in parts if spent is not None]
    return SecondCost(
        sum(tokens for tokens, _, _ in parts) / seconds,
        sum(known) / seconds if known else None,
        sum(nbytes for _, _, nbytes in parts) / seconds,
    )


def _events_in(run: RunLog, role: str, frame: int, count: int) -> int | None:
    """Events of a slice: all slices have as many, the last one what is left over."""
    loaded = run.info.loading.get(role)
    if loaded is None or loaded.events is None:
        return None
    each = loaded.events // count
    return each if frame < count - 1 else loaded.events - each * (count - 1)


def second_sentences(found: Sequence[tuple[str, SecondCosts]]) -> list[str]:
    """What a second costs each of the models named, and where there are two, how these compare."""
    lines = [f"{name}, a second of {one.reads}: {_cost_text(one.whole)}." for name, one in found]
    if len(found) == 2:
        (_, first), (_, other) = found
        (low, high) = sorted((first, other), key=lambda one: one.whole.tokens)
        of_high = found[0][0] if high is first else found[1][0]
        ratio = [f"{_times(high.whole.tokens, low.whole.tokens)} the tokens"]
        if high.whole.ms and low.whole.ms:
            ratio.append(f"{_times(high.whole.ms, low.whole.ms)} the time")
        lines.append(f"{of_high} takes {' and '.join(ratio)}.")
    return lines


def _times(high: float, low: float) -> str:
    return f"{number_text(high / low, 3)} times"


def _cost_text(cost: SecondCost) -> str:
    spent = "" if cost.ms is None else f", {ms_text(cost.ms)} before the first token"
    return f"{number_text(cost.tokens, 3)} tokens, {bytes_text(cost.kv_bytes)} of KV cache{spent}"
