"""What would change if a stage were faster, answers longer, or drafts were made while the target prefills.

Nothing of it was measured: everything follows from measured means by `evprof.metrics.speculation.break_even`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from evprof.core.records import COVERS, DRAFT, TARGET
from evprof.core.units import TIMES
from evprof.export.report.data import ReportData, badge_of
from evprof.export.report.figures import count_cell, ms_cell, number_text, ratio_text, share_cell, share_text
from evprof.export.report.pairs import MOST_PAIRS, ConfigurationPair, pairs_of
from evprof.export.report.parts import (
    Badge,
    Block,
    Cell,
    ColumnsOf,
    Paragraph,
    Table,
    row_of,
    table_of,
)
from evprof.metrics.comparison.differences import common_blocks, part_reader
from evprof.metrics.configurations.gathering import Configuration, sample_key
from evprof.metrics.estimates.paired import mean_of
from evprof.metrics.figures import stages
from evprof.metrics.figures.decoding import output_length
from evprof.metrics.speculation.break_even import (
    FACTORS,
    OUTPUT_LENGTHS,
    AnswerPace,
    best_sequential,
    faster_stage,
    free_tokens,
    parallel_prefill,
)
from evprof.metrics.speculation.payoff import pace_of
from evprof.metrics.speculation.widths import Chains, chains_of, width_sentence, widths_over

ASSUMED_RATES = (0.5, 0.8, 0.95)
"""Acceptance rates that totals are given for; 80 % is the rate that document 002 wants of its adapter."""


@dataclass(frozen=True)
class Paces:
    """How draft and target answer, by the means of two configurations, vision and prefill before the first token.

    `drafted_cost` and `verify_cost`: a drafted token and a verification in target steps, of `chains`, rounds of this
    very pair, where there are any, otherwise those of plain steps.
    """

    draft: AnswerPace
    target: AnswerPace
    drafted_cost: float
    verify_cost: float = 1.0
    chains: Chains | None = None

    def best(self, rate: float) -> tuple[int, float]:
        """The best number of drafted tokens per round, and how much faster decoding then is."""
        return best_sequential(rate, self.drafted_cost, self.verify_cost)


def what_if(data: ReportData) -> list[Block]:
    """Amdahl's law for every stage, and totals by output length with and without drafts."""
    pairs = pairs_of(data)
    columns = list({id(side): side for pair in pairs for side in pair.sides}.values()) or list(data.columns)
    blocks: list[Block] = [table for column in columns[:MOST_PAIRS] if (table := _amdahl(column, data)) is not None]
    known = ((pair, paces) for pair in pairs if (paces := paces_of(pair, data)) is not None)
    for pair, paces in list(known)[:1]:
        blocks += _lengths(pair, paces, data)
    return blocks


def _amdahl(column: Configuration, data: ReportData) -> Table | None:
    spent = {COVERS.join(block): mean_of(column, part_reader(block)) for block in common_blocks([column])}
    parts = {name: value for name, value in spent.items() if value is not None}
    rest = mean_of(column, stages.unattributed_ms)
    whole = {**parts, **({"covered by no stage": rest} if rest else {})}
    # Of a file that ends before it begins, parts and rest can add up to nothing.
    if len(parts) < 2 or not sum(parts.values()) or sum(whole.values()) <= 0:
        return None
    rows = []
    for name, value in parts.items():
        faster = (faster_stage(whole, name, factor) for factor in FACTORS)
        cells = (
            Cell(f"{share_text(one.saved_share)} (to {number_text(one.total_ms)} ms)", Badge.DERIVED) for one in faster
        )
        rows.append(
            row_of(name, ms_cell(value, badge_of(column.runs)), share_cell(value / sum(whole.values())), *cells)
        )
    heads = ("∞" if math.isinf(factor) else f"{factor:g}{TIMES}" for factor in FACTORS)
    covered = "" if mean_of(column, stages.total_ms) is not None else ", of the stages that were measured"
    caption = (
        f"{data.name(column)}: saved of the total ({number_text(sum(whole.values()))} ms{covered}) when one stage "
        "alone gets faster; ∞ is a stage without cost"
    )
    return Table(("stage", "now", "share", *(f"saves at {head}" for head in heads)), tuple(rows), caption)


