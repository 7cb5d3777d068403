"""What the visual tokens of each frame or event slice cost.

Tokens and KV bytes are counted. Times are shares of measured stages: vision by pictures (the tower takes all alike),
prefill by tokens, decode by the bytes that a step reads. A pass over all tokens cannot be timed frame by frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evprof.core.records import FrameRecord
from evprof.core.run_log import RunLog
from evprof.metrics.costs.cache_map import VISUAL, cache_map
from evprof.metrics.figures.decoding import decode_steps, time_to_first_token_ms
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.limits.sizes import ModelSizes
from evprof.metrics.limits.workload import decode_work
from evprof.metrics.speculation.outcome import round_count


@dataclass(frozen=True)
class TokenCost:
    """Some visual tokens and their shares. `decode_ms` is of all steps together; None: not known."""

    tokens: int
    kv_bytes: int
    vision_ms: float | None = None
    prefill_ms: float | None = None
    decode_ms: float | None = None

    @property
    def first_token_ms(self) -> float | None:
        """What they add before the first token: vision and prefill, as far as these are known."""
        known = [value for value in (self.vision_ms, self.prefill_ms) if value is not None]
        return sum(known) if known else None

    def plus(self, other: TokenCost) -> TokenCost:
        return TokenCost(
            self.tokens + other.tokens,
            self.kv_bytes + other.kv_bytes,
            _sum(self.vision_ms, other.vision_ms),
            _sum(self.prefill_ms, other.prefill_ms),
            _sum(self.decode_ms, other.decode_ms),
        )


@dataclass(frozen=True)
class FrameCost:
    """One frame's or slice's own tokens. `frame` is its number from 0; `start_us`, `end_us` are sensor time, where the
    run kept its frames."""

    frame: int
    cost: TokenCost
    label: str = ""
    start_us: int | None = None
    end_us: int | None = None


@dataclass(frozen=True)
class VisualCosts:
    """All visual tokens of one model of a run. `shared` are tokens that belong to no frame alone (EventGPT's spatial
    means), `whole` all of them, the sum of `frames` and `shared`.

    `first_token_ms` is the run's time to the first token, None for a model that gives no answer; `sensor_s` is how much
    sensor time the frames stand for. `why` says what is not known, and why.
    """

    frames: tuple[FrameCost, ...]
    shared: TokenCost
    whole: TokenCost
    input_tokens: int
    first_token_ms: float | None
    sensor_s: float | None
    why: tuple[str, ...] = ()

    @property
    def share_of_first_token(self) -> float | None:
        spent = self.whole.first_token_ms
        return spent / self.first_token_ms if spent is not None and self.first_token_ms else None


def visual_costs(run: RunLog, role: str | None = None, sizes: ModelSizes | None = None) -> VisualCosts | None:
    """What the frames of one model of a run cost; None until its prefill is over or where its lengths are not told.

    `sizes` are the model's: without them the share of decode is not known.
    """
    role = role or run.info.role
    lengths, held = run.info.lengths.get(role), cache_map(run, role)
    if lengths is None or held is None or not lengths.visual or not lengths.input:
        return None
    vision, prefill = stage_ms(run, "vision", role), stage_ms(run, "prefill", role)
    decode = _decode_ms_per_byte(run, role, sizes)
    shown = run.frames.get(role, [])
    counts = lengths.per_frame
    each = vision / len(counts) if vision is not None and counts else None

    def cost(tokens: int, nbytes: int, of_vision: float | None) -> TokenCost:
        return TokenCost(
            tokens,
            nbytes,
            of_vision,
            None if prefill is None else prefill * tokens / lengths.input,
            None if decode is None else decode * nbytes,
        )

    own = {part.frame: part for part in held.parts if part.origin == VISUAL}
    frames = tuple(
        FrameCost(frame, cost(count, own[frame].nbytes if frame in own else 0, each), *_seen(shown, frame))
        for frame, count in enumerate(counts)
    )
    rest = own.get(None)
    # Where nobody tells frames apart, the pictures' time is that of all tokens together.
    shared = cost(rest.positions if rest else 0, rest.nbytes if rest else 0, 0.0 if counts else vision)
    if vision is None:
        shared = TokenCost(shared.tokens, shared.kv_bytes, None, shared.prefill_ms, shared.decode_ms)
    whole = shared
    for entry in frames:
        whole = whole.plus(entry.cost)
    return VisualCosts(
        frames,
        shared,
        whole,
        lengths.input,
        time_to_first_token_ms(run) if role == run.info.role else None,
        _span_s(shown),
        tuple(_unknown(run, role, sizes)),
    )


def _decode_ms_per_byte(run: RunLog, role: str, sizes: ModelSizes | None) -> float | None:
    """Of plain decoding: what reading one byte of the cache at every step takes, at the rate of the steps."""
    work = decode_work(run, sizes) if sizes is not None and role == run.info.role else None
    steps = decode_steps(run)
    return 1000 * work.seconds * steps / work.bytes if work is not None and steps else None


def _seen(shown: Sequence[FrameRecord], frame: int) -> tuple[str, int | None, int | None]:
    if frame >= len(shown):
        return "", None, None
    return shown[frame].label, shown[frame].start_us, shown[frame].end_us


def _span_s(shown: Sequence[FrameRecord]) -> float | None:
    """Sensor time from the first slice's start to the last one's end; a frame of a video stands for the time to the
    next. None for a single moment."""
    if not shown:
        return None
    span: float = max(frame.end_us for frame in shown) - min(frame.start_us for frame in shown)
    if len(shown) > 1 and all(frame.start_us == frame.end_us for frame in shown):
        span = span * len(shown) / (len(shown) - 1)
    return span / 1e6 if span > 0 else None


def _unknown(run: RunLog, role: str, sizes: ModelSizes | None) -> Iterable[str]:
    if not run.info.lengths[role].per_frame:
        yield "This run does not tell which tokens are which frame's."
    if stage_ms(run, "vision", role) is None:
        yield "Vision was not timed apart from other stages."
    if stage_ms(run, "prefill", role) is None:
        yield "Prefill was not timed apart from other stages."
    if role != run.info.role or round_count(run):
        yield "Shares of decode exist for plain decoding only: each of its steps reads the cache once."
    elif sizes is None:
        yield "Shares of decode need the model's sizes, which this session does not tell."


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
