"""Sensor time and compute time: which part of a scene a model was shown, when it worked on it, and which words could
have been drawn from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from evprof.core.records import DRAFT, ORIGIN_ACCEPTED, ORIGIN_DRAFT, ORIGIN_REJECTED, FrameRecord
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.view.overlap import factor_curve


class SensorSpan(NamedTuple):
    """From when to when, in µs on the sample's clock."""

    start_us: int
    stop_us: int


class SensedWindow(NamedTuple):
    """A part of a recording that a run took, in µs on the sample's clock, and its compute time per sensor time."""

    run_id: int
    start_us: int
    stop_us: int
    factor: float


class Passage(NamedTuple):
    """When a model worked on what it was shown, in absolute ns: every picture passes in one batch.

    From the beginning of the first stage that took it in to the end of the one that encoded it; from `seen_ns` on, the
    end of the prefill, tokens could know of it. None is what has not happened, or was not measured by itself.
    """

    start_ns: int
    encoded_ns: int | None
    seen_ns: int | None


def slices_of(run: RunLog, role: str, records: Collection[FrameRecord] | None = None) -> list[SensorSpan]:
    """When each picture that a model was shown was sensed; `records` are those of them that are meant, by default all.

    Videos count from their first frame. Recordings have clocks of their own, and a run tells of a clip what was in it:
    its first event stands for the clip's beginning.
    """
    from evprof.metrics.configurations.settings_text import kind_read

    shown = run.frames.get(role, [])
    if not shown:
        return []
    sample = run.info.sample
    if kind_read(run, role) == "video":
        shift = sample.video_offset_us
    else:
        shift = (sample.start_us or 0) - min(record.start_us for record in shown)
    meant = shown if records is None else records
    return [SensorSpan(record.start_us + shift, record.end_us + shift) for record in meant]


def slice_at(slices: list[SensorSpan], position_us: int) -> int | None:
    """The picture on show at a moment; the first one before any began, None without pictures."""
    found = None
    for index, one in enumerate(slices):
        if found is None or one.start_us <= position_us:
            found = index
    return found


def sensor_us(run: RunLog, role: str) -> int | None:
    """How much sensor time a model was shown: from the first event of its pictures to the last, or from the first video
    frame to the last; of a clip all that was asked for. None where that is not known or nothing."""
    if run.info.sample.duration_us is not None:
        return run.info.sample.duration_us
    slices = slices_of(run, role)
    if not slices:
        return None
    return max(one.stop_us for one in slices) - min(one.start_us for one in slices) or None


def passage_of(run: RunLog, role: str) -> Passage | None:
    """When a model's pictures went through it; None before they did, or where only a whole was measured."""
    first = next((span for name in ("preprocess", "vision") if (span := run.stage(name, role)) is not None), None)
    if first is None:
        return None
    vision, prefill = run.stage("vision", role), run.stage("prefill", role)
    return Passage(
        first.start_ns, None if vision is None else vision.end_ns, None if prefill is None else prefill.end_ns
    )


def roles_behind(run: RunLog, origin: str) -> frozenset[str]:
    """The models whose pictures a token of that origin could have been drawn from.

    An accepted token was proposed by the model that drafts and confirmed by the one that answers; the target's own was
    chosen by the latter alone. Over a mapped cache the target knows what the draft was shown.
    """
    mode = mode_of(run.info.mode)
    if mode.maps_cache or origin in (ORIGIN_DRAFT, ORIGIN_REJECTED):
        roles = {DRAFT}
    elif origin == ORIGIN_ACCEPTED:
        roles = {DRAFT, run.info.role}
    else:
        roles = {run.info.role}
    return frozenset(role for role in roles if role in run.frames)


def roles_of_token(run: RunLog, position: int) -> frozenset[str]:
    """The same of the token of the answer at a place; none where there is no such token."""
    # Tokens come in order: nearly always each stands at its own place.
    guess = run.tokens[position : position + 1]
    found = (
        guess if guess and guess[0].position == position else [one for one in run.tokens if one.position == position]
    )
    return roles_behind(run, found[0].origin) if found else frozenset()


def roles_of_span(run: RunLog, span_id: int) -> frozenset[str]:
    """The model whose pictures an interval is work on, or on what was drawn from them."""
    span = run.spans.get(span_id)
    return frozenset() if span is None or span.role not in run.frames else frozenset({span.role})


def roles_of_round(run: RunLog, round_index: int) -> frozenset[str]:
    of_round = {token.origin for token in (*run.tokens, *run.rejected) if token.round_index == round_index}
    return frozenset().union(*(roles_behind(run, origin) for origin in of_round))


def roles_of_range(run: RunLog, start_ns: int, end_ns: int) -> frozenset[str]:
    """The models whose pictures were worked on, or whose words came, between two moments (absolute ns)."""
    found: set[str] = set()
    for role in run.frames:
        passage = passage_of(run, role)
        if passage is not None and passage.start_ns < end_ns and (passage.encoded_ns or end_ns) > start_ns:
            found.add(role)
    origins = {token.origin for token in run.tokens if start_ns <= token.t_ns < end_ns}
    return frozenset(found).union(*(roles_behind(run, origin) for origin in origins))


def work_of(run: RunLog, role: str, now_ns: int) -> list[tuple[int, int]]:
    """When a model worked, in absolute ns, reading its input apart: stages, running ones up to `now_ns`.

    For the model that answers, the other model's work is part of it.
    """
    found = run.stages(None if role == run.info.role else role)
    return [(span.start_ns, now_ns if span.end_ns is None else span.end_ns) for span in found if span.name != "load"]


def window_of(run: RunLog, role: str) -> SensedWindow | None:
    """The part of its recording that a finished run took, and how its model kept up; None where that was not measured.

    Warm-up, profiled and imported runs tell nothing of a pace.
    """
    info = run.info
    sensed = sensor_us(run, role)
    if sensed is None or info.status != FINISHED or info.warmup or info.profiled or info.imported is not None:
        return None
    slices = slices_of(run, role)
    start = (info.sample.start_us if info.sample.is_clip or not slices else min(one.start_us for one in slices)) or 0
    work = work_of(run, role, info.end_ns or 0)
    factor = factor_curve([begin for begin, _ in work], [end for _, end in work], sensed).last
    return SensedWindow(run.run_id, start, start + sensed, factor)


def windows_of(
    runs: Iterable[RunLog], run: RunLog, role: str, window: Callable[[RunLog, str], SensedWindow | None] = window_of
) -> list[SensedWindow]:
    """Every part of a run's recording that its model worked on in the same mode, in order; of repeats the last one.

    `window` is `window_of`, or knows what it answered before.
    """
    from evprof.metrics.configurations.settings_text import kind_read

    found: dict[tuple[int, int], SensedWindow] = {}
    info, model = run.info, run.info.models.get(role)
    path = info.sample.video_path if kind_read(run, role) == "video" else info.sample.events_path
    for other in runs:
        sample = other.info.sample
        if path is None or path not in (sample.video_path, sample.events_path):
            continue
        if (other.info.mode, other.info.role, other.info.models.get(role)) != (info.mode, info.role, model):
            continue
        made = window(other, role)
        if made is not None:
            found[made.start_us, made.stop_us] = made
    return sorted(found.values(), key=lambda one: one[1:])
