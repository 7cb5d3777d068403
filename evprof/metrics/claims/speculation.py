"""Quantities of claims about speculation and other switches (documents 001, 002, 004)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.drafters import DRAFTERS, HIDDEN, MODEL
from evprof.core.vocabulary.modes import SPECULATIVE, mode_of
from evprof.metrics.claims.evidence import FEW_SCENES, Evidence, Measured, compared
from evprof.metrics.configurations.baselines import RunPool, baseline_over, is_counted, runs_text
from evprof.metrics.configurations.gathering import Configuration, sample_key
from evprof.metrics.estimates.estimates import FEWEST_SCENES, Verdict, verdict
from evprof.metrics.estimates.observations import observe, scene_of
from evprof.metrics.estimates.paired import compare, mean_of
from evprof.metrics.figures.decoding import decode_ms_per_token, input_length
from evprof.metrics.figures.stages import MODEL_ONLY, WITHOUT_LOAD, total_ms
from evprof.metrics.speculation.outcome import acceptance


def length_ratio_as_acceptance(evidence: Evidence) -> Iterator[Measured]:
    """The distance of the ratio of two prompt lengths from the acceptance of chains."""
    for draft, target in evidence.model_pairs[:1]:
        one, two = mean_of(draft, input_length), mean_of(target, input_length)
        drafting = [column for column in evidence.columns if _drafts_chains(column.runs[0])]
        if not one or not two:
            return
        found = _acceptance(drafting)
        if found is None:
            yield Measured({"share": one / two}, (draft, target), None, ("lengths",), "no token was drafted")
            return
        distances = [abs(rate - one / two) for rate in found.interval or ()]
        if found.interval and found.interval[0] <= one / two <= found.interval[1]:
            distances.append(0.0)
        distance = (min(distances), max(distances)) if distances else None
        parts = ("lengths", "accepted_of")
        yield replace(found, words=found.words | {"share": one / two}, interval=distance, parts=parts)


def counts_of(run: RunLog) -> tuple[float, float]:
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
        column = self.column
        own = column.cell or runs_text([run.run_id for run in column.runs])
        words |= {"name": f"{own} ({_who(column)})", "against": runs_text([run.run_id for run in self.base.runs])}
        found = compared(self.estimate, "speed", *parts, columns=(column, self.base), **words)
        return replace(found, whose=whose)


def speeds(evidence: Evidence, *, imported_only: bool = False) -> list[Speed]:
    """Configurations that draft, each against the plain runs of the same questions that `baselines` chooses.

    `imported_only`: only those of other programs' files.
    """
    columns = [column for column in evidence.columns if mode_of(column.runs[0].info.mode).is_paired]
    rows = (
        _speed(column, evidence.beside(column))
        for column in columns
        if not imported_only or column.runs[0].info.imported is not None
    )
    return [row for row in rows if row is not None]


def _speed(column: Configuration, others: RunPool) -> Speed | None:
    base = baseline_over((run for run in column.runs if is_counted(run.info)), others)
    if base is None:
        return None
    asked = {sample_key(run) for run in base.runs}
    own = (run for run in column.runs if is_counted(run.info) and sample_key(run) in asked)
    estimate = verdict(observe(own, _whole_ms), observe(base.runs, _whole_ms))
    if estimate is None or estimate.ratio is None:
        return None
    return Speed(estimate, column, Configuration(base.runs, column.session))


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
    return run.info.imported is not None and any(model.layers for model in run.info.models.values())


def _drafts_chains(run: RunLog) -> bool:
    """Whether the draft model drafts, with or without an adapter; it never drafts trees, most nodes of which are in
    vain."""
    facts = run.info.speculation
    return _kind(run) in DRAFTERS and DRAFTERS[_kind(run)].takes_draft and not (facts is not None and facts.tree)


def _is_naive(run: RunLog) -> bool:
    """Whether the untouched draft model drafts in turns with the target."""
    is_here = run.info.imported is None and run.info.mode == SPECULATIVE
    return is_here and _kind(run) == MODEL and not _is_adapted(run)


def _whole_ms(run: RunLog) -> float | None:
    """Everything after loading; of a file that did not time preprocessing, what its models took."""
    told = run.info.imported.figures.get("published_total_ms") if run.info.imported else None
    return told or total_ms(run, WITHOUT_LOAD) or total_ms(run, MODEL_ONLY)


def _fastest(rows: Iterable[Speed], *parts: str, whose: str = "") -> Iterator[Measured]:
    best = max(rows, key=lambda row: row.ratio, default=None)
    if best is not None:
        yield best.measured(*parts, whose=whose)


def naive_speed(evidence: Evidence) -> Iterator[Measured]:
    """The fastest speculation with the untouched draft model against the target alone."""
    return _fastest(row for row in speeds(evidence) if _is_naive(row.column.runs[0]))


def adapter_speed(evidence: Evidence) -> Iterator[Measured]:
    """The fastest answers through an adapted KV cache against the target alone; other adapters judge nothing."""
    through = [row for row in speeds(evidence) if _is_adapted(row.column.runs[0])]
    cached = [row for row in through if mode_of(row.column.runs[0].info.mode).maps_cache]
    return _fastest(cached, "not_own") if cached else _fastest(through, whose="an adapter that drafts")


def adapter_acceptance(evidence: Evidence) -> Iterator[Measured]:
    """Accepted of drafted tokens through the best adapter of the draft, in chains."""
    found = [
        rate
        for column in evidence.columns
        if mode_of(column.runs[0].info.mode).drafts and _is_adapted(column.runs[0]) and _drafts_chains(column.runs[0])
        if (rate := _acceptance([column])) is not None
    ]
    if found:
        yield max(found, key=lambda one: one.words["rate"])


def _acceptance(columns: Sequence[Configuration]) -> Measured | None:
    """Accepted / drafted tokens over one run of every sample, with the range of scenes; None where none was drafted."""
    scenes: dict[Hashable, tuple[float, float]] = {}
    for run in (runs[0] for column in columns for runs in column.samples().values()):
        before, counts = scenes.get(scene_of(run), (0.0, 0.0)), counts_of(run)
        scenes[scene_of(run)] = before[0] + counts[0], before[1] + counts[1]
    right, whole = (sum(counts[side] for counts in scenes.values()) for side in (0, 1))
    if not whole:
        return None
    names = "; ".join(column.cell or runs_text([run.run_id for run in column.runs]) for column in columns)
    words = {"rate": right / whole, "accepted": right, "drafted": whole, "name": names}
    interval = None
    if len(scenes) >= FEWEST_SCENES:
        # With nothing accepted, the largest share of scenes that leaves such a sample a chance of 2.5 %.
        rates = [accepted / drafted for accepted, drafted in scenes.values() if drafted]
        interval = (min(rates), max(rates)) if right else (0.0, 1 - 0.025 ** (1 / len(scenes)))
    return Measured(words, tuple(columns), interval, ("chains",), FEW_SCENES)


def parallel_prefill_speed(evidence: Evidence) -> Iterator[Measured]:
    """The fastest answers with drafts inside the target's prefill against the target alone."""
    chains = [row for row in speeds(evidence) if _drafts_chains(row.column.runs[0])]
    return _fastest(row for row in chains if any(entry.hidden for run in row.column.runs for entry in run.rounds))


