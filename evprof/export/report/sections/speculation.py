"""Section: acceptance by every definition, costs and gain, rejected drafts, drafts inside the prefill, and what if.

Figures of one body of work read 3 %, 4 %, 24 % and 35 % because their definitions differ: each stands with its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

from evprof.core.records import COVERS, DRAFT, TARGET
from evprof.core.units import TIMES
from evprof.core.vocabulary.modes import SPECULATIVE, mode_of
from evprof.export.report import figures as fmt
from evprof.export.report import parts as doc
from evprof.export.report.data import ReportData, badge_of, is_imported
from evprof.export.report.pairs import MOST_PAIRS, evidence_of, number_in, pairs_of, payoff_in
from evprof.export.report.parts import Badge, Block, Cell, Paragraph, PlotSeries, ReportPlot, Section, Table
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.claims.speculation import Speed, speeds
from evprof.metrics.comparison.differences import common_blocks, configuration_token_match, part_reader
from evprof.metrics.configurations.gathering import Configuration, by_sample, sample_key
from evprof.metrics.estimates.paired import compare, mean_of, values_of
from evprof.metrics.figures.stages import END_TO_END, total_ms, unattributed_ms
from evprof.metrics.speculation import break_even
from evprof.metrics.speculation.clinic import SHARE, definitions_over, per_position, round_histogram
from evprof.metrics.speculation.failure_modes import KINDS, counts, first_rejections
from evprof.metrics.speculation.outcome import acceptance_of_all, distinct_answers, round_count
from evprof.metrics.speculation.parallel_prefill import window_of
from evprof.metrics.speculation.payoff import DECODE, Payoff, Prediction, pace_of, prediction_over, step_ms_of
from evprof.metrics.speculation.verdicts import detail, payoff_sentence

MOST_DRAWN = 4
"""Configurations in one plot."""

COSTS = (
    "S = tau / (gamma·c + v): tau tokens a round gives, c a drafted token and v the rest of a round in plain steps of "
    "the target, all measured. Break-even is the acceptance at which the whole answer, the draft's own stages "
    "included, takes as long as the target alone; where none is given, speculation cannot pay at any acceptance."
)

KINDS_TEXT = (
    "A round ends at its first rejected token. Shifted: the draft's token comes a few places later in the target's "
    "text, or the target's in the draft's. Surface: the same letters and digits. Content: another word."
)

FLOORS = {"mean_cosine_elsewhere": "cosine elsewhere", "cka": "CKA", "cka_shuffled": "CKA, shuffled"}
"""Figures of a sample by title; values of unrelated features beside the others."""

ALIGNMENT = (
    "Cosine: of the two models' features at one place of the picture; it needs equal widths. CKA (arXiv 1905.00414): "
    "of all places together, 1 where one is a rotation and scaling of the other. Beside each stands its value of "
    "unrelated features: at other places, and with one model's places in random order."
)

FACTORS = (2.0, 4.0, math.inf)
"""Assumed speeds of a stage; infinity is a stage without cost."""

ASSUMED_RATES = (0.5, 0.8, 0.95)
"""Assumed acceptance; document 002 expects 80 % of its adapter."""


def section(data: ReportData) -> Section:
    """Everything that these runs measured of speculation, and what their paces predict."""
    blocks = [
        *doc.headed("Acceptance", acceptance(data)),
        *doc.headed("Costs, gain and break-even", costs(data)),
        *doc.headed("Why drafts fail", failures(data)),
        *doc.headed("Drafts inside the prefill", hidden_drafts(data)),
        *doc.headed("Totals by length of the answer", by_answer_length(data)),
        *doc.headed("Alignment of visual features", alignment(data)),
        *doc.headed("What if", what_if(data)),
    ]
    missing = (
        "No run speculated and no two configurations answered the same samples with token ids; run the suite "
        "speculation."
    )
    return doc.section_of("Speculation", blocks, missing)


class Rate(NamedTuple):
    """One acceptance figure: its name, its definition, and the two counts (None: unknown)."""

    configuration: str
    name: str
    definition: str
    numerator: float | None
    denominator: float | None
    value: float
    badge: Badge
    is_share: bool = True

    def count_cells(self) -> tuple[Cell, ...]:
        """Both counts."""
        found = (self.numerator, self.denominator)
        return tuple(doc.not_available() if one is None else Cell(fmt.count_text(one), self.badge) for one in found)

    def value_cell(self) -> Cell:
        badge = Badge.IMPORTED if self.badge is Badge.IMPORTED else Badge.DERIVED
        return fmt.share_cell(self.value, badge) if self.is_share else Cell(fmt.number_text(self.value), badge)


def acceptance(data: ReportData) -> list[Block]:
    """Every definition in a table, and a warning where several are in use."""
    rates = [rate for column in data.columns for rate in (*_counted(data, column), *_of_file(data, column))]
    rates += _matches(data)
    if not rates:
        return []
    rows = [
        doc.row_of(one.configuration, one.name, one.definition, *one.count_cells(), one.value_cell()) for one in rates
    ]
    heads = ("configuration", "figure", "definition", "numerator", "denominator", "value")
    caption = "Counts over the distinct answers of a configuration: repeats count once, long answers weigh more"
    blocks: list[Block] = [Table(heads, tuple(rows), caption, text_columns=3)]
    kinds = dict.fromkeys(rate.name for rate in rates if rate.is_share)
    if len(kinds) > 1:
        text = (
            f"{len(kinds)} different shares are called acceptance above ({', '.join(kinds)}). They divide different "
            "counts and must not be compared with each other."
        )
        blocks.append(Paragraph(text, "warn"))
    return blocks


def _counted(data: ReportData, column: Configuration) -> Iterator[Rate]:
    name, badge = data.name(column), badge_of(column.runs)
    for one in definitions_over([(run, None) for run in distinct_answers(column.runs) if round_count(run)]):
        if one.value is not None:
            text = f"{one.formula}; {one.note}" if one.note else one.formula
            yield Rate(name, one.name, text, one.numerator, one.denominator, one.value, badge, one.unit == SHARE)


def _of_file(data: ReportData, column: Configuration) -> Iterator[Rate]:
    """What an imported file counts or calls acceptance, with its importer's finding."""
    figures = [run.info.imported.figures for run in column.runs if run.info.imported is not None]
    keys = ("accepted_tokens", "drafted_tokens")
    accepted, drafted = (sum(one[key] for one in figures if {*keys} <= one.keys()) for key in keys)
    name = data.name(column)
    if drafted:
        text = "accepted / drafted by the file's counts; of what was drafted at all, not of the answer"
        yield Rate(name, "draft acceptance rate", text, accepted, drafted, accepted / drafted, Badge.IMPORTED)
    rates = [one["published_acceptance_rate"] for one in figures if "published_acceptance_rate" in one]
    if rates:
        problems = (entry.get("problems") for entry in data.noted_rows("imports"))
        sentences = [text for known in problems if isinstance(known, list) for text in known if isinstance(text, str)]
        text = next((one for one in sentences if "acceptance_rate is" in one), "the file does not say what it divides")
        text = f"{text.rstrip('.')}; mean over {len(rates):,} rows"
        yield Rate(name, "the file's acceptance_rate", text, None, None, fmean(rates), Badge.IMPORTED)


