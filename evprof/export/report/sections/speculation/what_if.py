"""Section: what would change if a stage were faster, answers longer, or drafts were made while the target prefills.

Nothing in it was measured: everything follows from measured means by `evprof.metrics.speculation.what_if`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from evprof.core.records import COVERS, DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.core.units import TIMES
from evprof.export.report.data import ReportData
from evprof.export.report.figures import count_cell, ms_cell, number_text, ratio_text, share_cell, share_text
from evprof.export.report.parts import (
    POINTS,
    Badge,
    Block,
    Cell,
    ColumnsOf,
    Paragraph,
    PlotSeries,
    ReportPlot,
    Section,
    Table,
    not_available,
    table_of,
)
from evprof.export.report.sections.evidence import ConfigurationPair, badge_of, listed, names_of, pairs_of
from evprof.metrics.comparison.differences import common_blocks, part_reader
from evprof.metrics.configurations.gathering import Configuration, sample_key
from evprof.metrics.estimates.paired import mean_of
from evprof.metrics.figures import stages
from evprof.metrics.figures.decoding import output_length
from evprof.metrics.speculation.chains import Chains, chains_of
from evprof.metrics.speculation.pace import pace_of
from evprof.metrics.speculation.payoff import PRINTED_002
from evprof.metrics.speculation.what_if import (
    FACTORS,
    OUTPUT_LENGTHS,
    AnswerPace,
    accepted_needed,
    accepted_of,
    best_sequential,
    faster_stage,
    free_tokens,
    parallel_prefill,
    rate_needed,
    sequential_total_ms,
)
from evprof.metrics.speculation.widths import width_sentence, widths_over

TITLE = "What if"

ASSUMED_RATES = (0.5, 0.8, 0.95)
"""Acceptance rates that totals are told for; 80 % is what document 002 wants its adapter to reach."""

_ONE_VS_EIGHT = "one-vs-eight"

MOST_TOLD = 4
"""Configurations that Amdahl's law is told for."""


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

    @property
    def in_rounds(self) -> AnswerPace:
        """The draft as it is in rounds."""
        return replace(self.draft, step_ms=self.drafted_cost * self.target.step_ms)

    def best(self, rate: float) -> tuple[int, float]:
        """The best number of drafted tokens per round, and how much faster decoding then is."""
        return best_sequential(rate, self.drafted_cost, self.verify_cost)


def section(data: ReportData) -> Section:
    """Amdahl's law for every stage, and totals by output length with and without drafts."""
    names = names_of(data)
    pairs = pairs_of(data)
    told = list({id(column): column for pair in pairs for column in (pair.base, pair.other)}.values()) or list(
        data.columns
    )
    blocks: list[Block] = [table for column in told[:MOST_TOLD] if (table := _amdahl(column, names)) is not None]
    if blocks:
        blocks.append(
            Paragraph(
                "Saved of the total when one stage alone gets faster; ∞ is a stage that costs nothing, and so the most "
                "that work on it can bring (document 000: twice as fast a prefill gives only 5 % where it is a tenth)."
            )
        )
    blocks += _windows(data, names)
    for pair in pairs:
        paces = paces_of(pair, data)
        if paces is not None:
            blocks += _lengths(pair, paces, data, names)
            break
    if not blocks:
        return Section(TITLE, missing="No stage was measured apart from the others, so nothing can be varied.")
    return Section(TITLE, tuple(blocks))


def _amdahl(column: Configuration, names: dict[int, str]) -> Table | None:
    blocks = common_blocks([column])
    parts: dict[str, float] = {}
    for block in blocks:
        spent = mean_of(column, part_reader(block))
        if spent is not None:
            parts[COVERS.join(block)] = spent
    rest = mean_of(column, stages.unattributed_ms)
    whole = {**parts, **({"covered by no stage": rest} if rest else {})}
    # Of a file that ends before it begins, parts and rest can add up to nothing.
    if len(parts) < 2 or not sum(parts.values()) or sum(whole.values()) <= 0:
        return None
    rows = []
    for name, spent in parts.items():
        cells = []
        for factor in FACTORS:
            found = faster_stage(whole, name, factor)
            cells.append(Cell(f"{share_text(found.saved_share)} (to {number_text(found.total_ms)} ms)", Badge.DERIVED))
        rows.append(
            (Cell(name), ms_cell(spent, badge_of(column.runs)), share_cell(spent / sum(whole.values())), *cells)
        )
    heads = ("stage", "now", "share", *(f"saves at {_times(factor)}" for factor in FACTORS))
    covered = "" if mean_of(column, stages.total_ms) is not None else ", of the stages that were measured"
    caption = f"{names[id(column)]}: total {number_text(sum(whole.values()))} ms{covered}"
    return Table(heads, tuple(rows), caption=caption)


