"""The time in which a draft could work while the target was not ready: from its first possible token on.

Arithmetic on spans for the timeline; what that time was worth is the metrics' business.
"""

from __future__ import annotations

from typing import NamedTuple

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of


class Overlap(NamedTuple):
    """Absolute ns. It begins as the draft's prefill ends and ends with the target's; `is_open`: that still goes on.

    `drafted` counts the tokens drafted inside, as they come; `accepted` those of them that were taken, None as long as
    none was judged.
    """

    start_ns: int
    end_ns: int
    is_open: bool
    drafted: int
    accepted: int | None


def overlap_of(run: RunLog, now_ns: int) -> Overlap | None:
    """The window of a parallel prefill as known so far; None for other modes, and before the draft could draft.

    None as well where the draft was ready only after the target: there was no window.
    """
    if not mode_of(run.info.mode).is_parallel:
        return None
    ready, target = run.stage("prefill", DRAFT), run.stage("prefill", TARGET)
    if ready is None or ready.end_ns is None:
        return None
    is_open = target is None or target.end_ns is None
    end_ns = now_ns if target is None or target.end_ns is None else target.end_ns
    if end_ns <= ready.end_ns:
        return None
    hidden = [entry for entry in run.rounds if entry.hidden]
    is_judged = bool(hidden) or run.info.is_over
    return Overlap(
        ready.end_ns,
        end_ns,
        is_open and not run.info.is_over,
        sum(entry.drafted for entry in hidden) if is_judged else _drafted_so_far(run, end_ns),
        sum(entry.accepted for entry in hidden) if is_judged else None,
    )


def _drafted_so_far(run: RunLog, end_ns: int) -> int:
    """Tokens of a block that is not verified yet: the draft tells its cache's length once for each of them."""
    drafting = run.stage("decode", DRAFT)
    if drafting is None:
        return 0
    return sum(drafting.start_ns <= record.t_ns <= end_ns for record in run.kv.get(DRAFT, ()))
