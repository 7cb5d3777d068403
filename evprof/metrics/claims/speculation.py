"""Quantities of claims about speculation and other switches (documents 001, 002, 004)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.core.units import count_text, percent_text, times_text
from evprof.core.vocabulary.drafters import DRAFTERS, HIDDEN, MODEL
from evprof.core.vocabulary.modes import SPECULATIVE, mode_of
from evprof.metrics.arithmetic.statistics import FEWEST, Interval, ratio_interval
from evprof.metrics.claims.evidence import Evidence, Measured, exact, interval_words, open_
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
        share = one / two
        drafting = [column for column in evidence.columns if _drafts_chains(column.runs[0])]
        counted = [_counts_of(runs[0]) for column in drafting for runs in column.samples().values()]
        accepted, drafted = (sum(both[side] for both in counted) for side in (0, 1))
        sentence = f"The prompts' lengths have the ratio {percent_text(share, 1)}"
        if drafted:
            rate = accepted / drafted
            sentence += (
                f"; of {drafted:,.0f} tokens drafted in chains {accepted:,.0f} were accepted, {percent_text(rate, 1)}: "
                "two different things."
            )
            yield exact(sentence, abs(rate - share), draft, target)
        elif abs(share - EQUIVALENT) <= TOLERANCE:
            sentence += "; that alone gives the 13.7 %, and not one token was drafted: it is no acceptance."
            yield exact(sentence, 1.0, draft, target)
        else:
            yield open_(f"{sentence}; no token was drafted.")


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

    @property
    def interval(self) -> Interval | None:
        """Its 95 % interval; None below three runs of either."""
        return self.estimate.interval

    @property
    def measured(self) -> Measured:
        """As the quantity of a claim."""
        return Measured(self.sentence, (self.column, self.base), self.ratio, self.interval)

    @property
    def name(self) -> str:
        """The configuration's name, or its runs where nobody named it."""
        return self.column.cell or runs_text([run.run_id for run in self.column.runs])

    @property
    def sentence(self) -> str:
        """What was measured, against what."""
        interval = self.interval
        ends = "" if interval is None else f" [{interval[0]:.2f}, {interval[1]:.2f}]"
        runs, plain = self.estimate.counts
        few = " Fewer than three runs a side: more tell (--repeat)." if interval is None else ""
        against = runs_text([run.run_id for run in self.base.runs])
        counted = f"{count_text(runs, 'run')}" + (f" and {plain}" if plain != runs else "")
        name = f"{self.name} ({_who(self.column)})" + (f", {counted}," if self.column.cell else "")
        return f"{times_text(self.ratio)}{ends} the speed of the target alone: {name} against {against}.{few}"


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
        yield best.measured


def adapter_speed(evidence: Evidence) -> Iterator[Measured]:
    """The fastest answers through an adapted KV cache against the target alone; other adapters judge nothing."""
    through = speeds(evidence, is_adapter=True)
    cached = [row for row in through if mode_of(row.column.runs[0].info.mode).maps_cache]
    best = _best(cached or through)
    if best is not None and not cached:
        yield replace(best.measured, whose="an adapter that drafts")
    elif best is not None:
        yield replace(best.measured, sentence=f"{best.sentence} Its answers are not the target's own.")


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
        name = column.cell or runs_text([run.run_id for run in column.runs])
        sentence = (
            f"{percent_text(rate, 1)} accepted in chains: {accepted:,.0f} of {drafted:,.0f} drafted tokens of {name}, "
            f"{count_text(len(column.samples()), 'sample')}."
        )
        if interval is None:
            yield open_(sentence, " Too few samples to tell it from 80 %.")
        else:
            yield Measured(sentence, (column,), rate, interval)


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
        yield best.measured
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
    sentence = (
        f"At most {most[0].speedup:.2f} and {most[1].speedup:.2f} times as fast for {LENGTHS[0]} and {LENGTHS[1]} "
        f"tokens: nothing was drafted inside a prefill, but {most[0].free} tokens fit the window, of which "
        f"{most[0].accepted:.1f} are accepted at 80 % each."
    )
    if min(len(draft.runs), len(target.runs)) < FEWEST:
        yield open_(sentence, " The paces are of fewer than three runs.")
    else:
        speed = max(entry.speedup for entry in most)
        yield Measured(sentence, (draft, target), speed, (0.0, speed))


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
    beside = f" Not the draft model as it is: {apart}." if others else ""
    best = _best(own)
    if best is not None:
        yield replace(best.measured, sentence=f"{best.sentence}{beside}")
    elif beside:
        yield open_(f"The draft model's speculation and the target alone were not run on the same samples.{beside}")


def pruned_time(evidence: Evidence) -> Iterator[Measured]:
    """Time of a configuration with fewer visual tokens / the same with all."""
    for one, other in evidence.twins("visual_keep"):
        kept = [column.runs[0].info.settings.switches.visual_keep for column in (one, other)]
        whole, pruned = (one, other) if kept[0] == 1.0 else (other, one)
        compared = compare(whole, pruned, _whole_ms) if 1.0 in kept else None
        if compared is not None and compared.ratio is not None:
            sentence = (
                f"Keeping {percent_text(min(kept))} of the visual tokens takes {compared.ratio:.2f} times the "
                f"time{interval_words(compared.interval)}."
            )
            yield Measured(sentence, (whole, pruned), compared.ratio, compared.interval)


def quantized_speed(evidence: Evidence) -> Iterator[Measured]:
    """Time per token without packed weights / with them."""
    for one, other in evidence.twins("quantization"):
        kinds = [column.runs[0].info.models[column.runs[0].info.role].quantization for column in (one, other)]
        whole, packed = (one, other) if kinds[0] is None else (other, one)
        compared = compare(packed, whole, decode_ms_per_token) if None in kinds else None
        if compared is not None and compared.ratio is not None:
            kind = next(kind for kind in kinds if kind is not None)
            interval = interval_words(compared.interval)
            sentence = f"With {kind} weights a token comes {compared.ratio:.2f} times as fast{interval}."
            # The documents' weights are not packed: what is packed here has to be theirs.
            yield Measured(sentence, (whole,), compared.ratio, compared.interval)


def batched_speed(evidence: Evidence) -> Iterator[Measured]:
    """Runs hold one sample each, so that no session measures it; a server may have answered others beside."""
    runs = [run for column in evidence.columns for run in column.runs]
    alone = sum(map(_is_known, runs))
    yield open_(f"All {alone} runs here answered one sample at a time." if alone else "Only servers answered here.")
