"""When things happened on the shared axis, edges that a drag snaps to, and the steps of a speculation round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from evprof.view.decimate import nearest_edge
from evprof.view.lanes import VERIFY, Ints, Track
from evprof.view.timescale import Timescale
from ui.state.chosen import Chosen, RoundRef, SpanRef, TimeRange, TokenRef

SNAP_PX = 6.0
"""How near an edge has to be to draw a drag to it."""


def range_of(tracks: Sequence[Track], chosen: Chosen | None, clock_ns: int) -> TimeRange | None:
    """When what is selected happened, from its run's zero; None when no track shows it."""
    if isinstance(chosen, TimeRange) or chosen is None:
        return chosen
    found = (_range_in(track, chosen, clock_ns) for track in tracks if track.run.run_id == chosen.run_id)
    return next((one for one in found if one is not None), None)


def _range_in(track: Track, chosen: SpanRef | RoundRef | TokenRef, clock_ns: int) -> TimeRange | None:
    match chosen:
        case SpanRef(_, span_id) if span_id in track.run.spans:
            span = track.run.spans[span_id]
            end = track.now(clock_ns) if span.end_ns is None else span.end_ns
            return TimeRange(span.start_ns - track.zero_ns, end - track.zero_ns)
        case RoundRef(_, round_index) if track.is_answer:
            return round_range(track, round_index)
        case TokenRef(_, position):
            return token_range(track, position)
    return None


def round_range(track: Track, round_index: int) -> TimeRange | None:
    """Start and end of a round from the run's zero, as its lane draws it; None where it is not known."""
    starts, _, _, ends, _, _, numbers, _ = track.rounds()
    places = np.flatnonzero(numbers == round_index)
    return TimeRange(int(starts[places[0]]), int(ends[places[0]])) if len(places) else None


def token_range(track: Track, position: int) -> TimeRange | None:
    """From the token before to a token of the answer, from the run's zero; None where it is not known."""
    places = np.flatnonzero(track.token_positions() == position)
    if not len(places):
        return None
    times, place = track.token_times(), int(places[0])
    return TimeRange(int(times[max(0, place - 1)]), int(times[place]))


def snapped(tracks: Sequence[Track], t_ns: int, scale: Timescale, clock_ns: int) -> int:
    """The nearest edge of a span, round or token within a few px of a moment; the moment where there is none."""
    found = nearest_edge(_edges(tracks, clock_ns), t_ns, round(SNAP_PX * scale.ns_per_px))
    return t_ns if found is None else found


def _edges(tracks: Sequence[Track], clock_ns: int) -> Iterator[Ints]:
    for track in tracks:
        for table in (track.stages, track.parts):
            row = table.rows(track.zero_ns, track.now(clock_ns))
            yield row.starts
            yield row.ends
        if track.is_answer:
            yield from track.rounds()[:4]
            yield track.token_times()


DRAFTING, ROLLING_BACK = "draft", "roll-back"


class FlowStep(NamedTuple):
    """One step of a round: its name, its time from the run's zero, and the measured part of a stage, where one is.

    `column` is whose lane holds that part; None: the lane of rounds alone draws the step.
    """

    name: str
    range: TimeRange
    column: int | None = None
    span: SpanRef | None = None


def flow_of(shown: Sequence[tuple[int, Track]], chosen: RoundRef) -> list[FlowStep]:
    """The steps of a round in order; none where the run or the round is not shown."""
    track = next((one for _, one in shown if one.run.run_id == chosen.run_id and one.is_answer), None)
    if track is None:
        return []
    starts, drafts, verifies, ends, _, _, numbers, begins = track.rounds()
    places = np.flatnonzero(numbers == chosen.round_index)
    if not len(places):
        return []
    draft_from, draft_to, verify_from, verify_to, end = (
        int(column[places[0]]) for column in (starts, drafts, begins, verifies, ends)
    )
    steps = []
    if draft_to > draft_from:
        steps.append(_step(shown, chosen.run_id, DRAFTING, TimeRange(draft_from, draft_to)))
    if verify_to > verify_from:
        steps.append(_step(shown, chosen.run_id, VERIFY, TimeRange(verify_from, verify_to)))
    if end > verify_to:
        steps.append(FlowStep(ROLLING_BACK, TimeRange(verify_to, end)))
    return steps