def _times(factor: float) -> str:
    return "∞" if math.isinf(factor) else f"{factor:g}{TIMES}"


def paces_of(pair: ConfigurationPair, data: ReportData) -> Paces | None:
    """The paces of a draft and a target, with the costs that rounds of speculation had; None for other pairs."""
    if [column.runs[0].info.role for column in (pair.base, pair.other)] != [DRAFT, TARGET]:
        return None
    draft, target = pace_of(pair.base), pace_of(pair.other)
    if draft is None or target is None:
        return None
    chains = chains_of(pair.base, pair.other, data.runs)
    costs = None if chains is None else chains.costs(target.step_ms)
    return Paces(draft, target, *(costs or (draft.step_ms / target.step_ms, 1.0)), chains)


def _lengths(pair: ConfigurationPair, paces: Paces, data: ReportData, names: dict[int, str]) -> list[Block]:
    chains = paces.chains
    measured = None if chains is None else chains.rate
    rates = tuple(dict.fromkeys(((measured,) if measured is not None and measured < 1 else ()) + ASSUMED_RATES))
    lengths = sorted({*OUTPUT_LENGTHS, *_measured_lengths(pair)})
    base, other = names[id(pair.base)], names[id(pair.other)]
    said: list[Block] = [
        Paragraph(_measured_text(pair, chains), badge=None if chains is None else Badge.MEASURED),
        _turns_table(lengths, paces, ASSUMED_RATES, (base, other)),
        _hidden_table(lengths, paces, rates, measured, other),
        *[Paragraph(text, badge=Badge.DERIVED) for text in _sentences(paces, rates, measured)],
    ]
    if _is_one_vs_eight(pair):
        said += _printed(paces)
    return [*said, _plot(paces, rates, names, pair)]


def _measured_text(pair: ConfigurationPair, chains: Chains | None) -> str:
    """What this draft had accepted, and how fast its rounds were; assumed rates are told of none."""
    if chains is None:
        return "No chain of this draft was verified by this target here: all acceptance rates below are assumed."
    asked = {sample_key(run) for run in chains.runs}
    plain = [run for run in pair.other.runs if sample_key(run) in asked]
    return (
        f"Accepted of the draft model's own chains: {chains.words}. {width_sentence(widths_over(chains.runs, plain))} "
        "The other acceptance rates below are assumed, each the same for every token whatever came before it."
    )


def _measured_lengths(pair: ConfigurationPair) -> list[int]:
    """The mean length of the target's answers, so that one row is close to what was measured."""
    mean = mean_of(pair.other, output_length)
    return [] if mean is None else [max(1, round(mean))]


def _rate_text(rate: float, measured: float | None) -> str:
    return f"{share_text(rate)}{' (measured)' if rate == measured else ''}"


def _turns_table(lengths: list[int], paces: Paces, rates: tuple[float, ...], names: tuple[str, str]) -> Table:
    columns: ColumnsOf[int] = [
        ("tokens", lambda tokens: count_cell(tokens, badge=Badge.THEORETICAL)),
        (f"{names[1]} alone", lambda tokens: ms_cell(paces.target.total_ms(tokens), Badge.DERIVED)),
        (f"{names[0]} alone", lambda tokens: ms_cell(paces.draft.total_ms(tokens), Badge.DERIVED)),
        *((f"a = {share_text(rate)}", partial(_turns_cell, paces=paces, rate=rate)) for rate in rates),
    ]
    caption = "Expected totals by output length, from vision to the last token: speculation in turns, at its best γ"
    return table_of(lengths, columns, caption)


