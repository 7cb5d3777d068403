"""The time in which a draft could work while the target was not ready: from its first possible token on.

Arithmetic on spans for the timeline; what that time was worth is the metrics' business.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.view.lanes import Floats, Ints


class Overlap(NamedTuple):
    """Absolute ns. It begins as the draft's prefill ends and ends with the target's; `is_open`: that still goes on.

    `drafted` counts the tokens drafted inside, as they come; `accepted` those of them that were taken, None as long as
    none was judged. `is_thought`: the models ran one after the other, and this is the window they would have had at
    once; `drafted` are then the tokens that the draft's answer had by its end.
    """

    start_ns: int
    end_ns: int
    is_open: bool
    drafted: int
    accepted: int | None
    is_thought: bool = False


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


def race_of(draft: RunLog, target: RunLog, now_ns: int) -> Overlap | None:
    """The window that a draft's and a target's run of one sample would have had, had both begun at once.

    On the target's clock. None for other pairs, and where the draft would have been ready only after the target.
    """
    are_plain = not (mode_of(draft.info.mode).drafts or mode_of(target.info.mode).drafts)
    if (draft.info.role, target.info.role) != (DRAFT, TARGET) or not are_plain or draft.info.imported is not None:
        return None
    zeros = draft.info.start_ns, target.info.start_ns
    ready, prefill = draft.stage("prefill", DRAFT), target.stage("prefill", TARGET)
    if draft.info.sample != target.info.sample or ready is None or ready.end_ns is None or None in zeros:
        return None
    moved = (zeros[1] or 0) - (zeros[0] or 0)
    is_open = (prefill is None or prefill.end_ns is None) and not target.info.is_over
    end_ns = now_ns if prefill is None or prefill.end_ns is None else prefill.end_ns
    start_ns = ready.end_ns + moved
    if end_ns <= start_ns:
        return None
    said = bisect_right(draft.tokens, end_ns - moved, key=lambda token: token.t_ns)
    return Overlap(start_ns, end_ns, is_open, said, None, is_thought=True)


KEEPS_UP = 1.0
"""Above it, work on what was sensed takes longer than sensing it did: a program that goes on like this falls behind."""


class FactorCurve(NamedTuple):
    """Straight lines between moments (ns, ascending) and the compute time so far for each unit of sensor time."""

    times: Ints
    factors: Floats

    @property
    def last(self) -> float:
        """What it came to; 0 before anything was computed."""
        return float(self.factors[-1]) if len(self.factors) else 0.0

    def at(self, t_ns: float) -> float:
        """The factor at a moment; 0 before the first."""
        return float(np.interp(t_ns, self.times, self.factors, left=0.0)) if len(self.times) else 0.0

    def falls_behind_ns(self) -> float | None:
        """The moment at which the factor passes KEEPS_UP; None where it never does."""
        above = np.flatnonzero(self.factors > KEEPS_UP)
        if not len(above):
            return None
        place = int(above[0])
        before, after = self.factors[place - 1], self.factors[place]
        share = (KEEPS_UP - before) / (after - before)
        return float(self.times[place - 1] + share * (self.times[place] - self.times[place - 1]))


def factor_curve(starts: npt.ArrayLike, ends: npt.ArrayLike, sensor_us: int) -> FactorCurve:
    """The curve of work that was done in the intervals [start, end) ns on `sensor_us` (> 0) of sensor time.

    Time that several intervals cover counts once; between them the factor stays.
    """
    merged: list[list[int]] = []
    pairs = zip(np.asarray(starts, dtype=np.int64).tolist(), np.asarray(ends, dtype=np.int64).tolist(), strict=True)
    for start, end in sorted(pairs):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    if not merged:
        return FactorCurve(np.empty(0, dtype=np.int64), np.empty(0))
    times = np.array(merged, dtype=np.int64)
    done = np.cumsum(times[:, 1] - times[:, 0])
    factors = np.stack([done - (times[:, 1] - times[:, 0]), done], axis=1).reshape(-1) / (sensor_us * 1000)
    return FactorCurve(times.reshape(-1), factors)