def _matches(data: ReportData) -> Iterator[Rate]:
    """How far two plain answers agree position by position, which has been called naive acceptance."""
    for pair in pairs_of(data):
        if any(mode_of(side.runs[0].info.mode).is_paired for side in pair.sides):
            continue
        match = configuration_token_match(pair.base, pair.other)
        if match["rate"] is not None:
            text = f"{match['definition']} of two plain answers, over the shorter one's length; nothing was drafted"
            names, badge = " and ".join(map(data.name, pair.sides)), badge_of(pair.runs, Badge.DERIVED)
            yield Rate(names, "position-wise match", text, match["matched"], match["compared"], match["rate"], badge)


Weighed = tuple[Configuration, Payoff, Prediction | None]
"""A configuration that speculates in rounds: measured against the target alone, and by formula."""


def costs(data: ReportData) -> list[Block]:
    """Costs, predicted and measured speed, break-even, and a sentence for every configuration that drafts."""
    weighed: list[Weighed] = []
    sentences = []
    for column in data.columns:
        info = column.runs[0].info
        payoff = payoff_in(data, column) if mode_of(info.mode).drafts and info.imported is None else None
        if payoff is None:
            continue
        sentences.append(f"{data.name(column)}: {payoff_sentence(payoff)} {detail(payoff)}".rstrip())
        if info.mode == SPECULATIVE:
            step = step_ms_of(payoff.baseline)
            weighed.append((column, payoff, None if step is None else prediction_over(payoff.runs, step)))
    blocks: list[Block] = [Paragraph(COSTS), _costs_table(weighed, data)] if weighed else []
    blocks += [_curve(weighed[:MOST_DRAWN], data)] if any(formula for *_, formula in weighed) else []
    blocks += [Paragraph(sentence, badge=Badge.DERIVED) for sentence in sentences]
    return [*blocks, *_file_speed(data)]


