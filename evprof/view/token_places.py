"""Where a token came from: the round of a measured part, and the measured part that a token came out of."""

from __future__ import annotations

from bisect import bisect_right

from evprof.core.records import DRAFT, ORIGIN_REJECTED, RoundRecord, TokenRecord
from evprof.core.rows.span import Span
from evprof.core.run_log import RunLog
from evprof.view.lanes import VERIFY

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
