"""Section: acceptance by every definition, costs and gain, rejected drafts, and drafts inside the prefill.

Figures of one body of work read 3 %, 4 %, 24 % and 35 % because their definitions differ: each stands with its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from statistics import fmean
from typing import Any

from evprof.core.records import TARGET
from evprof.core.vocabulary.modes import SPECULATIVE, mode_of
from evprof.export.report import figures as fmt
from evprof.export.report import parts as doc
from evprof.export.report.data import ReportData, badge_of, is_imported
from evprof.export.report.pairs import evidence_of, number_in, pairs_of, payoff_in
from evprof.export.report.parts import Badge, Block, Cell, Paragraph, PlotSeries, ReportPlot, Section, Table
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.claims.speculation import Speed, speeds
from evprof.metrics.comparison.differences import configuration_token_match
from evprof.metrics.configurations.gathering import Configuration, by_sample, sample_key
from evprof.metrics.estimates.paired import compare, values_of
from evprof.metrics.figures.stages import END_TO_END, total_ms
from evprof.metrics.speculation import break_even, clinic
from evprof.metrics.speculation.failure_modes import KINDS, counts, first_rejections
from evprof.metrics.speculation.outcome import distinct_answers, round_count
from evprof.metrics.speculation.parallel_prefill import ParallelPrefillFigures, window_of
from evprof.metrics.speculation.payoff import DECODE, Payoff, Prediction, prediction_for
from evprof.metrics.speculation.verdicts import detail, hidden_counts, payoff_sentence

MOST_DRAWN = 4
"""Configurations in one plot."""

COSTS = (
    "c is the cost of a drafted token and v that of the rest of a round, in decode steps of the baseline: means over "
    f"rounds of as many drafted tokens, {break_even.FEWEST_ROUNDS} at least. The prediction takes whole rounds and "
    "what decoding pays once. Break-even is the acceptance at which the whole answer takes as long as the target alone."
)

KINDS_TEXT = (
    "A round ends at its first rejected token. Shifted: the draft's token comes a few places later in the target's "
    "text, or the target's in the draft's. Surface: the same letters and digits. Content: another word."
)

FLOORS = {"mean_cosine_elsewhere": "cosine elsewhere", "cka": "CKA", "cka_shuffled": "CKA, shuffled"}
"""Figures of a sample by title; values of unrelated features beside the others."""

ALIGNMENT = (
    "Cosine: of the two models' features at one place of the picture, mean over the positions; it needs equal widths. "
    "CKA (arXiv 1905.00414): of all places together, 1 where one is a rotation and scaling of the other. Beside each "
    "stands its value of unrelated features: at other places, and with one model's places in random order."
)


def section(data: ReportData) -> Section:
    parts = {
        "Acceptance": acceptance,
        "Costs, gain and break-even": costs,
        "Why drafts fail": failures,
        "Drafts inside the prefill": hidden_drafts,
        "Totals by length of the answer": by_answer_length,
        "Alignment of visual features": alignment,
    }
    blocks = [block for title, build in parts.items() for block in doc.headed(title, build(data))]
    missing = "No run drafted, and no two configurations answered the same samples; run the suite speculation."
    return doc.section_of("Speculation", blocks, missing)


Rate = tuple[str, clinic.Definition, Badge]
"""A figure that is called acceptance: of what, its definition with its counts, and the origin of these."""


def acceptance(data: ReportData) -> list[Block]:
    """Every definition in a table, and a warning where several are in use."""
    found = [rate for column in data.columns for rate in (*_counted(data, column), *_of_file(data, column))]
    rates = [(name, entry, badge) for name, entry, badge in (*found, *_matches(data)) if entry.value is not None]
    kinds = dict.fromkeys(entry.name for _, entry, _ in rates if entry.unit == clinic.SHARE)
    text = f"These {len(kinds)} shares divide different counts ({', '.join(kinds)}): do not compare them."
    rows = []
    for name, entry, badge in rates:
        counted = (Cell(fmt.count_text(count or 0), badge) for count in (entry.numerator, entry.denominator))
        cell = fmt.share_cell if entry.unit == clinic.SHARE else fmt.number_cell
        value = cell(entry.value, badge=badge if badge is Badge.IMPORTED else Badge.DERIVED)
        definition = "; ".join(filter(None, (entry.formula, entry.note)))
        rows.append(doc.row_of(name, entry.name, definition, *counted, value))
    heads = ("configuration", "figure", "definition", "numerator", "denominator", "value")
    caption = "Counts over the distinct answers of a configuration: repeats count once, long answers weigh more"
    warning: list[Block] = [Paragraph(text, "warn")] if len(kinds) > 1 else []
    return [Table(heads, tuple(rows), caption, text_columns=3), *warning] if rows else []


def _counted(data: ReportData, column: Configuration) -> Iterator[Rate]:
    for entry in clinic.definitions_over([(run, None) for run in distinct_answers(column.runs) if round_count(run)]):
        yield data.name(column), entry, badge_of(column.runs)


def _figures(column: Configuration) -> list[Mapping[str, float]]:
    """What an imported file says of each of its rows."""
    return [run.info.imported.figures for run in column.runs if run.info.imported is not None]


def _of_file(data: ReportData, column: Configuration) -> Iterator[Rate]:
    """What an imported file counts or calls acceptance, with its importer's finding."""
    keys, name = ("accepted_tokens", "drafted_tokens"), data.name(column)
    accepted, drafted = (sum(row[key] for row in _figures(column) if {*keys} <= row.keys()) for key in keys)
    formula = "accepted / drafted by the file's counts; of what was drafted at all, not of the answer"
    yield name, clinic.Definition(clinic.DRAFT_RATE, formula, accepted, drafted, clinic.SHARE), Badge.IMPORTED
    key = "published_acceptance_rate"
    rates = [row[key] for row in _figures(column) if key in row]
    problems = (entry.get("problems") for entry in data.noted_rows("imports"))
    sentences = [text for known in problems if isinstance(known, list) for text in known if isinstance(text, str)]
    text = next((said for said in sentences if "acceptance_rate is" in said), "the file does not say what it divides")
    formula = f"{text.rstrip('.')}; mean over {len(rates):,} rows"
    rate = clinic.Definition("the file's acceptance_rate", formula, sum(rates), len(rates), clinic.SHARE)
    yield name, rate, Badge.IMPORTED


