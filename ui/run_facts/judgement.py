"""How what speculation brought is meant: well, badly, or as nothing that is claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of

if TYPE_CHECKING:
    from evprof.metrics.speculation.payoff import Payoff


def judgement_of(run: RunLog, payoff: Payoff | None) -> str:
    """The tone of the sentence: "good" or "warn" where the interval says so, else "dim"."""
    if mode_of(run.info.mode).maps_cache:
        return "warn"
    if payoff is None or payoff.whole is None or not payoff.is_clear:
        return "dim"
    return "good" if payoff.whole.speedup > 1 else "warn"
