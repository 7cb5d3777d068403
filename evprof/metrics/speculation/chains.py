"""What a draft model's own chains had accepted by a target, and what their rounds cost: of one pair, and nobody else's.

Heads, counts, trees, adapters and the target itself draft otherwise and stay out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evprof.core.records import DRAFT
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.core.units import percent_text
from evprof.core.vocabulary.drafters import MODEL
from evprof.core.vocabulary.modes import SPECULATIVE
from evprof.metrics.configurations.baselines import choose_baseline, is_counted, runs_text
from evprof.metrics.configurations.gathering import Configuration, sample_key
from evprof.metrics.speculation.break_even import costs_of, gammas_of, steady_rounds
from evprof.metrics.speculation.outcome import distinct_answers, has_rejection


@dataclass(frozen=True)
class Chains:
    """Runs of a pair in which the draft model drafted chains, with tokens accepted and judged. Greedy repeats say the
    same, and count once."""

    runs: tuple[RunLog, ...]
    accepted: int
    judged: int

    @property
    def rate(self) -> float:
        return self.accepted / self.judged

    @property
    def words(self) -> str:
        """`49.1 %, 212 of 432 judged tokens, runs 3, 4, … 8 (6 runs)`."""
        counted = f"{self.accepted:,} of {self.judged:,} judged tokens"
        return f"{percent_text(self.rate, 1)}, {counted}, {runs_text([run.run_id for run in self.runs])}"

    def costs(self, step_ms: float) -> tuple[float, float] | None:
        """(c, v): a drafted token and the rest of a round, in plain steps of `step_ms`; None where none was timed."""
        found, gamma = costs_of(self.runs, step_ms), gammas_of(self.runs)
        drafted = sum(count * share for count, share in gamma.items())
        if found is None or not drafted:
            return None
        drafting = sum(share * found.drafting_ms(count) for count, share in gamma.items())
        return drafting / drafted / step_ms, sum(share * found.v(count) for count, share in gamma.items())


def chains_of(draft: Configuration, target: Configuration, runs: Iterable[RunLog]) -> Chains | None:
    """Those among `runs` that answer the target's questions with this draft; None where nothing of it was judged."""
    plain: dict[object, list[RunInfo]] = {}
    for run in target.runs:
        plain.setdefault(sample_key(run), []).append(run.info)
    drafter = draft.runs[0].info
    mine = [
        run for run in runs if _is_chain(run, drafter) and choose_baseline([run.info], plain.get(sample_key(run), ()))
    ]
    accepted = judged = 0
    for run in distinct_answers(mine):
        for entry in steady_rounds(run):
            accepted, judged = accepted + entry.accepted, judged + entry.accepted + has_rejection(run, entry)
    return Chains(tuple(sorted(mine, key=lambda run: run.run_id)), accepted, judged) if judged else None


def _is_chain(run: RunLog, drafter: RunInfo) -> bool:
    info, model = run.info, drafter.models.get(DRAFT)
    facts = info.speculation
    if info.mode != SPECULATIVE or info.imported is not None or not is_counted(info):
        return False
    if facts is not None and (facts.kind != MODEL or facts.adapter or facts.tree):
        return False
    theirs = info.models.get(DRAFT)
    names = ("name", "dtype", "quantization", "device")
    is_same = model is not None and theirs is not None and all(getattr(theirs, n) == getattr(model, n) for n in names)
    return is_same and info.settings.event_frames == drafter.settings.event_frames