def _matches(data: ReportData) -> Iterator[Rate]:
    """How far two plain answers agree position by position, which has been called naive acceptance."""
    for pair in pairs_of(data):
        if not any(mode_of(side.runs[0].info.mode).is_paired for side in pair.sides):
            match = configuration_token_match(pair.base, pair.other)
            formula = f"{match['definition']} of two plain answers, over the shorter one's length; nothing was drafted"
            entry = clinic.Definition("position-wise match", formula, match["matched"], match["compared"], clinic.SHARE)
            yield " and ".join(map(data.name, pair.sides)), entry, badge_of(pair.runs, Badge.DERIVED)


Weighed = tuple[Configuration, Payoff, Prediction | None]
"""A configuration that speculates in rounds: measured against the target alone, and by formula."""


def costs(data: ReportData) -> list[Block]:
    """Costs, predicted and measured speed, break-even, and a sentence for every configuration that drafts in rounds."""
    weighed: list[Weighed] = []
    for column in data.columns:
        info = column.runs[0].info
        if info.mode == SPECULATIVE and info.imported is None and (payoff := payoff_in(data, column)) is not None:
            weighed.append((column, payoff, prediction_for(payoff)))
    blocks: list[Block] = [Paragraph(COSTS), _costs_table(weighed, data)] if weighed else []
    blocks += [_curve(weighed[:MOST_DRAWN], data)] if any(formula for *_, formula in weighed) else []
    for column, payoff, _ in weighed:
        text = f"{data.name(column)}: {payoff_sentence(payoff)} {detail(payoff)}".rstrip()
        blocks.append(Paragraph(text, badge=Badge.DERIVED))
    return [*blocks, *_file_speed(data)]