def _costs_table(weighed: list[Weighed], data: ReportData) -> Table:
    def of(
        read: Callable[[Prediction], float | None], cell: Callable[[float | None], Cell]
    ) -> Callable[[Weighed], Cell]:
        return lambda one: cell(read(one[2])) if one[2] else doc.not_available()

    derived = partial(fmt.number_cell, badge=Badge.DERIVED)
    return doc.table_of(
        weighed,
        [
            ("configuration", lambda one: data.name(one[0])),
            ("γ drafted", of(lambda formula: formula.mean_gamma, derived)),
            ("tokens a round", of(lambda formula: formula.tau, derived)),
            ("c, a drafted token", of(lambda formula: formula.c, fmt.ratio_cell)),
            ("v, rest of a round", of(lambda formula: formula.v, fmt.ratio_cell)),
            ("α accepted of judged", of(lambda formula: formula.alpha, fmt.share_cell)),
            ("decoding, measured", lambda one: speed_cell(one[1], DECODE)),
            ("whole answer, measured", lambda one: speed_cell(one[1], END_TO_END)),
            ("break-even, accepted of drafted", of(lambda formula: formula.break_even_rate, fmt.share_cell)),
            ("saved an answer", lambda one: saved_cell(one[1])),
            ("runs against plain", lambda one: runs_against(one[1])),
        ],
        "Speed against the target alone on the same samples, prompt and settings; above 1.00× speculation is faster",
    )


def speed_cell(payoff: Payoff, basis: str) -> Cell:
    """The measured speed on a basis, with its interval."""
    return fmt.verdict_cell(payoff.measured.get(basis), lower_is_better=False)


def saved_cell(payoff: Payoff | None) -> Cell:
    """The time that speculation saves per answer, in ms, with its interval; negative where it costs time."""
    saved = payoff.saved if payoff else None
    if saved is None:
        return fmt.ms_cell(None)
    ends = f" {fmt.interval_text(saved.delta_interval, 'ms')}" if saved.delta_interval else " ms"
    return Cell(f"{fmt.number_text(saved.delta)}{ends}", Badge.DERIVED)


def runs_against(payoff: Payoff | None) -> Cell:
    """The number of speculative runs, and their baseline."""
    return Cell(f"{len(payoff.runs)} against {payoff.baseline.words}") if payoff else doc.not_available()


def _curve(weighed: list[Weighed], data: ReportData) -> ReportPlot:
    series = []
    for column, payoff, formula in weighed:
        if formula is None:
            continue
        name = data.name(column)
        points = break_even.curve(formula.costs, formula.by_place if formula.alpha is None else formula.alpha)
        x, y = tuple(float(point.gamma) for point in points), tuple(point.speedup for point in points)
        series.append(PlotSeries(f"{name}, predicted", x, y, is_line=True, badge=Badge.DERIVED))
        if decode := payoff.measured.get(DECODE):
            low, high = decode.interval or (None, None)
            x, y = (formula.mean_gamma,), (decode.ratio or 0.0,)
            series.append(PlotSeries(f"{name}, measured", x, y, low=(low,), high=(high,), badge=Badge.MEASURED))
    gammas = (float(break_even.GAMMAS[0]), float(break_even.GAMMAS[-1]))
    series.append(PlotSeries("no gain", gammas, (1.0, 1.0), is_line=True, badge=Badge.THEORETICAL))
    caption = "Predicted from measured costs and the acceptance per token; measured with its 95 % interval"
    title = "Decoding speed against the target alone"
    return doc.points_plot(title, series, "drafted tokens a round", "times as fast", caption=caption)


def _file_speed(data: ReportData) -> list[Block]:
    """Imported speculation against the target alone on the same questions, beside the file's own figure."""

    def of_file(speed: Speed) -> Cell:
        figures = [run.info.imported.figures for run in speed.column.runs if run.info.imported is not None]
        known = [one["published_speedup"] for one in figures if "published_speedup" in one]
        return fmt.ratio_cell(fmean(known) if known else None, badge=Badge.IMPORTED)

    rows = list(speeds(evidence_of(data), imported_only=True))
    if not rows:
        return []
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
    return [table]


