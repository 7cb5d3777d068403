"""Figures of drafting inside the target's prefill: its window, what it hides, what that costs, and the net gain.

The window is given from the start of the target's prefill, and from the start of its load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from evprof.core.records import DRAFT, STAGES, RoundRecord
from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.arithmetic.energy_curve import Interval
from evprof.metrics.configurations.baselines import baseline_of, draft_alone, is_counted, repeats_of
from evprof.metrics.estimates.estimates import Verdict, verdict
from evprof.metrics.estimates.observations import observe
from evprof.metrics.figures.decoding import answer_length
from evprof.metrics.figures.stages import (
    END_TO_END,
    WITHOUT_LOAD,
    is_measured,
    settled_intervals,
    stage_ms,
    union_ns,
)
from evprof.metrics.speculation.break_even import hidden_break_even_alpha
from evprof.metrics.speculation.outcome import AcceptanceCeiling, acceptance_of_all, ceiling_json, ceiling_of
from evprof.metrics.speculation.payoff import reader_of, step_ms_of


@dataclass(frozen=True)
class ParallelPrefillFigures:
    """Parallel prefill of one run. All times in ms; None where not measured or without a baseline.

    `prefill_ms` is the target's prefill, `with_load_ms` from its load's start to its prefill's end; `draft_ready_ms`
    is when in the latter the draft has read its prompt, and `left_ms` the rest for drafting. `overlap_ms` is how long
    draft and target work at once. `drafted` and `accepted` count hidden tokens, `saved_steps` the target's steps that
    the block replaces. `verify_ms` is the pass that verifies them. Contention is the extra time of the prefill
    (`stage_contention`: preprocess, vision and prefill) of all repeats against the plain runs; `transfer_*` is the
    traffic between devices. `predicted_gain_ms` is saved steps less verification and this run's own extra time;
    `net_gain_ms` the plain wall less that of the repeats, `net_without_load_ms` the same without loading.
    """

    prefill_ms: float | None
    with_load_ms: float | None
    draft_ready_ms: float | None
    left_ms: float | None
    overlap_ms: float | None
    drafted: int
    accepted: int
    saved_steps: int
    draft_ms: float
    verify_ms: float
    contention: Verdict | None
    draft_contention: Verdict | None
    stage_contention: Verdict | None
    transfer_bytes: int | None
    transfer_ms: float | None
    ceiling: AcceptanceCeiling | None
    predicted_gain_ms: float | None
    net_gain_ms: float | None
    net_without_load_ms: float | None
    break_even_alpha: float | None
    baseline_ids: tuple[int, ...] = ()

    @property
    def contention_ms(self) -> float | None:
        return self.contention.delta if self.contention else None

    @property
    def draft_contention_ms(self) -> float | None:
        return self.draft_contention.delta if self.draft_contention else None

    def to_json(self) -> dict[str, Any]:
        """Every figure; of a contention its mean `…_ms` and its interval `…_ci95`."""
        values: dict[str, Any] = {}
        for name in (entry.name for entry in fields(self)):
            value = getattr(self, name)
            if name.endswith("contention"):
                values[f"{name}_ms"] = value.delta if value else None
                values[f"{name}_ci95"] = list(value.delta_interval) if value and value.delta_interval else None
            else:
                values[name] = value
        return {**values, **ceiling_json(self.ceiling), "baseline_ids": list(self.baseline_ids)}


def window_of(run: RunLog, others: Sequence[RunLog] = ()) -> ParallelPrefillFigures | None:
    """The figures of a run in mode parallel-prefill, against the plain runs among `others`; None for other modes."""
    if not mode_of(run.info.mode).is_parallel or run.info.imported is not None:
        return None
    hidden = [entry for entry in run.rounds if entry.hidden]
    counts = acceptance_of_all([run])
    saved = _saved_steps(run, hidden)
    verify_ms = ms_from_ns(sum(entry.verify_ns + entry.rollback_ns for entry in hidden))
    baseline, mine = baseline_of(run, others), repeats_of(run, others)
    plain = baseline.runs if baseline else ()
    step = step_ms_of(plain)
    before, own = (_contention(runs, plain, STAGES[1:4]) for runs in (mine, (run,)))
    facts = run.info.speculation
    return ParallelPrefillFigures(
        prefill_ms=stage_ms(run, "prefill"),
        **_moments(run),
        overlap_ms=_overlap_ms(run, hidden),
        drafted=counts.hidden_drafted,
        accepted=counts.hidden_accepted,
        saved_steps=saved,
        draft_ms=ms_from_ns(sum(entry.draft_ns for entry in hidden)),
        verify_ms=verify_ms,
        contention=_contention(mine, plain, ("prefill",)),
        draft_contention=_contention(mine, draft_alone(run, others), ("prefill",), DRAFT),
        stage_contention=before,
        transfer_bytes=facts.transfer_bytes if facts else None,
        transfer_ms=facts.transfer_ms if facts else None,
        ceiling=ceiling_of(_same_question(run, others), hidden_only=True),
        predicted_gain_ms=None if step is None or own is None else saved * step - verify_ms - own.delta,
        net_gain_ms=_net(mine, plain, END_TO_END),
        net_without_load_ms=_net(mine, plain, WITHOUT_LOAD),
        baseline_ids=baseline.run_ids if baseline else (),
        break_even_alpha=_break_even(run, counts.hidden_drafted, step, verify_ms, before.delta if before else None),
    )


def _saved_steps(run: RunLog, hidden: Sequence[RoundRecord]) -> int:
    """Tokens of the hidden block without the answer's first, which a prefill gives anyway."""
    emitted = sum(entry.emitted for entry in hidden)
    has_first = bool(run.tokens) and any(run.tokens[0].round_index == entry.round_index for entry in hidden)
    return max(0, emitted - 1) if has_first else emitted