def paces_of(pair: ConfigurationPair, data: ReportData) -> Paces | None:
    """The paces of a draft and a target, with the costs that rounds of speculation had; None for other pairs."""
    if [column.runs[0].info.role for column in pair.sides] != [DRAFT, TARGET]:
        return None
    draft, target = pace_of(pair.base), pace_of(pair.other)
    if draft is None or target is None:
        return None
    chains = chains_of(pair.base, pair.other, data.runs)
    costs = None if chains is None else chains.costs(target.step_ms)
    return Paces(draft, target, *(costs or (draft.step_ms / target.step_ms, 1.0)), chains)


def _lengths(pair: ConfigurationPair, paces: Paces, data: ReportData) -> list[Block]:
    measured = None if paces.chains is None else paces.chains.rate
    own = () if measured is None or measured >= 1 else (measured,)
    mean = mean_of(pair.other, output_length)
    lengths = sorted({*OUTPUT_LENGTHS, *([] if mean is None else [max(1, round(mean))])})
    return [
        Paragraph(_measured_text(pair, paces.chains), badge=None if paces.chains is None else Badge.MEASURED),
        _hidden_table(lengths, paces, tuple(dict.fromkeys(own + ASSUMED_RATES)), measured, data.name(pair.other)),
        Paragraph(_costs_text(paces), badge=Badge.DERIVED),
    ]


def _measured_text(pair: ConfigurationPair, chains: Chains | None) -> str:
    """What this draft had accepted, and how fast its rounds were."""
    if chains is None:
        return "No chain of this draft was verified by this target here: all acceptance rates below are assumed."
    samples = {sample_key(run) for run in chains.runs}
    plain = [run for run in pair.other.runs if sample_key(run) in samples]
    return (
        f"Accepted of the draft model's own chains: {chains.words}. {width_sentence(widths_over(chains.runs, plain))} "
        "The other acceptance rates below are assumed, each the same for every token whatever came before it."
    )


def _hidden_table(
    lengths: list[int], paces: Paces, rates: tuple[float, ...], measured: float | None, target: str
) -> Table:
    def cell(tokens: int, rate: float) -> Cell:
        hidden = parallel_prefill(paces.target, paces.draft, tokens, rate, verify_cost=max(1.0, paces.verify_cost))
        note = f"{number_text(hidden.accepted)} of {hidden.free} free tokens accepted"
        return Cell(f"{number_text(hidden.total_ms)} ms ({ratio_text(hidden.speedup)})", Badge.DERIVED, note=note)

    def head(rate: float) -> str:
        return f"a = {share_text(rate)}{' (measured)' if rate == measured else ''}"

    columns: ColumnsOf[int] = [
        ("tokens", _tokens),
        (f"{target} alone", lambda tokens: ms_cell(paces.target.total_ms(tokens), Badge.DERIVED)),
        *((head(rate), partial(cell, rate=rate)) for rate in rates),
    ]
    caption = (
        "Expected totals by output length with one block drafted while the target prefills, on a device of its own"
    )
    return table_of(lengths, columns, caption)


def _tokens(count: int) -> Cell:
    return count_cell(count, badge=Badge.THEORETICAL)


def _costs_text(paces: Paces) -> str:
    free = free_tokens(paces.target.prefix_ms, paces.draft)
    source = "as measured in rounds" if paces.chains else "by the plain steps of both, verification as one step"
    speeds = ", ".join(f"{ratio_text(paces.best(rate)[1])} at a = {share_text(rate)}" for rate in ASSUMED_RATES)
    text = (
        f"A drafted token costs c = {number_text(paces.drafted_cost)} and a verification v = "
        f"{number_text(paces.verify_cost)} target steps ({source}). In turns decoding would become so many times as "
        f"fast: {speeds} (the best γ up to 12; at 1.00× none pays)."
    )
    if free == 0:
        return (
            f"{text} Parallel prefill has no window: the draft needs {number_text(paces.draft.prefix_ms)} ms until its "
            f"first token, the target {number_text(paces.target.prefix_ms)} ms."
        )
    return (
        f"{text} While the target prefills ({number_text(paces.target.prefix_ms)} ms, from its own start) a draft on a "
        f"second device without contention gives {free} tokens."
    )
