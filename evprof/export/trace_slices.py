"""What of a run a trace shows as bars, and the arrows between them; times in ns since the run's zero.

It knows no file format: `chrome_trace` turns this into entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evprof.core.records import DRAFT, TARGET, RoundRecord, TensorRecord
from evprof.core.rows.spans import Span
from evprof.core.run_log import RunLog
from evprof.metrics.figures.kv_cache import loading_document
from evprof.metrics.figures.stages import is_measured

Arguments = dict[str, Any]

THREADS = {
    DRAFT: 1000,
    TARGET: 2000,
    "rounds": 3000,
    "tokens": 4000,
    "rejected tokens": 5000,
    "pictures": 6000,
    "outcome": 8000,
}
"""Thread number of each track's first thread, in order of drawing; slices that do not nest go to the next number."""

OTHER_TRACK = 7000
"""Spans of a role that has no track of its own."""

UNSETTLED, BEFORE_ZERO = "unsettled_spans", "records_before_the_zero"


@dataclass(frozen=True)
class Slice:
    """One bar: `base` is its track's first thread number; `span_id` and `round_index` are -1 where it is none."""

    base: int
    track: str
    name: str
    category: str
    start_ns: int
    end_ns: int
    arguments: Arguments
    span_id: int = -1
    round_index: int = -1
    inputs: tuple[TensorRecord, ...] = ()


@dataclass(frozen=True)
class Flow:
    """An arrow from one slice to another, both given as places in a list of slices."""

    name: str
    source: int
    target: int


def slices_of(run: RunLog, zero_ns: int, left_out: Counter[str]) -> list[Slice]:
    """Every measured span, round and phase from the run's zero on; the others are counted in `left_out`."""
    found: list[Slice] = []
    for entry in (*_spans(run, zero_ns, left_out), *_rounds(run, zero_ns)):
        if entry.start_ns < 0:
            left_out[BEFORE_ZERO] += 1
        else:
            found.append(entry)
    return found


def threads_of(slices: Sequence[Slice]) -> list[int]:
    """The thread of each slice: its track's first, or one further where it would cut across another slice."""
    threads = [0] * len(slices)
    for base in {entry.base for entry in slices}:
        places = [place for place, entry in enumerate(slices) if entry.base == base]
        lanes = nested_tracks([(slices[place].start_ns, slices[place].end_ns) for place in places])
        for place, lane in zip(places, lanes, strict=True):
            threads[place] = base + lane
    return threads


def flows_of(run: RunLog, slices: Sequence[Slice]) -> list[Flow]:
    """From each model's prefill to its decoding, where the first token goes on; from each draft to its verification.

    Drafts and verifications are the models' own spans where there are such, else the phases of the round.
    """
    return [*_first_tokens(run, slices), *_drafts(run, slices)]


def _first_tokens(run: RunLog, slices: Sequence[Slice]) -> Iterator[Flow]:
    by_span = {entry.span_id: place for place, entry in enumerate(slices) if entry.span_id >= 0}
    for role in (DRAFT, TARGET):
        places: dict[str, int] = {}
        for span in run.stages(role):
            if span.span_id in by_span:
                places |= dict.fromkeys(run.accounts_for(span), by_span[span.span_id])
        source, target = places.get("prefill"), places.get("decode")
        if source is None or target is None or source == target:
            continue
        if slices[source].start_ns <= slices[target].start_ns:
            yield Flow("first token", source, target)


def _drafts(run: RunLog, slices: Sequence[Slice]) -> Iterator[Flow]:
    parts = {
        name: [place for place, entry in enumerate(slices) if entry.category == "part" and entry.name == name]
        for name in ("draft", "verify")
    }
    phases = {(entry.round_index, entry.name): place for place, entry in enumerate(slices) if entry.category == "phase"}
    begun = dict.fromkeys(parts, 0)
    for entry in sorted(run.rounds, key=lambda round_: round_.start_ns):
        if entry.hidden:
            yield from _hidden_drafts(slices, phases.get((entry.round_index, "draft")), parts["verify"])
            continue
        ends: list[int] = []
        for name in ("draft", "verify"):
            phase = phases.get((entry.round_index, name))
            if phase is None:
                break
            part = _part_in(slices, parts[name], begun, name, slices[phase])
            ends.append(phase if part is None else part)
        if len(ends) == 2 and entry.drafted and slices[ends[0]].start_ns <= slices[ends[1]].start_ns:
            yield Flow("drafted tokens", *ends)


def _hidden_drafts(slices: Sequence[Slice], drafted: int | None, verifications: Sequence[int]) -> Iterator[Flow]:
    """From what was drafted inside the prefill to the first verification after it, if it took one."""
    if drafted is None:
        return
    behind = (place for place in verifications if slices[place].start_ns >= slices[drafted].end_ns)
    place = next(behind, None)
    if place is not None:
        yield Flow("drafted tokens", drafted, place)