def failures(data: ReportData) -> list[Block]:
    """A plot of acceptance by place, and the first rejections by kind."""
    columns = [column for column in data.columns if any(map(round_count, column.runs))]
    # Blocks drafted inside a prefill are of another length.
    steady = [column for column in columns if round_histogram(*column.runs, steady_only=True)][:MOST_DRAWN]
    series = []
    for column in steady:
        places = [entry for entry in per_position(*column.runs, steady_only=True) if entry.judged]
        x, y = tuple(float(entry.place + 1) for entry in places), tuple(entry.conditional for entry in places)
        series.append(PlotSeries(data.name(column), x, y, is_line=True, badge=Badge.MEASURED))
    caption = "A token is judged when all before it in its round were accepted"
    title = "Accepted of what was judged, by place in the round"
    plot = doc.points_plot(title, series, "drafted token", "accepted", caption=caption)
    rows = []
    for column in columns:
        found = counts(entry for run in column.runs for entry in first_rejections(run))
        whole = sum(found.values())
        cells = [
            Cell(f"{count} ({fmt.share_text(count / whole)})" if whole else "0", Badge.MEASURED)
            for count in found.values()
        ]
        rows += [doc.row_of(data.name(column), fmt.count_cell(whole), *cells)] if whole else []
    kinds = Table(("configuration", "first rejections", *KINDS), tuple(rows), "First rejections by kind")
    blocks: list[Block] = [plot] if series else []
    return [*blocks, Paragraph(KINDS_TEXT), kinds] if rows else blocks


def hidden_drafts(data: ReportData) -> list[Block]:
    """Of parallel prefill: its window, its contention and its net gain; a row and a sentence per configuration."""
    shown = [
        column for column in data.columns if mode_of(column.runs[0].info.mode).is_parallel and not is_imported(column)
    ]
    if not shown:
        return []
    windows = {}
    for column in shown:
        known = by_sample(data.beside(column))
        windows[id(column)] = [window_of(run, known.get(sample_key(run), ())) for run in column.runs]

    def cell(column: Configuration, name: str, badge: Badge = Badge.MEASURED) -> Cell:
        found = (getattr(window, name) for window in windows[id(column)] if window is not None)
        summary = summarize([value for value in found if value is not None])
        return fmt.count_cell(summary, badge=badge) if name in ("drafted", "accepted") else fmt.ms_cell(summary, badge)

    table = data.table(
        [
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
        ],
        "Means over runs. Gain = saved steps − verification − contention, by which the target's own stages take longer "
        "beside the draft; of independent acceptances a one block gives a/(1−a) at most",
        shown,
    )
    return [table, *(Paragraph(_hidden_sentence(data, column), badge=Badge.DERIVED) for column in shown)]


def _hidden_sentence(data: ReportData, column: Configuration) -> str:
    distinct, payoff = distinct_answers(column.runs), payoff_in(data, column)
    counts = acceptance_of_all(distinct)
    drafted, accepted = counts.hidden_drafted, counts.hidden_accepted
    verdict = payoff_sentence(payoff) if payoff else "the target was not run alone on these samples."
    head = f"{data.name(column)}: {verdict}"
    if not drafted:
        return f"{head} Nothing was drafted inside the prefill."
    answers = "1 answer" if len(distinct) == 1 else f"{len(distinct):,} different answers"
    share = fmt.share_text(accepted / drafted)
    return f"{head} In {answers}, {accepted:,} of {drafted:,} hidden tokens were accepted ({share})."


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
        rows.append(
            doc.row_of(
                str(length),
                (drafting.adapter or drafting.drafter).rstrip("/").rpartition("/")[2],
                *(fmt.ms_cell(summarize(values_of(side, total)), badge_of(side.runs)) for side in (plain, column)),
                fmt.verdict_cell(compared, lower_is_better=False if compared and compared.interval else None),
                fmt.rows_cell(compared.count if compared else None),
                f"{len(plain.runs):,} and {len(column.runs):,}",
            )
        )
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
        floors = (next((one for row in group if (one := number_in(row, name)) is not None), None) for name in FLOORS)
        rows.append(
            doc.row_of(
                sample,
                space,
                *(fmt.count_cell(number_in(group[0], name)) for name in ("draft_tokens", "target_tokens")),
                derived(fmean(values) if values else None, note=f"n = {len(values):,} positions" if values else ""),
                *(derived(end(values, default=None)) for end in (min, max)),
                *map(derived, floors),
            )
        )
        points = [(place, value) for place, value in known if place is not None]
        if points:
            x, y = zip(*points, strict=True)
            series.append(PlotSeries(f"{sample}, {space}" if space else sample, x, y, badge=Badge.DERIVED))
    if not rows:
        return []
    models = dict.fromkeys(f"{row.get('draft')} and {row.get('target')}" for group in groups.values() for row in group)
    heads = ("sample", "space", "draft tokens", "target tokens", "mean cosine", "least", "largest", *FLOORS.values())
    caption = f"Visual features of {', '.join(models)}"
    plot = doc.points_plot("Cosine by position", series, "position", "cosine")
    table = Table(heads, tuple(rows), caption, text_columns=2)
    return [table, Paragraph(ALIGNMENT), *([plot] if series else [])]


