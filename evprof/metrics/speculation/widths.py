"""The speed of decoding by drafted tokens of a round, where rounds of that width were measured often enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns
from evprof.core.vocabulary.modes import SPECULATIVE
from evprof.metrics.arithmetic.statistics import FEWEST
from evprof.metrics.configurations.baselines import baseline_of, is_counted
from evprof.metrics.estimates.estimates import Verdict, verdict
from evprof.metrics.estimates.observations import observe
from evprof.metrics.figures.decoding import decode_ms_per_token
from evprof.metrics.speculation.break_even import FEWEST_ROUNDS, split_decode
from evprof.metrics.speculation.outcome import draft_depth

_WIDTH_KEYS = ("gamma", "length", "judges")
"""Settings that decide how much is drafted, and what is written down of it."""


@dataclass(frozen=True)
class Width:
    """So many tokens drafted a round: over how many `rounds`, and plain decoding's time per token / that of these."""

    gamma: int
    rounds: int
    speed: Verdict


def measured_widths(run: RunLog, others: Sequence[RunLog]) -> list[Width]:
    """Every width that FEWEST_ROUNDS rounds in three runs had with this run's drafter on its question.

    [] without a baseline.
    """
    baseline = baseline_of(run, others)
    if baseline is None:
        return []
    kin = {other.run_id: other for other in (run, *others) if is_counted(other.info) and _is_kin(run, other)}
    runs, plain = list(kin.values()), observe(baseline.runs, decode_ms_per_token)
    rounds: dict[int, list[int]] = {}
    for one in runs:
        split = split_decode(one)
        depths = Counter(draft_depth(one, entry) for entry, _ in split[1]) if split is not None else Counter()
        for depth, count in depths.items():
            rounds.setdefault(depth, []).append(count)
    found = []
    for gamma, counted in sorted(rounds.items()):
        speed = verdict(observe(runs, partial(_ms_per_token, gamma=gamma)), plain)
        is_enough = sum(counted) >= FEWEST_ROUNDS and len(counted) >= FEWEST
        if gamma and is_enough and speed is not None and speed.interval is not None:
            found.append(Width(gamma, sum(counted), speed))
    return found


def _is_kin(run: RunLog, other: RunLog) -> bool:
    """Whether two runs ask the same of the same drafter but for how much it drafts."""
    one, two = run.info, other.info
    if two.mode != SPECULATIVE or one.sample != two.sample or one.models != two.models:
        return False
    facts = [(said.kind, said.adapter, said.tree) if said else None for said in (one.speculation, two.speculation)]
    asked = [
        {key: value for key, value in info.settings.flat().items() if key not in _WIDTH_KEYS} for info in (one, two)
    ]
    return facts[0] == facts[1] and asked[0] == asked[1]


def _ms_per_token(run: RunLog, *, gamma: int) -> float | None:
    """Rounds of a width with their share of what is paid once, over the tokens they gave."""
    split = split_decode(run)
    if split is None:
        return None
    mine = [(entry, gap) for entry, gap in split[1] if draft_depth(run, entry) == gamma]
    tokens = sum(entry.emitted for entry, _ in mine)
    spent = sum(ms_from_ns(entry.draft_ns + entry.verify_ns + entry.rollback_ns + gap) for entry, gap in mine)
    return (spent + split[0] * len(mine) / len(split[1])) / tokens if tokens else None


def fastest(widths: Sequence[Width]) -> Width | None:
    return max(widths, key=lambda width: width.speed.ratio or 0.0, default=None)