def _hidden_table(
    lengths: list[int], paces: Paces, rates: tuple[float, ...], measured: float | None, target: str
) -> Table:
    def cell(tokens: int, rate: float) -> Cell:
        found = parallel_prefill(paces.target, paces.draft, tokens, rate, verify_cost=max(1.0, paces.verify_cost))
        note = f"{number_text(found.accepted)} of {found.free} free tokens accepted"
        return Cell(f"{number_text(found.total_ms)} ms ({ratio_text(found.speedup)})", Badge.DERIVED, note=note)

    columns: ColumnsOf[int] = [
        ("tokens", lambda tokens: count_cell(tokens, badge=Badge.THEORETICAL)),
        (f"{target} alone", lambda tokens: ms_cell(paces.target.total_ms(tokens), Badge.DERIVED)),
        *((f"a = {_rate_text(rate, measured)}", partial(cell, rate=rate)) for rate in rates),
    ]
    caption = "The same with one block drafted while the target prefills, on a device of its own: at most"
    return table_of(lengths, columns, caption)


def _turns_cell(tokens: int, paces: Paces, rate: float) -> Cell:
    plain = paces.target.total_ms(tokens)
    gamma, _ = paces.best(rate)
    if gamma == 0:
        return not_available("(no γ pays)")
    total = sequential_total_ms(
        paces.target, paces.in_rounds, tokens, rate=rate, gamma=gamma, verify_cost=paces.verify_cost
    )
    tone = "good" if total < plain else "bad"
    return Cell(f"{number_text(total)} ms ({ratio_text(plain / total)}, γ {gamma})", Badge.DERIVED, tone)


def _sentences(paces: Paces, rates: tuple[float, ...], measured: float | None) -> list[str]:
    free = free_tokens(paces.target.prefix_ms, paces.draft)
    is_measured = paces.chains is not None
    source = "as measured in rounds" if is_measured else "by the plain steps of both, verification as one step"
    speeds = ", ".join(f"{ratio_text(paces.best(rate)[1])} at a = {share_text(rate)}" for rate in ASSUMED_RATES)
    said = [
        f"A drafted token costs c = {number_text(paces.drafted_cost)} and a verification v = "
        f"{number_text(paces.verify_cost)} target steps ({source}). In turns both prefixes are paid, and decoding "
        f"would become so many times as fast: {speeds} (S = tokens a round / (γ·c + v), the best γ up to 12, if c and "
        "v stay what they are; at 1.00× none pays)."
    ]
    if free == 0:
        said.append(
            f"Parallel prefill has no window: the draft needs {number_text(paces.draft.prefix_ms)} ms until its first "
            f"token, the target {number_text(paces.target.prefix_ms)} ms."
        )
        return said
    said.append(
        f"While the target prefills ({number_text(paces.target.prefix_ms)} ms, from its own start) a draft on a second "
        f"device without contention gives {free} tokens. Where acceptances are independent, of one line of drafts at "
        "most a/(1-a) are accepted on average however long it is: "
        + ", ".join(
            f"{number_text(accepted_of(rate, free))} of them at a = {_rate_text(rate, measured)}" for rate in rates
        )
        + ". Each spares a step, once per answer, for the pass over the block."
    )
    return said


def _windows(data: ReportData, names: dict[int, str]) -> list[Block]:
    """The overlap windows of imported files, which begin where their scripts let them."""
    said: list[Block] = []
    for column in data.columns:
        both = [mean_of(column, partial(_file_figure, name=name)) for name in _WINDOWS]
        if both[0] is not None and both[1] is not None:
            text = (
                f"{names[id(column)]}: the file's overlap window of {number_text(both[0])} ms begins when the video "
                "model loads its frames; counted from the begin of vision on both sides it is "
                f"{number_text(both[1])} ms."
            )
            said.append(Paragraph(text, badge=Badge.IMPORTED))
    return said


_WINDOWS = ("overlap_window_from_load_ms", "overlap_window_from_vision_ms")


