"""Which moment of run A lies over which moment of run B, and how far B has to be moved for that.

Moments are found by what happens in them, not by their numbers, so that an alignment holds for live runs and for the
next pair as well.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from evprof.core.records import DRAFT, ORIGIN_REJECTED, RoundRecord, TokenRecord
from evprof.core.rows.spans import Span
from evprof.core.run_log import RunLog
from evprof.view.lanes import VERIFY

START, FIRST_TOKEN, LANDMARK = "start", "first token", "span"
"""Kinds of alignment."""


class Landmark(NamedTuple):
    """A span as it is found again in another run.

    `stage` is the stage it is a part of, "" for a stage itself; `number` counts its like before it; `helps`: it is of
    the model that only drafts.
    """

    name: str
    stage: str = ""
    number: int = 0
    helps: bool = False

    @property
    def title(self) -> str:
        """`prefill`, or `verify 3`."""
        return f"{self.name} {self.number + 1}" if self.stage else self.name


class RunAlignment(NamedTuple):
    """The moment at which two runs are aligned on one axis; `landmark` for LANDMARK."""

    kind: str = START
    landmark: Landmark | None = None

    @property
    def title(self) -> str:
        """The moment both have in common, in words."""
        return self.landmark.title if self.landmark is not None else self.kind


def landmark_of(run: RunLog, span: Span) -> Landmark:
    """How a span of one run is told to another."""
    like = _like(run, span.name, _stage_of(run, span), span.role)
    number = next((place for place, other in enumerate(like) if other is span), 0)
    return Landmark(span.name, _stage_of(run, span), number, span.role != run.info.role)


def span_at(run: RunLog, landmark: Landmark) -> Span | None:
    """The span of a run that a landmark means; where the run has no draft beside it, its own model's."""
    own, drafts = run.info.role, {span.role for span in run.spans.values()} - {run.info.role}
    role = min(drafts) if landmark.helps and drafts else own
    like = _like(run, landmark.name, landmark.stage, role)
    return like[landmark.number] if landmark.number < len(like) else None


def moment_of(run: RunLog, zero_ns: int, alignment: RunAlignment) -> int | None:
    """When a run comes to what is aligned, in ns from its zero (`zero_ns` on the clock); None as long as it has not.

    Of most imported runs tokens have no times: their first one comes with the end of prefill.
    """
    if alignment.kind == FIRST_TOKEN:
        if run.info.has_token_times:
            return run.tokens[0].t_ns - zero_ns if run.tokens else None
        # By itself or in one piece with what comes before it.
        prefill = next((span for span in run.stages(run.info.role) if span.stage_name == "prefill"), None)
        return None if prefill is None or prefill.end_ns is None else prefill.end_ns - zero_ns
    if alignment.landmark is not None:
        span = span_at(run, alignment.landmark)
        return None if span is None else span.start_ns - zero_ns
    return 0


def offset_of(a: tuple[RunLog, int], b: tuple[RunLog, int], alignment: RunAlignment) -> int | None:
    """How far B is moved to the right on A's axis, in ns; None where a run has not come to the moment (yet).

    Each run comes with its zero on the clock.
    """
    before, after = moment_of(*a, alignment), moment_of(*b, alignment)
    return None if before is None or after is None else before - after


def _stage_of(run: RunLog, span: Span) -> str:
    parent = run.spans.get(span.parent_id)
    return "" if span.is_stage or parent is None else parent.name


def _like(run: RunLog, name: str, stage: str, role: str) -> list[Span]:
    """Spans of that name in the stage, in order of start."""
    if not stage:
        return [span for span in run.stages(role) if span.name == name]
    parents = [span for span in run.spans.values() if span.role == role and span.name == stage]
    found = [part for parent in parents for part in run.children(parent.span_id) if part.name == name]
    return sorted(found, key=lambda span: span.start_ns)


DRAFTING = "draft"
"""What the part of stage decode is called in which a drafter works."""


def round_of_span(run: RunLog, span: Span) -> int | None:
    """The round that a span drafted or verified for; None where it did neither."""
    if span.is_stage and (span.name, span.role) == ("decode", DRAFT) != (span.name, run.info.role):
        return next((entry.round_index for entry in run.rounds if entry.hidden), None)
    if span.is_stage or span.name not in (DRAFTING, VERIFY):
        return None
    rounds = sorted(run.rounds, key=lambda entry: entry.start_ns)
    middle = (span.start_ns + (span.end_ns or span.start_ns)) // 2
    place = bisect_right([entry.start_ns for entry in rounds], middle) - 1
    if place < 0:
        return None
    # What is drafted within a prefill waits for its verification; after a round's end the drafter only catches up.
    return rounds[place].round_index if rounds[place].hidden or middle <= _end(rounds[place]) else None


def _end(entry: RoundRecord) -> int:
    return entry.start_ns + entry.draft_ns + entry.verify_ns + entry.rollback_ns


def step_of(run: RunLog, token: TokenRecord) -> Span | None:
    """The measured interval that a token came out of: of a drafted and rejected one the drafting, of others in rounds
    the verification, else the stage."""
    role = run.info.role
    name, owner = (DRAFTING, DRAFT) if token.origin == ORIGIN_REJECTED else (VERIFY, role)
    decode = run.stage("decode", role)
    if token.round_index >= 0 and decode is not None:
        for part in run.children(decode.span_id):
            if part.name == name and round_of_span(run, part) == token.round_index:
                return part
    if token.origin == ORIGIN_REJECTED:
        return run.stage("decode", owner) or decode
    came_first = token.position == 0 and (decode is None or token.t_ns <= decode.start_ns)
    return run.stage("prefill", role) if came_first else decode
