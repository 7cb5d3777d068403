"""Quantities of claims about speculation and other switches (documents 001, 002, 004)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.core.units import count_text, times_text
from evprof.core.vocabulary.drafters import DRAFTERS, HIDDEN, MODEL
from evprof.core.vocabulary.modes import SPECULATIVE, mode_of
from evprof.metrics.arithmetic.statistics import FEWEST, Interval, ratio_interval
from evprof.metrics.claims.evidence import Evidence, Measured, Words, open_
from evprof.metrics.configurations.baselines import RunPool, baseline_over, is_counted, runs_text
from evprof.metrics.configurations.gathering import Configuration, sample_key
from evprof.metrics.estimates.estimates import Verdict, observe, verdict
from evprof.metrics.estimates.paired import compare, mean_of
from evprof.metrics.figures.decoding import decode_ms_per_token, input_length
from evprof.metrics.figures.stages import MODEL_ONLY, WITHOUT_LOAD, total_ms
from evprof.metrics.speculation.break_even import ParallelPrefillEstimate, parallel_prefill
from evprof.metrics.speculation.outcome import acceptance
from evprof.metrics.speculation.payoff import pace_of

EQUIVALENT, TOLERANCE = 0.137, 0.005
ADAPTER_RATE = 0.8
LENGTHS = (50, 100)
"""Output lengths at which 002 expects twice the speed."""

MOST_APART = 3
"""Other drafters that a sentence tells of."""


def length_ratio_as_acceptance(evidence: Evidence) -> Iterator[Measured]:
    """The distance of the ratio of two prompt lengths from the acceptance of chains; 1 where nothing was drafted."""
    for draft, target in evidence.pairs[:1]:
        one, two = mean_of(draft, input_length), mean_of(target, input_length)
        if not one or not two:
            return
        drafting = [column for column in evidence.columns if _drafts_chains(column.runs[0])]
        counted = [_counts_of(runs[0]) for column in drafting for runs in column.samples().values()]
        accepted, drafted = (sum(both[side] for both in counted) for side in (0, 1))
        words = {"share": one / two, "accepted": accepted, "drafted": drafted}
        if drafted:
            rate = accepted / drafted
            distance, words["rate"] = abs(rate - one / two), rate
            yield Measured(words, (draft, target), distance, (distance, distance), ("lengths", "accepted_of"))
        elif abs(one / two - EQUIVALENT) <= TOLERANCE:
            yield Measured(words, (draft, target), 1.0, (1.0, 1.0), ("lengths", "equivalent"))
        else:
            yield open_("lengths", "none_drafted", **words)


def _counts_of(run: RunLog) -> tuple[float, float]:
    """Accepted and drafted tokens, counted here or told by a file."""
    found_here = acceptance(run)
    told = run.info.imported.figures if run.info.imported else {}
    if found_here is not None and found_here.rounds:
        return found_here.accepted, found_here.drafted
    return told.get("accepted_tokens", 0.0), told.get("drafted_tokens", 0.0)


@dataclass(frozen=True)
class Speed:
    """Speculation against the target alone: how many times as fast the whole answer is, without loading. `base` are the
    plain runs that the common rule chooses, sample by sample."""

    estimate: Verdict
    column: Configuration
    base: Configuration

    def bases(self, columns: Iterable[Configuration]) -> list[Configuration]:
        """The configurations that these plain runs are of."""
        ids = {id(run) for run in self.base.runs}
        return [column for column in columns if any(id(run) in ids for run in column.runs)]

    @property
    def ratio(self) -> float:
        """Plain time / time with speculation."""
        return self.estimate.ratio or 0.0

    def measured(self, *parts: str, whose: str = "", **words: Any) -> Measured:
        """The quantity of a claim, with more parts of its sentence."""
        runs, plain = self.estimate.counts
        column, interval = self.column, self.estimate.interval
        counted = f"{count_text(runs, 'run')}" + (f" and {plain}" if plain != runs else "")
        own = column.cell or runs_text([run.run_id for run in column.runs])
        words |= {
            "ratio": self.ratio,
            "interval": interval,
            "name": f"{own} ({_who(column)})" + (f", {counted}," if column.cell else ""),
            "against": runs_text([run.run_id for run in self.base.runs]),
        }
        few = () if interval else ("few_runs",)
        return Measured(words, (column, self.base), self.ratio, interval, ("speed", *few, *parts), whose)


def speeds(evidence: Evidence, *, is_adapter: bool | None = None, imported_only: bool = False) -> list[Speed]:
    """Configurations that draft, each against the plain runs of the same questions that `baselines` chooses.

    `is_adapter`: only those that draft, or answer, through something trained, or those that do not. `imported_only`:
    only those of other programs' files.
    """
    rows = []
    for column in evidence.columns:
        run = column.runs[0]
        if is_adapter is not None and run.info.imported is not None and not _is_of_documents(run):
            continue  # whether something trained drafts there, nobody says
        if not mode_of(run.info.mode).is_paired or (imported_only and run.info.imported is None):
            continue
        if is_adapter in (None, _is_adapted(run)) and (row := _speed(column, evidence.beside(column))) is not None:
            rows.append(row)
    return rows


def _speed(column: Configuration, others: RunPool) -> Speed | None:
    base = baseline_over((run for run in column.runs if is_counted(run.info)), others)
    if base is None:
        return None
    asked = {sample_key(run) for run in base.runs}
    own = (run for run in column.runs if is_counted(run.info) and sample_key(run) in asked)
    estimate = verdict(observe(own, _whole_ms), observe(base.runs, _whole_ms))
    return (
        None
        if estimate is None or estimate.ratio is None
        else Speed(estimate, column, Configuration(base.runs, column.session))
    )


def _kind(run: RunLog) -> str:
    """Who drafts, one of DRAFTERS or KV. A file of the documents' own work has an adapter on hidden states."""
    facts = run.info.speculation
    if facts is not None:
        return facts.kind
    return HIDDEN if _is_of_documents(run) else MODEL