def _costs_table(weighed: list[Weighed], data: ReportData) -> Table:
    def of(read: Callable[[Prediction], Cell]) -> Callable[[Weighed], Cell]:
        return lambda row: read(row[2]) if row[2] else doc.not_available()

    def measured(row: Weighed, basis: str) -> Cell:
        return fmt.verdict_cell(row[1].measured.get(basis), lower_is_better=False)

    def break_even_cell(formula: Prediction) -> Cell:
        never = Cell("never, even if every draft is right", Badge.DERIVED)
        return never if formula.break_even_rate is None else fmt.share_cell(formula.break_even_rate)

    return doc.table_of(
        weighed,
        [
            ("configuration", lambda row: data.name(row[0])),
            ("γ drafted", of(lambda formula: fmt.number_cell(formula.mean_gamma, badge=Badge.DERIVED))),
            ("tokens a round", of(lambda formula: fmt.number_cell(formula.tau, badge=Badge.DERIVED))),
            ("c, a drafted token", of(lambda formula: fmt.ratio_cell(formula.c))),
            ("v, rest of a round", of(lambda formula: fmt.ratio_cell(formula.v))),
            ("α accepted of judged", of(lambda formula: fmt.share_cell(formula.alpha))),
            ("decoding, predicted", of(lambda formula: fmt.ratio_cell(formula.predicted))),
            ("decoding, measured", lambda row: measured(row, DECODE)),
            ("whole answer, measured", lambda row: measured(row, END_TO_END)),
            ("break-even, accepted of drafted", of(break_even_cell)),
            ("saved an answer", lambda row: saved_cell(row[1])),
            ("runs against baseline", lambda row: runs_against(row[1])),
        ],
        "Speed against the target alone on the same samples, prompt and settings; above 1.00× speculation is faster",
    )


def saved_cell(payoff: Payoff | None) -> Cell:
    """The time that speculation saves per answer, in ms, with its interval; negative where it costs time."""
    saved = payoff.saved if payoff else None
    if saved is None:
        return fmt.ms_cell(None)
    ends = f" {fmt.interval_text(saved.delta_interval, 'ms')}" if saved.delta_interval else " ms"
    return Cell(f"{fmt.number_text(saved.delta)}{ends}", Badge.DERIVED)


def runs_against(payoff: Payoff | None) -> Cell:
    return Cell(f"{len(payoff.runs)} against {payoff.baseline.words}") if payoff else doc.not_available()


def _curve(weighed: list[Weighed], data: ReportData) -> ReportPlot:
    series = []
    for column, payoff, formula in weighed:
        if formula is None:
            continue
        name, points = data.name(column), break_even.curve(formula.costs, formula.by_place, formula.tokens)
        x, y = tuple(float(point.gamma) for point in points), tuple(point.speedup for point in points)
        series.append(PlotSeries(f"{name}, predicted", x, y, is_line=True, badge=Badge.DERIVED))
        if decode := payoff.measured.get(DECODE):
            low, high = decode.interval or (None, None)
            x, y = (formula.mean_gamma,), (decode.ratio or 0.0,)
            series.append(PlotSeries(f"{name}, measured", x, y, low=(low,), high=(high,), badge=Badge.MEASURED))
    gammas = (float(break_even.GAMMAS[0]), float(break_even.GAMMAS[-1]))
    series.append(PlotSeries("no gain", gammas, (1.0, 1.0), is_line=True, badge=Badge.THEORETICAL))
    caption = "Predicted from measured costs, extrapolated to other widths; measured with its 95 % interval"
    title = "Decoding speed against the target alone"
    return doc.points_plot(title, series, "drafted tokens a round", "times as fast", caption=caption)


def _file_speed(data: ReportData) -> list[Block]:
    """Imported speculation against the target alone on the same questions, beside the file's own figure."""

    def of_file(speed: Speed) -> Cell:
        known = [row["published_speedup"] for row in _figures(speed.column) if "published_speedup" in row]
        return fmt.ratio_cell(fmean(known) if known else None, badge=Badge.IMPORTED)

    rows = list(speeds(evidence_of(data), imported_only=True))
    table = doc.table_of(
        rows,
        [
            ("configuration", lambda speed: data.name(speed.column)),
            ("against", lambda speed: ", ".join(data.name(column) for column in speed.bases(data.columns))),
            ("speed, totals in pairs", lambda speed: fmt.verdict_cell(speed.estimate, lower_is_better=False)),
            ("mean speedup as the file says", of_file),
            ("runs", lambda speed: str(len(speed.column.runs))),
        ],
        "Speculation in imported files: how many times as fast the whole answer is; above 1.00× it pays",
        text_columns=2,
    )
    return [table] if rows else []