def _step(shown: Iterable[tuple[int, Track]], run_id: int, name: str, when: TimeRange) -> FlowStep:
    """The part of that name that shares most time with the step, of either model."""
    best: tuple[int, FlowStep] = (0, FlowStep(name, when))
    for column, track in shown:
        if track.run.run_id != run_id or name not in track.parts.names:
            continue
        row = track.parts.rows(track.zero_ns, track.latest_ns)
        low, high = int(np.searchsorted(row.ends, when[0])), int(np.searchsorted(row.starts, when[1], side="right"))
        code = track.parts.names.index(name)
        for index in range(low, high):
            common = min(int(row.ends[index]), when[1]) - max(int(row.starts[index]), when[0])
            if int(row.names[index]) == code and common > best[0]:
                found = TimeRange(int(row.starts[index]), int(row.ends[index]))
                best = common, FlowStep(name, found, column, SpanRef(run_id, int(row.ids[index])))
    return best[1]


def round_of(tracks: Iterable[Track], chosen: Chosen | None) -> RoundRef | None:
    """The round that a selection is, or lies in; None where there is none."""
    if isinstance(chosen, RoundRef):
        return chosen
    if chosen is None or isinstance(chosen, TimeRange):
        return None
    for track in tracks:
        if track.run.run_id != chosen.run_id or not track.is_answer:
            continue
        run = track.run
        if isinstance(chosen, TokenRef):
            places = np.flatnonzero(track.token_positions() == chosen.position)
            index = run.tokens[int(places[0])].round_index if len(places) else -1
            return RoundRef(run.run_id, index) if index >= 0 else None
        span = run.spans.get(chosen.span_id)
        if span is None or span.name not in (DRAFTING, VERIFY):
            return None
        starts, _, _, ends, _, _, numbers, _ = track.rounds()
        middle = (span.start_ns + (span.end_ns or span.start_ns)) // 2 - track.zero_ns
        place = int(np.searchsorted(starts, middle, side="right")) - 1
        return RoundRef(run.run_id, int(numbers[place])) if place >= 0 and middle <= ends[place] else None
    return None


def next_along(shown: Sequence[tuple[int, Track]], chosen: Chosen | None, by: int) -> SpanRef | RoundRef | None:
    """The measured step after (`by` 1) or before (-1) a selection, over the ends of rounds; None at the last one.

    Of a round whose steps were not measured one by one it is the round. From anything else the way leads to the first
    round (or the last).
    """
    here = round_of([track for _, track in shown], chosen)
    if here is None:
        ends = [(one.run.run_id, one.rounds()[6]) for _, one in shown if one.is_answer and len(one.rounds()[6])]
        outer = [RoundRef(run_id, int(numbers[0 if by > 0 else -1])) for run_id, numbers in ends]
        return _stops(shown, outer[-1])[0 if by > 0 else -1] if outer else None
    steps = _stops(shown, here)
    place = steps.index(chosen) + by if chosen in steps else 0 if by > 0 else -1
    if chosen not in steps or 0 <= place < len(steps):
        return steps[place]
    track = next(one for _, one in shown if one.run.run_id == here.run_id and one.is_answer)
    numbers = track.rounds()[6].tolist()
    index = numbers.index(here.round_index) + by
    if not 0 <= index < len(numbers):
        return None
    return _stops(shown, RoundRef(here.run_id, numbers[index]))[0 if by > 0 else -1]


def _stops(shown: Sequence[tuple[int, Track]], chosen: RoundRef) -> list[SpanRef | RoundRef]:
    measured: list[SpanRef | RoundRef] = [step.span for step in flow_of(shown, chosen) if step.span is not None]
    return measured or [chosen]