def _who(column: Configuration) -> str:
    """The drafter in words, and whether it drafts chains or trees."""
    run = column.runs[0]
    facts = run.info.speculation
    if mode_of(run.info.mode).maps_cache:
        return "adapted cache"
    if run.info.imported is not None and facts is None:
        return "the adapter of its file" if _is_of_documents(run) else "what its server drafts with"
    return f"drafter {_kind(run)}, {f'tree {facts.tree}' if facts is not None and facts.tree else 'chain'}"


def _is_adapted(run: RunLog) -> bool:
    """Whether something trained stands between draft and target."""
    facts = run.info.speculation
    return _is_of_documents(run) or mode_of(run.info.mode).maps_cache or bool(facts and facts.adapter)


def _is_of_documents(run: RunLog) -> bool:
    """Whether an imported run is of the documents' own work, whose models are known; no server tells its own."""
    return run.info.imported is not None and _is_known(run)


def _is_known(run: RunLog) -> bool:
    """Whether more is told of a run's models than the name of one behind a server."""
    return any(model.layers for model in run.info.models.values())


def _drafts_chains(run: RunLog) -> bool:
    """Whether the draft model drafts, with or without an adapter; it never drafts trees, most nodes of which are in
    vain."""
    facts = run.info.speculation
    return _kind(run) in DRAFTERS and DRAFTERS[_kind(run)].takes_draft and not (facts is not None and facts.tree)


def _is_naive(run: RunLog) -> bool:
    """Whether the untouched draft model drafts in turns with the target."""
    return run.info.mode == SPECULATIVE and _kind(run) == MODEL and not _is_adapted(run)


def _whole_ms(run: RunLog) -> float | None:
    """Everything after loading; of a file that did not time preprocessing, what its models took."""
    told = run.info.imported.figures.get("published_total_ms") if run.info.imported else None
    return told or total_ms(run, WITHOUT_LOAD) or total_ms(run, MODEL_ONLY)


def _best(rows: Sequence[Speed]) -> Speed | None:
    return max(rows, key=lambda row: row.ratio, default=None)


def naive_speed(evidence: Evidence) -> Iterator[Measured]:
    """The fastest speculation with the untouched draft model against the target alone."""
    best = _best([row for row in speeds(evidence, is_adapter=False) if _is_naive(row.column.runs[0])])
    if best is not None:
        yield best.measured()


def adapter_speed(evidence: Evidence) -> Iterator[Measured]:
    """The fastest answers through an adapted KV cache against the target alone; other adapters judge nothing."""
    through = speeds(evidence, is_adapter=True)
    cached = [row for row in through if mode_of(row.column.runs[0].info.mode).maps_cache]
    best = _best(cached or through)
    if best is not None and cached:
        yield best.measured("not_own")
    elif best is not None:
        yield best.measured(whose="an adapter that drafts")


def adapter_acceptance(evidence: Evidence) -> Iterator[Measured]:
    """Accepted of drafted tokens through the best adapter of the draft, in chains; every sample counts once."""
    rates = [
        (accepted / drafted, accepted, drafted, interval, column)
        for column in evidence.columns
        if mode_of(column.runs[0].info.mode).drafts and _is_adapted(column.runs[0])
        if _drafts_chains(column.runs[0])
        for accepted, drafted, interval in _rate(column)
    ]
    if rates:
        rate, accepted, drafted, interval, column = max(rates, key=lambda one: one[0])
        words: Words = {"rate": rate, "accepted": accepted, "drafted": drafted}
        words["name"] = column.cell or runs_text([run.run_id for run in column.runs])
        words["samples"] = count_text(len(column.samples()), "sample")
        parts = ("chains",) if interval else ("chains", "few_for_80")
        yield Measured(words, (column,) if interval else (), rate, interval, parts)