def failures(data: ReportData) -> list[Block]:
    """A plot of acceptance by place, and the first rejections by kind."""
    columns = [column for column in data.columns if any(map(round_count, column.runs))]
    # Blocks drafted inside a prefill are of another length.
    steady = [column for column in columns if clinic.round_histogram(*column.runs, steady_only=True)][:MOST_DRAWN]
    series = []
    for column in steady:
        places = [entry for entry in clinic.per_position(*column.runs, steady_only=True) if entry.judged]
        x, y = tuple(float(entry.place + 1) for entry in places), tuple(entry.conditional for entry in places)
        series.append(PlotSeries(data.name(column), x, y, is_line=True, badge=Badge.MEASURED))
    caption = "A token is judged when all before it in its round were accepted"
    title = "Accepted of what was judged, by place in the round"
    blocks: list[Block] = [doc.points_plot(title, series, "drafted token", "accepted", caption=caption)] * bool(series)
    rows = []
    for column in columns:
        found = counts(entry for run in column.runs for entry in first_rejections(run)).values()
        shares = (f"{count} ({fmt.share_text(count / sum(found))})" for count in found if sum(found))
        cells = [Cell(share, Badge.MEASURED) for share in shares]
        rows += [doc.row_of(data.name(column), fmt.count_cell(sum(found)), *cells)] if cells else []
    kinds = Table(("configuration", "first rejections", *KINDS), tuple(rows), "First rejections by kind")
    return [*blocks, Paragraph(KINDS_TEXT), kinds] if rows else blocks


def hidden_drafts(data: ReportData) -> list[Block]:
    """Of parallel prefill: its window, its contention and its net gain; a row and a sentence per configuration."""
    windows: dict[Configuration, list[ParallelPrefillFigures]] = {}
    for column in data.columns:
        if mode_of(column.runs[0].info.mode).is_parallel and not is_imported(column):
            known = by_sample(data.beside(column))
            found = (window_of(run, known.get(sample_key(run), ())) for run in column.runs)
            windows[column] = [window for window in found if window is not None]

    def cell(column: Configuration, name: str, badge: Badge = Badge.MEASURED) -> Cell:
        values = (getattr(window, name) for window in windows[column])
        summary = summarize([value for value in values if value is not None])
        return fmt.count_cell(summary, badge=badge) if name in ("drafted", "accepted") else fmt.ms_cell(summary, badge)

    def contention(column: Configuration) -> Cell:
        """Of repeats of one sample with its interval, of several samples their mean and spread."""
        known = list(dict.fromkeys(filter(None, (window.stage_contention for window in windows[column]))))
        if len(known) == 1 and (ends := fmt.interval_text(known[0].delta_interval, "ms")):
            return Cell(f"{fmt.number_text(known[0].delta)} {ends}", Badge.DERIVED)
        return fmt.ms_cell(summarize([verdict.delta for verdict in known]), Badge.DERIVED)

    table = data.table(
        [
            ("window, from prefill", partial(cell, name="prefill_ms")),
            ("window, from load", partial(cell, name="with_load_ms")),
            ("left for drafting", partial(cell, name="left_ms")),
            ("hidden drafted", partial(cell, name="drafted")),
            ("hidden accepted", partial(cell, name="accepted")),
            ("longer to the end of prefill", contention),
            ("verification", partial(cell, name="verify_ms")),
            ("predicted gain", partial(cell, name="predicted_gain_ms", badge=Badge.DERIVED)),
            ("saved an answer", lambda column: saved_cell(payoff_in(data, column))),
            ("runs against baseline", lambda column: runs_against(payoff_in(data, column))),
        ],
        "Means over runs. Gain = saved steps − verification − what preprocessing, vision and prefill take longer than "
        "in the baseline; of independent acceptances a one block gives a/(1−a) at most",
        windows,
    )
    sentences: list[Block] = []
    for column in windows:
        payoff = payoff_in(data, column)
        verdict = payoff_sentence(payoff) if payoff else "the target was not run alone on these samples."
        text = f"{data.name(column)}: {verdict} {hidden_counts(column.runs)}"
        sentences.append(Paragraph(text, badge=Badge.DERIVED))
    return [table, *sentences] if windows else []