def _break_even(
    run: RunLog, drafted: int, step: float | None, verify_ms: float, contention: float | None
) -> float | None:
    """The chance per token above which the block pays. Without a measured pass, its cost is a step; drafts in the last
    chunk need none."""
    if step is None or contention is None or not drafted:
        return None
    rides = run.info.settings.speculation.verify == "last-chunk"
    is_known = rides or any(entry.verify_ns for entry in run.rounds if entry.hidden)
    is_greedy = not run.info.settings.temperature
    return hidden_break_even_alpha(drafted, step, verify_ms if is_known else step, contention, is_greedy=is_greedy)


def _moments(run: RunLog) -> dict[str, float | None]:
    """The window with the target's load, when in it the draft is ready, and the rest from then on."""
    role = run.info.role
    spans = run.stage("load", role), run.stage("prefill", role), run.stage("prefill", DRAFT)
    load, prefill, draft = (span if span is not None and is_measured(span) else None for span in spans)
    found: dict[str, float | None] = dict.fromkeys(("with_load_ms", "draft_ready_ms", "left_ms"))
    if prefill is None or prefill.end_ns is None:
        return found
    if load is not None:
        found["with_load_ms"] = ms_from_ns(prefill.end_ns - load.start_ns)
    if draft is not None and draft.end_ns is not None:
        if load is not None:
            found["draft_ready_ms"] = ms_from_ns(draft.end_ns - load.start_ns)
        found["left_ms"] = ms_from_ns(max(0, prefill.end_ns - max(draft.end_ns, prefill.start_ns)))
    return found


def _overlap_ms(run: RunLog, hidden: Sequence[RoundRecord]) -> float | None:
    """Time in which draft and target work at once before decoding: both unions less the union of both."""
    target: list[Interval] = settled_intervals(run, STAGES[:4], run.info.role)
    draft: list[Interval] = settled_intervals(run, STAGES, DRAFT)
    if not target or not draft:
        return None
    draft += [(entry.start_ns, entry.start_ns + entry.draft_ns) for entry in hidden]
    return ms_from_ns(union_ns(target) + union_ns(draft) - union_ns([*target, *draft]))


def _contention(
    mine: Sequence[RunLog], plain: Sequence[RunLog], names: Sequence[str], role: str | None = None
) -> Verdict | None:
    """These stages of a role together against those of the plain runs; only stages that every run measured."""
    shared = [name for name in names if all(stage_ms(run, name, role) is not None for run in (*mine, *plain))]

    def read(run: RunLog) -> float:
        return sum(stage_ms(run, name, role) or 0.0 for name in shared)

    return verdict(observe(plain, read), observe(mine, read)) if shared else None


def _net(mine: Sequence[RunLog], plain: Sequence[RunLog], basis: str) -> float | None:
    """Mean plain total less the mean of these; only for answers of the same length."""
    if set(map(answer_length, mine)) != set(map(answer_length, plain)):
        return None
    read = reader_of(basis)
    found = verdict(observe(mine, read), observe(plain, read))
    return None if found is None else found.delta


def _same_question(run: RunLog, others: Iterable[RunLog]) -> list[RunLog]:
    """The runs that drafted inside the prefill as this one did, on any sample: one block alone rejects once at most."""
    same = [
        other
        for other in others
        if mode_of(other.info.mode).is_parallel
        and is_counted(other.info)
        and (other.info.settings, other.info.models) == (run.info.settings, run.info.models)
    ]
    return same or [run]