def _rate(column: Configuration) -> Iterator[tuple[float, float, Interval | None]]:
    """Accepted and drafted tokens over one run of every sample, and the 95 % interval of their quotient."""
    counted = [_counts_of(runs[0]) for runs in column.samples().values()]
    accepted, drafted = [one[0] for one in counted], [one[1] for one in counted]
    if sum(drafted) and not sum(accepted):
        yield 0.0, sum(drafted), (0.0, 0.0) if len(counted) >= FEWEST else None
    elif sum(drafted):
        yield sum(accepted), sum(drafted), ratio_interval(drafted, accepted)


def parallel_prefill_speed(evidence: Evidence) -> Iterator[Measured]:
    """Hidden drafting as measured, or else the most that measured paces allow at 002's own acceptance."""
    measured = [
        row
        for row in speeds(evidence)
        if mode_of(row.column.runs[0].info.mode).is_parallel
        or any(entry.hidden for run in row.column.runs for entry in run.rounds)
    ]
    best = _best([row for row in measured if _drafts_chains(row.column.runs[0])])
    if best is not None:
        yield best.measured()
        return
    bounds = [
        (most, draft, target)
        for draft in evidence.plain()
        for target in evidence.plain()
        if (draft.runs[0].info.role, target.runs[0].info.role, draft.session) == (DRAFT, TARGET, target.session)
        if (most := _most(draft, target)) is not None
    ]
    if not bounds:
        return
    most, draft, target = max(bounds, key=lambda bound: max(entry.speedup for entry in bound[0]))
    words: Words = {"lengths": LENGTHS, "speeds": [entry.speedup for entry in most]}
    words |= {"free": most[0].free, "accepted": most[0].accepted}
    if min(len(draft.runs), len(target.runs)) < FEWEST:
        yield open_("window", "few_paces", **words)
    else:
        speed = max(words["speeds"])
        yield Measured(words, (draft, target), speed, (0.0, speed), ("window",))


def _most(draft: Configuration, target: Configuration) -> list[ParallelPrefillEstimate] | None:
    """The most that drafting inside the prefill can give at 002's acceptance, by output length."""
    paces = pace_of(draft), pace_of(target)
    if paces[0] is None or paces[1] is None:
        return None
    return [parallel_prefill(paces[1], paces[0], tokens, ADAPTER_RATE) for tokens in LENGTHS]


def draft_speed(evidence: Evidence) -> Iterator[Measured]:
    """The fastest speculation with the draft model as it is against the target alone; others are named beside it."""
    rows = [row for row in speeds(evidence) if mode_of(row.column.runs[0].info.mode).drafts]
    own = [row for row in rows if _kind(row.column.runs[0]) == MODEL]
    others = sorted((row for row in rows if row not in own), key=lambda row: -row.ratio)
    apart = "; ".join(f"{_who(row.column)} {times_text(row.ratio)}" for row in others[:MOST_APART])
    best = _best(own)
    if best is not None:
        yield best.measured(*(("others",) if others else ()), others=apart)
    elif others:
        yield open_("not_run", "others", others=apart)


def pruned_time(evidence: Evidence) -> Iterator[Measured]:
    """Time of a configuration with fewer visual tokens / the same with all."""
    for one, other in evidence.twins("visual_keep"):
        kept = [column.runs[0].info.settings.switches.visual_keep for column in (one, other)]
        whole, pruned = (one, other) if kept[0] == 1.0 else (other, one)
        compared = compare(whole, pruned, _whole_ms) if 1.0 in kept else None
        if compared is not None and compared.ratio is not None:
            words = {"share": min(kept), "ratio": compared.ratio, "interval": compared.interval}
            yield Measured(words, (whole, pruned), compared.ratio, compared.interval, ("pruned",))


def quantized_speed(evidence: Evidence) -> Iterator[Measured]:
    """Time per token without packed weights / with them."""
    for one, other in evidence.twins("quantization"):
        kinds = [column.runs[0].info.models[column.runs[0].info.role].quantization for column in (one, other)]
        whole, packed = (one, other) if kinds[0] is None else (other, one)
        compared = compare(packed, whole, decode_ms_per_token) if None in kinds else None
        if compared is not None and compared.ratio is not None:
            words = {"kind": next(kind for kind in kinds if kind is not None), "ratio": compared.ratio}
            words |= {"interval": compared.interval}
            # The documents' weights are not packed: what is packed here has to be theirs.
            yield Measured(words, (whole,), compared.ratio, compared.interval, ("packed",))


def batched_speed(evidence: Evidence) -> Iterator[Measured]:
    """Runs hold one sample each, so that no session measures it; a server may have answered others beside."""
    alone = sum(_is_known(run) for column in evidence.columns for run in column.runs)
    yield open_("alone" if alone else "servers", count=alone)
