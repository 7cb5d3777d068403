"""What a selection means for views of tokens: the moment it stands for, and the stage that made some tokens.

It knows no widget.
"""

from __future__ import annotations

from collections.abc import Mapping

from evprof.core.run_log import RunLog
from evprof.metrics.costs.cache_map import DRAFTED, GENERATED, ROLLED_BACK, VISUAL
from ui.state.chosen import Chosen, RoundRef, SpanRef, TimeRange, TokenRef


def moment_ns(runs: Mapping[int, RunLog], chosen: Chosen | None, moved: Mapping[int, int]) -> int | None:
    """The end of a selected range, span or round on the axis, in ns; None where none is, or its end is not known yet.

    `moved` says by run how far it is moved on the axis. A token is a place in the cache and no moment: it gets there a
    step after it is chosen.
    """
    if isinstance(chosen, TimeRange):
        return chosen.end_ns
    run = None if chosen is None or isinstance(chosen, TokenRef) else runs.get(chosen.run_id)
    if run is None or run.info.start_ns is None:
        return None
    end: int | None = None
    if isinstance(chosen, SpanRef):
        span = run.spans.get(chosen.span_id)
        end = None if span is None else span.end_ns
    elif isinstance(chosen, RoundRef):
        turn = next((turn for turn in run.rounds if turn.round_index == chosen.round_index), None)
        end = None if turn is None else turn.start_ns + turn.draft_ns + turn.verify_ns + turn.rollback_ns
    return None if end is None else end - run.info.start_ns + moved.get(run.run_id, 0)


def maker_of(run: RunLog, role: str, origin: str) -> Chosen | None:
    """What is selected for tokens of an origin: the stage that brought them, or of rejected drafts the last round."""
    if origin == ROLLED_BACK:
        rejecting = [turn for turn in run.rounds if turn.accepted < turn.drafted]
        return RoundRef(run.run_id, rejecting[-1].round_index) if rejecting else None
    name = {VISUAL: "vision", GENERATED: "decode", DRAFTED: "decode"}.get(origin, "prefill")
    span = run.stage(name, role) or run.stage(name, run.info.role)
    return None if span is None else SpanRef(run.run_id, span.span_id)
