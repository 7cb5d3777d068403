"""Section: acceptance by every definition, costs and gain of speculation, and drafts inside the target's prefill.

Figures of one body of work read 3 %, 4 %, 24 % and 35 % because their definitions differ: each stands with its own.
`drafts` says where and why drafts fail, `what_if` what would have to change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from evprof.core.records import TARGET
from evprof.core.vocabulary.modes import SPECULATIVE, mode_of
from evprof.export.report.data import ReportData, badge_of, is_imported
from evprof.export.report.figures import (
    count_cell,
    count_text,
    interval_text,
    ms_cell,
    number_text,
    ratio_cell,
    rows_cell,
    share_cell,
    share_text,
)
from evprof.export.report.pairs import evidence_of, pairs_of, payoff_in
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
    headed,
    not_available,
    section_of,
    table_of,
)
from evprof.export.report.sections.drafts import alignment, failures
from evprof.export.report.sections.what_if import what_if
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.claims.speculation import Speed, speeds
from evprof.metrics.comparison.document import configuration_token_match
from evprof.metrics.configurations.gathering import Configuration, by_sample, sample_key
from evprof.metrics.estimates.paired import compare, values_of
from evprof.metrics.figures.stages import END_TO_END, total_ms
from evprof.metrics.speculation import break_even
from evprof.metrics.speculation.clinic import SHARE, definitions_over
from evprof.metrics.speculation.outcome import ceiling_of, distinct_answers, round_count
from evprof.metrics.speculation.parallel_prefill import ParallelPrefillFigures, window_of
from evprof.metrics.speculation.payoff import (
    DECODE,
    MeasuredSpeedup,
    Payoff,
    Prediction,
    prediction_over,
    step_ms_of,
)
from evprof.metrics.speculation.verdicts import detail, payoff_sentence
from evprof.metrics.speculation.widths import CrossPrediction, predict_across

MOST_DRAWN = 4
"""Configurations in one plot."""

COSTS = (
    "S = tau / (gamma·c + v): tau tokens a round gives, c a drafted token and v the rest of a round in plain steps of "
    "the target, all measured. Break-even is the acceptance at which the whole answer, the draft's own stages "
    "included, takes as long as the target alone; where none is given, speculation cannot pay at any acceptance."
)


def section(data: ReportData) -> Section:
    """Everything about speculation that these runs measured, or that their paces lead one to expect."""
    blocks = [
        *headed("Acceptance", acceptance(data)),
        *headed("Costs, gain and break-even", costs(data)),
        *headed("Why drafts fail", failures(data)),
        *headed("Drafts inside the prefill", hidden_drafts(data)),
        *headed("Totals by length of the answer", by_answer_length(data)),
        *headed("Alignment of visual features", alignment(data)),
        *headed("What if", what_if(data)),
    ]
    missing = (
        "No run speculated and no two configurations answered the same samples with token ids; run the suite "
        "speculation."
    )
    return section_of("Speculation", blocks, missing)


@dataclass(frozen=True)
class Rate:
    """One acceptance figure: its name, what it divides by what, and the two counts (None: not known)."""

    configuration: str
    name: str
    definition: str
    numerator: float | None
    denominator: float | None
    value: float
    badge: Badge
    is_share: bool = True


def acceptance(data: ReportData) -> list[Block]:
    """Every definition in a table, and a warning where several are in use."""
    rates = [rate for column in data.columns for rate in (*_counted(data, column), *_of_file(data, column))]
    rates += _matches(data)
    if not rates:
        return []

    def count(rate: Rate, value: float | None) -> Cell:
        return not_available() if value is None else Cell(count_text(value), rate.badge)

    def value(rate: Rate) -> Cell:
        badge = Badge.IMPORTED if rate.badge is Badge.IMPORTED else Badge.DERIVED
        return share_cell(rate.value, badge) if rate.is_share else Cell(number_text(rate.value), badge)

    columns: ColumnsOf[Rate] = [
        ("configuration", lambda rate: rate.configuration),
        ("figure", lambda rate: rate.name),
        ("definition", lambda rate: rate.definition),
        ("numerator", lambda rate: count(rate, rate.numerator)),
        ("denominator", lambda rate: count(rate, rate.denominator)),
        ("value", value),
    ]
    caption = "Counts over the distinct answers of a configuration: repeats count once, long answers weigh more"
    blocks: list[Block] = [table_of(rates, columns, caption, text_columns=3)]
    kinds = dict.fromkeys(rate.name for rate in rates if rate.is_share)
    if len(kinds) > 1:
        text = (
            f"{len(kinds)} different shares are called acceptance above ({', '.join(kinds)}). They divide different "
            "counts and must not be compared with each other."
        )
        blocks.append(Paragraph(text, "warn"))
    return blocks


def _counted(data: ReportData, column: Configuration) -> Iterator[Rate]:
    for entry in definitions_over([(run, None) for run in distinct_answers(column.runs) if round_count(run)]):
        if entry.value is not None:
            yield Rate(
                data.name(column),
                entry.name,
                f"{entry.formula}; {entry.note}" if entry.note else entry.formula,
                entry.numerator,
                entry.denominator,
                entry.value,
                badge_of(column.runs),
                entry.unit == SHARE,
            )


def _of_file(data: ReportData, column: Configuration) -> Iterator[Rate]:
    """What an imported file counts or calls acceptance, with what its importer found that to be."""
    figures = [run.info.imported.figures for run in column.runs if run.info.imported is not None]
    counts = ("accepted_tokens", "drafted_tokens")
    accepted, drafted = (sum(one[key] for one in figures if {*counts} <= one.keys()) for key in counts)
    name = data.name(column)
    if drafted:
        definition = "accepted / drafted by the file's counts; of what was drafted at all, not of the answer"
        yield Rate(name, "draft acceptance rate", definition, accepted, drafted, accepted / drafted, Badge.IMPORTED)
    rates = [one["published_acceptance_rate"] for one in figures if "published_acceptance_rate" in one]
    if rates:
        problems = (entry.get("problems") for entry in data.noted_rows("imports"))
        sentences = [text for known in problems if isinstance(known, list) for text in known if isinstance(text, str)]
        text = next((one for one in sentences if "acceptance_rate is" in one), "the file does not say what it divides")
        definition = f"{text.rstrip('.')}; mean over {len(rates):,} rows"
        yield Rate(name, "the file's acceptance_rate", definition, None, None, fmean(rates), Badge.IMPORTED)


def _matches(data: ReportData) -> Iterator[Rate]:
    """How far two plain answers agree position by position, which has been called naive acceptance."""
    for pair in pairs_of(data):
        if any(mode_of(side.runs[0].info.mode).is_paired for side in pair.sides):
            continue
        match = configuration_token_match(pair.base, pair.other)
        if match["rate"] is not None:
            yield Rate(
                " and ".join(map(data.name, pair.sides)),
                "position-wise match",
                f"{match['definition']} of two plain answers, over the shorter one's length; nothing was drafted",
                match["matched"],
                match["compared"],
                match["rate"],
                badge_of(pair.runs, Badge.DERIVED),
            )


@dataclass(frozen=True)
class Weighed:
    """A configuration that speculates in rounds against the target alone: by formula, and measured."""

    column: Configuration
    payoff: Payoff
    formula: Prediction | None
    across: CrossPrediction | None


def costs(data: ReportData) -> list[Block]:
    """Costs, predicted and measured speed, break-even, and a sentence for every configuration that drafts."""
    weighed, sentences = [], []
    for column in data.columns:
        info = column.runs[0].info
        payoff = payoff_in(data, column) if mode_of(info.mode).drafts and info.imported is None else None
        if payoff is None:
            continue
        sentences.append(f"{data.name(column)}: {payoff_sentence(payoff)} {detail(payoff)}".rstrip())
        if info.mode == SPECULATIVE:
            step = step_ms_of(payoff.baseline)
            formula = None if step is None else prediction_over(payoff.runs, step)
            weighed.append(Weighed(column, payoff, formula, predict_across(payoff.runs, payoff.baseline.runs)))
    blocks: list[Block] = [Paragraph(COSTS), _costs_table(weighed, data)] if weighed else []
    known = [one for one in weighed if one.formula is not None]
    blocks += [_curve(known[:MOST_DRAWN], data)] if known else []
    blocks += [Paragraph(sentence, badge=Badge.DERIVED) for sentence in sentences]
    return [*blocks, *_file_speed(data)]


def _costs_table(weighed: list[Weighed], data: ReportData) -> Table:
    def derived(read: Callable[[Prediction], float | None]) -> Callable[[Weighed], Cell]:
        def cell(one: Weighed) -> Cell:
            value = None if one.formula is None else read(one.formula)
            return not_available() if value is None else Cell(number_text(value), Badge.DERIVED)

        return cell

    def limit(one: Weighed) -> Cell:
        rate = one.formula.break_even_rate if one.formula else None
        return not_available("(at any acceptance)") if rate is None else share_cell(rate)

    one_sample = not_available("(one sample)")
    columns: ColumnsOf[Weighed] = [
        ("configuration", lambda one: data.name(one.column)),
        ("γ drafted", derived(lambda formula: formula.mean_gamma)),
        ("tokens a round", derived(lambda formula: formula.tau)),
        ("c, a drafted token", lambda one: ratio_cell(one.formula.c if one.formula else None)),
        ("v, rest of a round", lambda one: ratio_cell(one.formula.v if one.formula else None)),
        ("α accepted of judged", lambda one: share_cell(one.formula.alpha if one.formula else None)),
        ("predicted from other samples", lambda one: ratio_cell(one.across.predicted) if one.across else one_sample),
        ("decoding, measured", lambda one: measured_cell(one.payoff.of(DECODE))),
        ("whole answer, measured", lambda one: measured_cell(one.payoff.of(END_TO_END))),
        ("break-even, accepted of drafted", limit),
        ("saved an answer", lambda one: saved_cell(one.payoff)),
        ("runs against plain", lambda one: runs_against(one.payoff)),
    ]
    caption = (
        "Speed against the target alone on the same samples, prompt and settings; above 1.00× speculation is faster. A "
        "prediction takes costs and acceptance from the other half of the samples"
    )
    return table_of(weighed, columns, caption)


def measured_cell(speedup: MeasuredSpeedup | None) -> Cell:
    """How many times as fast speculation was, with its interval."""
    return ratio_cell(speedup.speedup, speedup.interval, lower_is_better=False) if speedup else not_available()


def saved_cell(payoff: Payoff | None) -> Cell:
    """What speculation saves an answer, in ms, with its interval; below 0 it costs."""
    saved = payoff.saved if payoff else None
    if saved is None:
        return ms_cell(None)
    ends = f" {interval_text(saved.delta_interval, 'ms')}" if saved.delta_interval else " ms"
    return Cell(f"{number_text(saved.delta)}{ends}", Badge.DERIVED)


def runs_against(payoff: Payoff | None) -> Cell:
    """How many runs speculated, and their baseline."""
    return Cell(f"{len(payoff.runs)} against {payoff.baseline.words}") if payoff else not_available()


def _curve(weighed: list[Weighed], data: ReportData) -> ReportPlot:
    series = []
    for one in weighed:
        formula, name = one.formula, data.name(one.column)
        if formula is None:
            continue
        points = break_even.curve(formula.costs, formula.by_place if formula.alpha is None else formula.alpha)
        x, y = tuple(float(point.gamma) for point in points), tuple(point.speedup for point in points)
        series.append(PlotSeries(f"{name}, predicted", x, y, is_line=True, badge=Badge.DERIVED))
        if decode := one.payoff.of(DECODE):
            low, high = decode.interval or (None, None)
            x, y = (formula.mean_gamma,), (decode.speedup,)
            series.append(PlotSeries(f"{name}, measured", x, y, low=(low,), high=(high,), badge=Badge.MEASURED))
    gammas = (float(break_even.GAMMAS[0]), float(break_even.GAMMAS[-1]))
    series.append(PlotSeries("no gain", gammas, (1.0, 1.0), is_line=True, badge=Badge.THEORETICAL))
    return ReportPlot(
        POINTS,
        "Decoding speed against the target alone",
        tuple(series),
        x_title="drafted tokens a round",
        y_title="times as fast",
        caption="Predicted from measured costs and the acceptance per token; measured with its 95 % interval",
    )


def _file_speed(data: ReportData) -> list[Block]:
    """Imported speculation against the target alone on the same questions, beside what its file says."""

    def of_file(speed: Speed) -> Cell:
        figures = [run.info.imported.figures for run in speed.column.runs if run.info.imported is not None]
        known = [one["published_speedup"] for one in figures if "published_speedup" in one]
        return ratio_cell(fmean(known) if known else None, badge=Badge.IMPORTED)

    columns: ColumnsOf[Speed] = [
        ("configuration", lambda speed: data.name(speed.column)),
        ("against", lambda speed: ", ".join(data.name(column) for column in speed.bases(data.columns))),
        ("speed, totals in pairs", lambda speed: ratio_cell(speed.ratio, speed.interval, lower_is_better=False)),
        ("mean speedup as the file says", of_file),
        ("runs", lambda speed: str(len(speed.column.runs))),
    ]
    rows = list(speeds(evidence_of(data), imported_only=True))
    caption = "Speculation in imported files: how many times as fast the whole answer is; above 1.00× it pays"
    return [table_of(rows, columns, caption, text_columns=2)] if rows else []


def hidden_drafts(data: ReportData) -> list[Block]:
    """Of parallel prefill: its window, its contention and its net gain; a row and a sentence per configuration."""
    shown = [
        column for column in data.columns if mode_of(column.runs[0].info.mode).is_parallel and not is_imported(column)
    ]
    if not shown:
        return []
    windows = {id(column): _windows(data, column) for column in shown}

    def cell(column: Configuration, name: str, badge: Badge = Badge.MEASURED) -> Cell:
        values = [value for window in windows[id(column)] if (value := getattr(window, name)) is not None]
        summary = summarize(values)
        return count_cell(summary, badge=badge) if name in ("drafted", "accepted") else ms_cell(summary, badge)

    columns: ColumnsOf[Configuration] = [
        ("configuration", data.name),
        ("window, from prefill", partial(cell, name="prefill_ms")),
        ("window, from load", partial(cell, name="with_load_ms")),
        ("left for drafting", partial(cell, name="left_ms")),
        ("hidden drafted", partial(cell, name="drafted")),
        ("hidden accepted", partial(cell, name="accepted")),
        ("contention", partial(cell, name="stage_contention_ms", badge=Badge.DERIVED)),
        ("verification", partial(cell, name="verify_ms")),
        ("predicted gain", partial(cell, name="predicted_gain_ms", badge=Badge.DERIVED)),
        ("saved an answer", lambda column: saved_cell(payoff_in(data, column))),
        ("runs against plain", lambda column: runs_against(payoff_in(data, column))),
    ]
    caption = (
        "Means over runs. Gain = saved steps − verification − contention, by which the target's own stages take longer "
        "beside the draft; of independent acceptances a one block gives a/(1−a) at most"
    )
    sentences = (Paragraph(_hidden_sentence(data, column), badge=Badge.DERIVED) for column in shown)
    return [table_of(shown, columns, caption), *sentences]


def _windows(data: ReportData, column: Configuration) -> list[ParallelPrefillFigures]:
    known = by_sample(data.beside(column))
    windows = (window_of(run, known.get(sample_key(run), ())) for run in column.runs)
    return [window for window in windows if window is not None]


def _hidden_sentence(data: ReportData, column: Configuration) -> str:
    distinct, payoff = distinct_answers(column.runs), payoff_in(data, column)
    hidden = [entry for run in distinct for entry in run.rounds if entry.hidden]
    drafted, accepted = sum(entry.drafted for entry in hidden), sum(entry.accepted for entry in hidden)
    verdict = payoff_sentence(payoff) if payoff else "the target was not run alone on these samples."
    head = f"{data.name(column)}: {verdict}"
    if not drafted:
        return f"{head} Nothing was drafted inside the prefill."
    answers = "1 answer" if len(distinct) == 1 else f"{len(distinct):,} different answers"
    share = share_text(accepted / drafted)
    text = f"{head} In {answers}, {accepted:,} of {drafted:,} hidden tokens were accepted ({share})"
    ceiling = ceiling_of(column.runs, hidden_only=True)
    if ceiling is None:
        return f"{text}."
    low, high = ceiling.interval
    ends = f"[{low:.1f}, {'∞' if high is None else f'{high:.1f}'}]"
    return f"{text}; if acceptances are independent, no window gets more than {ceiling.value:.1f} {ends} accepted."


Asked = tuple[int, object, str, str]
"""Tokens of the answer, video frames, model and dtype: what both sides have in common."""


def by_answer_length(data: ReportData) -> list[Block]:
    """Answers of several lengths, with the target alone and with drafts hidden in its prefill."""
    alone = {asked: column for column in data.columns if (asked := _asked(column, is_drafted=False)) is not None}
    drafted = [(asked, column) for column in data.columns if (asked := _asked(column, is_drafted=True)) is not None]
    rows = sorted(
        ((asked[0], alone[asked], column) for asked, column in drafted if asked in alone), key=lambda row: row[0]
    )
    if len({length for length, *_ in rows}) < 2:
        return []
    total = partial(total_ms, basis=END_TO_END)

    def name(column: Configuration) -> str:
        drafting = column.runs[0].info.settings.speculation
        return (drafting.adapter or drafting.drafter).rstrip("/").rpartition("/")[2]

    def spent(column: Configuration) -> Cell:
        return ms_cell(summarize(values_of(column, total)), badge_of(column.runs))

    def gain(plain: Configuration, column: Configuration) -> Cell:
        compared = compare(column, plain, total)
        if compared is None:
            return not_available()
        interval = compared.interval
        return ratio_cell(compared.ratio, interval, lower_is_better=False if interval else None)

    def count(plain: Configuration, column: Configuration) -> Cell:
        compared = compare(column, plain, total)
        return rows_cell(compared.count if compared else None)

    columns: ColumnsOf[tuple[int, Configuration, Configuration]] = [
        ("tokens", lambda row: str(row[0])),
        ("drafted by", lambda row: name(row[2])),
        ("target alone", lambda row: spent(row[1])),
        ("drafts in its prefill", lambda row: spent(row[2])),
        ("alone / drafted", lambda row: gain(row[1], row[2])),
        ("n", lambda row: count(row[1], row[2])),
        ("runs", lambda row: f"{len(row[1].runs):,} and {len(row[2].runs):,}"),
    ]
    caption = (
        "Totals end to end of the same tokens, past the end of sequence: means over samples ± standard deviation, "
        "ratio of means with its 95 % interval; above 1 is a gain"
    )
    return [table_of(rows, columns, caption, text_columns=2)]


def _asked(column: Configuration, *, is_drafted: bool) -> Asked | None:
    """The question of a configuration that goes on to its limit; None of others."""
    info = column.runs[0].info
    settings, model, mode = info.settings, info.models.get(info.role), mode_of(info.mode)
    drafting = settings.speculation
    is_usual = (drafting.begins, drafting.verify, drafting.afterwards) == ("load", "after", "plain")
    is_kind = mode.is_parallel and is_usual if is_drafted else not mode.is_paired
    if not is_kind or model is None or info.role != TARGET or not settings.ignore_eos:
        return None
    return settings.max_new_tokens, settings.frames, model.name, model.dtype