def _file_figure(run: RunLog, name: str) -> float | None:
    return None if run.info.imported is None else run.info.imported.figures.get(name)


def _is_one_vs_eight(pair: ConfigurationPair) -> bool:
    runs = pair.base.runs[0], pair.other.runs[0]
    return all(run.info.imported is not None and run.info.imported.family == _ONE_VS_EIGHT for run in runs)


def _printed(paces: Paces) -> list[Block]:
    """Document 002's own expectations beside these."""
    rows = []
    for tokens, (alone, drafted) in PRINTED_002.items():
        plain = paces.target.total_ms(tokens)
        needed = accepted_needed(plain - drafted, paces.target.step_ms)
        later = paces.best(0.8)[1]
        at_80 = parallel_prefill(paces.target, paces.draft, tokens, 0.8, later_speedup=later)
        rows.append(
            (
                count_cell(tokens, badge=Badge.THEORETICAL),
                ms_cell(alone, Badge.IMPORTED),
                ms_cell(round(plain), Badge.DERIVED),
                ms_cell(drafted, Badge.IMPORTED),
                Cell(f"{number_text(at_80.total_ms)} ms ({ratio_text(at_80.speedup)})", Badge.DERIVED),
                _needed_cell(needed, tokens),
                share_cell(rate_needed((plain - drafted) / paces.target.step_ms))
                if 0 < needed < tokens
                else not_available(),
            )
        )
    heads = (
        "tokens",
        "target alone, printed",
        "at the measured pace",
        "parallel + adapter, printed",
        "bound at a = 80 %, with rounds after the block",
        "accepted tokens one block would need",
        "acceptance that takes",
    )
    step, rate = paces.target.step_ms, 1000 / paces.target.step_ms
    totals = "/".join(f"{paces.target.total_ms(tokens):.0f}" for tokens in (20, 50, 100))
    slope = (PRINTED_002[100][0] - PRINTED_002[20][0]) / 80
    most = accepted_of(0.8, free_tokens(paces.target.prefix_ms, paces.draft))
    out_of_reach = [
        str(tokens)
        for tokens, (_, drafted) in PRINTED_002.items()
        if accepted_needed(paces.target.total_ms(tokens) - drafted, step) > most
    ]
    text = (
        f"002 takes {rate:.1f} tok/s for {slope:.0f} ms per token: at the measured {step:.1f} ms the baselines for 20, "
        f"50 and 100 tokens are {totals} ms."
    )
    if out_of_reach:
        text += (
            f" Even against those, what it expects for {listed(out_of_reach)} tokens needs more accepted tokens than "
            f"one block gives at a = 80 % ({number_text(most)})."
        )
    caption = "Document 002's expectations, and what they would take of one block of drafts"
    return [Table(heads, tuple(rows), caption=caption), Paragraph(text, badge=Badge.DERIVED)]


def _needed_cell(needed: float, tokens: int) -> Cell:
    if needed <= 0:
        return Cell("none", Badge.DERIVED)
    tone = "bad" if needed >= tokens else ""
    return Cell(number_text(needed), Badge.DERIVED, tone, note="more than the answer has" if needed >= tokens else "")


def _plot(paces: Paces, rates: tuple[float, ...], names: dict[int, str], pair: ConfigurationPair) -> ReportPlot:
    x = tuple(float(tokens) for tokens in range(1, max(OUTPUT_LENGTHS) + 1, 9))
    series = [
        PlotSeries(
            f"{names[id(column)]} alone", x, tuple(map(pace.total_ms, x)), role, is_line=True, badge=Badge.DERIVED
        )
        for column, pace, role in ((pair.other, paces.target, TARGET), (pair.base, paces.draft, DRAFT))
    ]
    for rate in (fmean(rates[:1]), rates[-1]):
        y = tuple(parallel_prefill(paces.target, paces.draft, int(tokens), rate).total_ms for tokens in x)
        series.append(PlotSeries(f"parallel prefill, a = {share_text(rate)}", x, y, is_line=True, badge=Badge.DERIVED))
    return ReportPlot(
        POINTS, "Expected totals by output length", tuple(series), x_title="tokens", y_title="total", unit="ms"
    )