def _part_in(slices: Sequence[Slice], places: list[int], begun: dict[str, int], name: str, phase: Slice) -> int | None:
    """The part of that name which begins during the phase. Rounds come in order of time, and so do their parts."""
    while begun[name] < len(places) and slices[places[begun[name]]].start_ns < phase.start_ns:
        begun[name] += 1
    if begun[name] == len(places):
        return None
    place = places[begun[name]]
    return place if slices[place].start_ns < phase.end_ns else None


def _spans(run: RunLog, zero_ns: int, left_out: Counter[str]) -> Iterator[Slice]:
    badge = "imported" if run.info.imported is not None else "measured"
    for span in sorted(run.spans.values(), key=lambda span: (span.start_ns, span.span_id)):
        if not is_measured(span) or span.end_ns is None:
            left_out[UNSETTLED] += 1
            continue
        base = THREADS[span.role] if span.role in (DRAFT, TARGET) else OTHER_TRACK
        yield Slice(
            base,
            span.role if base != OTHER_TRACK else "other",
            " + ".join(span.covers) if span.is_stage else span.name,
            "stage" if span.is_stage else "part",
            span.start_ns - zero_ns,
            max(span.start_ns, span.end_ns) - zero_ns,
            _span_arguments(run, span, badge),
            span.span_id,
            inputs=tuple(tensor for tensor in span.tensors if tensor.direction == "in"),
        )


def _span_arguments(run: RunLog, span: Span, badge: str) -> Arguments:
    found: Arguments = {"span": span.span_id, "role": span.role, "badge": badge}
    if span.is_stage and len(span.covers) > 1:
        found["covers"] = list(span.covers)
    if run.info.imported is not None:
        found["file"] = run.info.imported.path
        found["row"] = run.info.imported.row
    if span.is_stage and span.name == "load":
        read = loading_document(run, span.role) or {}
        found |= {name: value for name, value in read.items() if value is not None}
    return found | _tensors(span.tensors)


def _tensors(tensors: list[TensorRecord]) -> Arguments:
    """Lists, not keys by name: two tensors of one span may be called the same."""
    found: Arguments = {}
    for tensor in tensors:
        side = "inputs" if tensor.direction == "in" else "outputs"
        found.setdefault(side, []).append(f"{tensor.name}: {tensor.dtype}[{tensor.shape}], {tensor.nbytes} bytes")
    return found


def _rounds(run: RunLog, zero_ns: int) -> Iterator[Slice]:
    """A bar for each round, and within it drafting, verifying and rolling back, one after the other.

    What was drafted inside the prefill was verified only later, where the target's own spans show it: its bar holds the
    drafting alone.
    """
    base = THREADS["rounds"]
    for entry in run.rounds:
        at_ns = entry.start_ns - zero_ns
        index = entry.round_index
        parts = [("draft", entry.draft_ns), ("verify", entry.verify_ns), ("rollback", entry.rollback_ns)]
        if entry.hidden:
            del parts[1:]
        end_ns = at_ns + sum(duration_ns for _, duration_ns in parts)
        title = f"{'hidden ' * bool(entry.hidden)}round {index}: {entry.accepted} of {entry.drafted}"
        yield Slice(base, "rounds", title, "round", at_ns, end_ns, _round_arguments(entry), round_index=index)
        for name, duration_ns in parts:
            end_ns = at_ns + duration_ns
            yield Slice(base, "rounds", name, "phase", at_ns, end_ns, {"round": index}, round_index=index)
            at_ns = end_ns


def _round_arguments(entry: RoundRecord) -> Arguments:
    verified: Arguments = {"verify_ns": entry.verify_ns, "rollback_ns": entry.rollback_ns} if entry.hidden else {}
    return {
        "round": entry.round_index,
        "drafted": entry.drafted,
        "accepted": entry.accepted,
        "emitted": entry.emitted,
        "drafted_ids": entry.drafted_ids,
        "hidden": bool(entry.hidden),
        **verified,
    }


def nested_tracks(intervals: Sequence[tuple[int, int]]) -> list[int]:
    """The track, from 0, of each (start, end), so that any two of one track are nested or apart, as viewers need.

    First fit in order of start, longest first; earlier ones enclose later equal ones.
    """
    tracks = [0] * len(intervals)
    open_ends: list[list[int]] = []
    order = sorted(range(len(intervals)), key=lambda place: (intervals[place][0], -intervals[place][1]))
    for place in order:
        start, end = intervals[place]
        tracks[place] = _first_fit(open_ends, start, end)
    return tracks


def _first_fit(open_ends: list[list[int]], start: int, end: int) -> int:
    for track, ends in enumerate(open_ends):
        while ends and ends[-1] <= start:
            ends.pop()
        if not ends or ends[-1] >= end:
            ends.append(end)
            return track
    open_ends.append([end])
    return len(open_ends) - 1