def what_if(data: ReportData) -> list[Block]:
    """Amdahl's law for every stage, and expected totals by output length with hidden drafts."""
    pairs = pairs_of(data)
    columns = list({id(side): side for pair in pairs for side in pair.sides}.values()) or list(data.columns)
    blocks: list[Block] = [table for column in columns[:MOST_PAIRS] if (table := _amdahl(column, data)) is not None]
    for pair in pairs:
        paces = pace_of(pair.base), pace_of(pair.other)
        roles = [column.runs[0].info.role for column in pair.sides]
        if roles == [DRAFT, TARGET] and paces[0] is not None and paces[1] is not None:
            return [*blocks, *_expected(paces[0], paces[1], data.name(pair.other))]
    return blocks


def _amdahl(column: Configuration, data: ReportData) -> Table | None:
    spent = {COVERS.join(block): mean_of(column, part_reader(block)) for block in common_blocks([column])}
    parts = {name: value for name, value in spent.items() if value is not None}
    whole = sum(parts.values()) + (mean_of(column, unattributed_ms) or 0.0)
    # Of a file that ends before it begins, parts and rest can add up to nothing.
    if len(parts) < 2 or not sum(parts.values()) or whole <= 0:
        return None
    rows = []
    for name, value in parts.items():
        saved = [value * (1 - 1 / factor) for factor in FACTORS]
        cells = [
            Cell(f"{fmt.share_text(one / whole)} (to {fmt.number_text(whole - one)} ms)", Badge.DERIVED)
            for one in saved
        ]
        rows.append(doc.row_of(name, fmt.ms_cell(value, badge_of(column.runs)), fmt.share_cell(value / whole), *cells))
    heads = (f"saves at {'∞' if math.isinf(factor) else f'{factor:g}{TIMES}'}" for factor in FACTORS)
    caption = (
        f"{data.name(column)}: saved of the measured {fmt.number_text(whole)} ms when one stage alone gets faster; ∞ "
        "is a stage without cost"
    )
    return Table(("stage", "now", "share", *heads), tuple(rows), caption)


def _expected(draft: break_even.AnswerPace, target: break_even.AnswerPace, name: str) -> list[Block]:
    def hidden(tokens: int, rate: float) -> Cell:
        found = break_even.parallel_prefill(target, draft, tokens, rate)
        note = f"{fmt.number_text(found.accepted)} of {found.free} free tokens accepted"
        return Cell(f"{fmt.number_text(found.total_ms)} ms ({fmt.ratio_text(found.speedup)})", Badge.DERIVED, note=note)

    table = doc.table_of(
        break_even.OUTPUT_LENGTHS,
        [
            ("tokens", lambda tokens: fmt.count_cell(tokens, badge=Badge.THEORETICAL)),
            (f"{name} alone", lambda tokens: fmt.ms_cell(target.total_ms(tokens), Badge.DERIVED)),
            *((f"a = {fmt.share_text(rate)}", partial(hidden, rate=rate)) for rate in ASSUMED_RATES),
        ],
        "Expected totals by output length with one block drafted while the target prefills, on a device of its own; "
        "a is the assumed acceptance of every token",
    )
    free = break_even.free_tokens(target.prefix_ms, draft)
    text = (
        f"While the target prefills ({fmt.number_text(target.prefix_ms)} ms, from its own start), a draft on a second "
        f"device without contention gives {free} tokens; it needs {fmt.number_text(draft.prefix_ms)} ms until its "
        "first."
    )
    return [table, Paragraph(text, badge=Badge.DERIVED)]
