"""What the visual tokens of each frame or event slice cost, and what fewer of them would.

Tokens and KV bytes are counted. Times are shares of measured stages: vision by pictures (the tower takes all alike),
prefill by tokens, decode by the bytes that a step reads. Nobody can time one frame's tokens inside a pass, so these are
shares and are called so. What pruning saves is arithmetic on the model's sizes, beside runs that were pruned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evprof.core.records import FrameRecord
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.core.units import bytes_text, ms_text, number_text
from evprof.core.vocabulary.families import EVENTS
from evprof.metrics.configurations.gathering import is_comparable, sample_key, warm_of
from evprof.metrics.configurations.settings_text import kind_read, settings_of
from evprof.metrics.costs.cache_map import VISUAL, CacheMap, cache_map
from evprof.metrics.estimates.estimates import Estimate, mean_of, observe
from evprof.metrics.figures.decoding import decode_ms_per_token, decode_steps, time_to_first_token_ms, visual_tokens
from evprof.metrics.figures.kv_cache import live_bytes
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.limits.sizes import ModelSizes
from evprof.metrics.limits.workload import decode_work, prefill_flops
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


def is_of_moments(shown: Sequence[FrameRecord]) -> bool:
    """Whether frames are moments of a video, and no slices of events."""
    return all(frame.start_us == frame.end_us for frame in shown)


def _span_s(shown: Sequence[FrameRecord]) -> float | None:
    """Sensor time from the first slice's start to the last one's end; a frame of a video stands for the time to the
    next. None for a single moment."""
    if not shown:
        return None
    span: float = max(frame.end_us for frame in shown) - min(frame.start_us for frame in shown)
    if is_of_moments(shown) and len(shown) > 1:
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
        yield "Shares of decode are told of plain decoding alone, whose steps read the cache once a token."
    elif sizes is None:
        yield "Shares of decode need the model's sizes, which this session does not tell."


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


@dataclass(frozen=True)
class Pruning:
    """What a run would save with `kept` of its visual tokens, by arithmetic; `prefill_ms` and `decode_ms` None where
    not even that is known. Vision is not saved: the tower still reads every picture."""

    kept: int
    kv_bytes: int
    prefill_ms: float | None
    decode_ms: float | None
    is_by_operations: bool


def pruning(run: RunLog, costs: VisualCosts, held: CacheMap, kept: int, sizes: ModelSizes | None = None) -> Pruning:
    """Savings of the answering model with only `kept` visual tokens (0 up to all of them).

    Prefill shrinks as its operations do where the model's sizes are known, else in proportion to its tokens.
    """
    gone = costs.whole.tokens - max(0, min(kept, costs.whole.tokens))
    prefill = stage_ms(run, "prefill")
    left = costs.input_tokens - gone
    share = gone / costs.input_tokens
    if sizes is not None and left > 0:
        share = 1 - prefill_flops(sizes.text, left) / prefill_flops(sizes.text, costs.input_tokens)
    saved_bytes = held.held_bytes * gone // held.length if held.length else 0
    decode = _decode_ms_per_byte(run, run.info.role, sizes)
    return Pruning(
        costs.whole.tokens - gone,
        saved_bytes,
        None if prefill is None else prefill * share,
        None if decode is None else decode * saved_bytes,
        sizes is not None,
    )


@dataclass(frozen=True)
class PrunedRuns:
    """Runs of one model on one sample that kept this share of the visual tokens, measured."""

    share: float
    runs: tuple[RunLog, ...]
    visual_tokens: int | None
    prefill_ms: Estimate | None
    decode_ms_per_token: Estimate | None
    kv_bytes: int | None


def pruned_runs(run: RunLog, others: Iterable[RunLog]) -> list[PrunedRuns]:
    """Finished runs like this one but for what is kept, most first; one entry where nothing else was tried."""
    wanted, asked = _of_one_kind(run), _all_but_pruning(run)
    by_share: dict[float, list[RunLog]] = {}
    for other in others:
        # Settings last: working them out takes a while, and sessions hold thousands of runs.
        is_like = other.info.status == FINISHED and is_comparable(other) and _of_one_kind(other) == wanted
        if is_like and _all_but_pruning(other) == asked:
            by_share.setdefault(other.info.settings.switches.visual_keep, []).append(other)
    found = []
    for share, runs in sorted(by_share.items(), reverse=True):
        kept = warm_of(runs)
        found.append(
            PrunedRuns(
                share,
                tuple(kept),
                visual_tokens(kept[0]),
                mean_of(observe(kept, lambda one: stage_ms(one, "prefill"))),
                mean_of(observe(kept, decode_ms_per_token)),
                live_bytes(kept[0]),
            )
        )
    return found


_PRUNING = ("visual_keep", "prune_by")
"""Settings of pruning."""


def _of_one_kind(run: RunLog) -> object:
    model = run.info.models.get(run.info.role)
    return model.name if model else "", run.info.role, run.info.mode, sample_key(run)


def _all_but_pruning(run: RunLog) -> object:
    return tuple((told.key, told.text) for told in settings_of(run, run.info.role) if told.key not in _PRUNING)


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
