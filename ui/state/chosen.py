"""What can be selected, as plain values that know neither runs nor widgets."""

from __future__ import annotations

from typing import NamedTuple


class TimeRange(NamedTuple):
    """A stretch of time on the axis, in ns from run A's zero; run B may be moved on it. start_ns <= end_ns."""

    start_ns: int
    end_ns: int


class SpanRef(NamedTuple):
    """One measured interval of one run."""

    run_id: int
    span_id: int


class RoundRef(NamedTuple):
    """One round of speculation of one run; `drafted` is the place in the answer of a rejected token of it that was
    pointed at."""

    run_id: int
    round_index: int
    drafted: int | None = None


class TokenRef(NamedTuple):
    """One place in the answer of one run."""

    run_id: int
    position: int


Chosen = TimeRange | SpanRef | RoundRef | TokenRef