def by_answer_length(data: ReportData) -> list[Block]:
    """Answers of several lengths, with the target alone and with drafts hidden in its prefill."""
    alone = {asked: column for column in data.columns if (asked := _asked(column, is_drafted=False)) is not None}
    drafted = [(asked, column) for column in data.columns if (asked := _asked(column, is_drafted=True)) is not None]
    pairs = sorted(
        ((asked[0], alone[asked], column) for asked, column in drafted if asked in alone), key=lambda row: row[0]
    )
    if len({length for length, *_ in pairs}) < 2:
        return []
    total = partial(total_ms, basis=END_TO_END)
    rows = []
    for length, plain, column in pairs:
        drafting, compared = column.runs[0].info.settings.speculation, compare(column, plain, total)
        sides = (fmt.ms_cell(summarize(values_of(side, total)), badge_of(side.runs)) for side in (plain, column))
        drafter = (drafting.adapter or drafting.drafter).rstrip("/").rpartition("/")[2]
        ratio, count = (
            fmt.verdict_cell(compared, lower_is_better=False),
            fmt.rows_cell(compared.count if compared else None),
        )
        runs = f"{len(plain.runs):,} and {len(column.runs):,}"
        rows.append(doc.row_of(str(length), drafter, *sides, ratio, count, runs))
    heads = ("tokens", "drafted by", "target alone", "drafts in its prefill", "alone / drafted", "n", "runs")
    caption = (
        "Totals end to end of the same tokens, past the end of sequence: means over samples ± standard deviation, "
        "ratio of means with its 95 % interval; above 1 is a gain"
    )
    return [Table(heads, tuple(rows), caption, text_columns=2)]


def _asked(column: Configuration, *, is_drafted: bool) -> tuple[int, object, str, str] | None:
    """Tokens, frames, model and dtype of a configuration that goes on to its limit; None of others."""
    info = column.runs[0].info
    settings, model, mode = info.settings, info.models.get(info.role), mode_of(info.mode)
    drafting = settings.speculation
    is_usual = (drafting.begins, drafting.verify, drafting.afterwards) == ("load", "after", "plain")
    is_kind = mode.is_parallel and is_usual if is_drafted else not mode.is_paired
    if not is_kind or model is None or info.role != TARGET or not settings.ignore_eos:
        return None
    return settings.max_new_tokens, settings.frames, model.name, model.dtype


def alignment(data: ReportData) -> list[Block]:
    """Cosine and CKA of both models' features by sample and space, and a plot of the cosine by position."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in data.noted_rows("feature_alignment"):
        if isinstance(row.get("sample"), str):
            groups.setdefault((row["sample"], str(row.get("space") or "")), []).append(row)
    derived = partial(fmt.number_cell, badge=Badge.DERIVED)
    rows, series = [], []
    for (sample, space), group in groups.items():
        known = [
            (number_in(row, "position"), value) for row in group if (value := number_in(row, "cosine")) is not None
        ]
        values = [value for _, value in known]
        ends = (fmean(values), min(values), max(values)) if values else (None, None, None)
        numbers = {name: [value for row in group if (value := number_in(row, name)) is not None] for name in FLOORS}
        floors = (next(iter(found), None) for found in numbers.values())
        tokens = (fmt.count_cell(number_in(group[0], name)) for name in ("draft_tokens", "target_tokens"))
        positions = fmt.rows_cell(len(values) or None)
        rows.append(doc.row_of(sample, space, *tokens, positions, *map(derived, (*ends, *floors))))
        if points := [(place, value) for place, value in known if place is not None]:
            x, y = zip(*points, strict=True)
            series.append(PlotSeries(f"{sample}, {space}" if space else sample, x, y, badge=Badge.DERIVED))
    models = dict.fromkeys(f"{row.get('draft')} and {row.get('target')}" for group in groups.values() for row in group)
    heads = (
        "sample",
        "space",
        "draft tokens",
        "target tokens",
        "positions",
        "cosine",
        "least",
        "largest",
        *FLOORS.values(),
    )
    table = Table(heads, tuple(rows), f"Visual features of {', '.join(models)}", text_columns=2)
    plot = doc.points_plot("Cosine by position", series, "position", "cosine")
    return [table, Paragraph(ALIGNMENT), *[plot] * bool(series)] if rows else []