def draft_speed(evidence: Evidence) -> Iterator[Measured]:
    """The fastest speculation with the draft model as it is against the target alone."""
    rows = [row for row in speeds(evidence) if mode_of(row.column.runs[0].info.mode).drafts]
    return _fastest(row for row in rows if _kind(row.column.runs[0]) == MODEL)


def pruned_time(evidence: Evidence) -> Iterator[Measured]:
    """Time of a configuration with fewer visual tokens / the same with all."""
    for one, other in evidence.twins("visual_keep"):
        kept = [column.runs[0].info.settings.switches.visual_keep for column in (one, other)]
        whole, pruned = (one, other) if kept[0] == 1.0 else (other, one)
        times = compare(whole, pruned, _whole_ms) if 1.0 in kept else None
        if times is not None and times.ratio is not None:
            yield compared(times, "pruned", columns=(whole, pruned), share=min(kept))


def quantized_speed(evidence: Evidence) -> Iterator[Measured]:
    """Time per token without packed weights / with them."""
    for one, other in evidence.twins("quantization"):
        kinds = [column.runs[0].info.models[column.runs[0].info.role].quantization for column in (one, other)]
        whole, packed = (one, other) if kinds[0] is None else (other, one)
        times = compare(packed, whole, decode_ms_per_token) if None in kinds else None
        if times is not None and times.ratio is not None:
            # The documents' weights are not packed: what is packed here has to be theirs.
            yield compared(times, "packed", columns=(whole,), kind=next(kind for kind in kinds if kind is not None))
