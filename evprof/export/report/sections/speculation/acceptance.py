"""Section: every acceptance figure with its definition, numerator and denominator; predicted against measured speed.

Figures of one body of work read 3 %, 4 %, 24 % and 35 % because their definitions differ: none stands alone here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from evprof.core.vocabulary.modes import SPECULATIVE, mode_of
from evprof.export.report.data import ReportData
from evprof.export.report.figures import (
    count_text,
    number_text,
    ratio_cell,
    share_cell,
)
from evprof.export.report.parts import Badge, Block, Cell, Paragraph, Section, Table, not_available
from evprof.export.report.sections.evidence import badge_of, evidence_of, names_of, pairs_of, saved_cell
from evprof.metrics.claims.speculation import speeds
from evprof.metrics.comparison.document import configuration_token_match
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.speculation.clinic import SHARE, definitions_over
from evprof.metrics.speculation.cross_prediction import predict_across
from evprof.metrics.speculation.outcome import distinct_answers
from evprof.metrics.speculation.payoff import DECODE, Payoff, payoff_over, prediction_over, step_ms_of
from evprof.metrics.speculation.verdicts import detail, payoff_sentence

TITLE = "Acceptance and what speculation brings"


@dataclass(frozen=True)
class Rate:
    """One acceptance figure: what it is called, what it divides by what, and the two counts (None: not told)."""

    configuration: str
    name: str
    definition: str
    numerator: float | None
    denominator: float | None
    value: float
    badge: Badge
    is_share: bool = True


def section(data: ReportData) -> Section:
    """The definitions in a table, a warning where several are in use, and predicted against measured speed."""
    names = names_of(data)
    definitions = _definitions(data)
    rates = [rate for column in data.columns for rate in _rates(column, names[id(column)], definitions)]
    rates += list(_matches(data, names))
    if not rates:
        return Section(
            TITLE,
            missing="No run speculated and no two configurations answered the same samples with token ids; run the "
            "suite speculation.",
        )
    blocks: list[Block] = [_table(rates)]
    kinds = dict.fromkeys(rate.name for rate in rates if rate.is_share)
    if len(kinds) > 1:
        blocks.append(
            Paragraph(
                f"{len(kinds)} different shares are called acceptance above ({', '.join(kinds)}). They divide "
                "different counts and must not be compared with each other.",
                tone="warn",
            )
        )
    speed = _speed(data, names)
    files = _file_speed(data, names)
    if speed or files:
        blocks += [*speed, *files]
    else:
        blocks.append(
            Paragraph("Predicted and measured speed need speculation and the target alone on the same samples.")
        )
    return Section(TITLE, tuple(blocks))


def _rates(column: Configuration, name: str, definitions: list[str]) -> Iterator[Rate]:
    yield from _counted(column, name)
    yield from _told_by_file(column, name, definitions)


def _told_by_file(column: Configuration, name: str, definitions: list[str]) -> Iterator[Rate]:
    """What imported files count or call acceptance, with what their importer found that to be."""
    figures = [run.info.imported.figures for run in column.runs if run.info.imported is not None]
    counts = [(told["accepted_tokens"], told["drafted_tokens"]) for told in figures if {*_COUNTS} <= told.keys()]
    accepted, drafted = sum(pair[0] for pair in counts), sum(pair[1] for pair in counts)
    if drafted:
        definition = "accepted / drafted by the file's counts; of what was drafted at all, not of the answer"
        yield Rate(name, "draft acceptance rate", definition, accepted, drafted, accepted / drafted, Badge.IMPORTED)
    rates = [told[_FILES_RATE] for told in figures if _FILES_RATE in told]
    if rates:
        definition = next((text for text in definitions if "acceptance_rate is" in text), "the file does not say what")
        words = f"{definition.rstrip('.')}; mean over {len(rates)} rows"
        yield Rate(name, "the file's acceptance_rate", words, None, None, fmean(rates), Badge.IMPORTED)


_COUNTS = ("accepted_tokens", "drafted_tokens")
_FILES_RATE = "published_acceptance_rate"


def _definitions(data: ReportData) -> list[str]:
    """What importing found wrong with files, sentence by sentence."""
    found = []
    for entries in data.facts("imports"):
        for entry in entries if isinstance(entries, list) else ():
            problems = entry.get("problems") if isinstance(entry, dict) else None
            found += [text for text in problems if isinstance(text, str)] if isinstance(problems, list) else []
    return found


def _counted(column: Configuration, name: str) -> Iterator[Rate]:
    """Every definition, its counts summed over the distinct answers of a configuration: long answers weigh more."""
    badge = badge_of(column.runs)
    for entry in definitions_over([(run, None) for run in distinct_answers(column.runs) if run.rounds]):
        if entry.value is not None:
            words = f"{entry.formula}; {entry.note}" if entry.note else entry.formula
            is_share = entry.unit == SHARE
            yield Rate(name, entry.name, words, entry.numerator, entry.denominator, entry.value, badge, is_share)


def _matches(data: ReportData, names: dict[int, str]) -> Iterator[Rate]:
    """How far two plain answers agree place by place: an upper hand on nothing, but what "naive acceptance" was."""
    for pair in pairs_of(data):
        if any(mode_of(side.runs[0].info.mode).is_paired for side in (pair.base, pair.other)):
            continue
        found = configuration_token_match(pair.base, pair.other)
        if found["rate"] is not None:
            yield Rate(
                f"{names[id(pair.base)]} and {names[id(pair.other)]}",
                "position-wise match",
                f"{found['definition']} of two plain answers, over the shorter one's length; nothing was drafted",
                found["matched"],
                found["compared"],
                found["rate"],
                badge_of((*pair.base.runs, *pair.other.runs), Badge.DERIVED),
            )


def _table(rates: list[Rate]) -> Table:
    rows = tuple(
        (
            Cell(rate.configuration),
            Cell(rate.name),
            Cell(rate.definition),
            not_available() if rate.numerator is None else Cell(count_text(rate.numerator), rate.badge),
            not_available() if rate.denominator is None else Cell(count_text(rate.denominator), rate.badge),
            share_cell(rate.value, _of(rate)) if rate.is_share else Cell(number_text(rate.value), _of(rate)),
        )
        for rate in rates
    )
    heads = ("configuration", "figure", "definition", "numerator", "denominator", "value")
    return Table(
        heads,
        rows,
        caption="Counts are summed over the distinct answers of a configuration: repeats of one answer count once, and "
        "long answers weigh more",
        text_columns=3,
    )


def _of(rate: Rate) -> Badge:
    return Badge.IMPORTED if rate.badge is Badge.IMPORTED else Badge.DERIVED


def _speed(data: ReportData, names: dict[int, str]) -> list[Block]:
    rows, sentences = [], []
    for column in data.columns:
        info = column.runs[0].info
        if not mode_of(info.mode).drafts or info.imported is not None:
            continue
        payoff = payoff_over(column.runs, data.beside(column), data.processes)
        if payoff is None:
            continue
        if info.mode == SPECULATIVE:
            rows.append(_speed_row(names[id(column)], payoff))
        sentences.append(f"{names[id(column)]}: {payoff_sentence(payoff)} {detail(payoff)}".rstrip())
    if not sentences:
        return []
    heads = (
        "configuration",
        "γ drafted",
        "tokens a round",
        "draft / target step",
        "rest of a round / target step",
        "decoding, predicted from other samples",
        "decoding, measured",
        "predicted / measured",
        "saved an answer",
        "runs against plain",
    )
    table = [Table(heads, tuple(rows), caption=_SPEED_CAPTION)] if rows else []
    return [*table, *(Paragraph(sentence, badge=Badge.DERIVED) for sentence in sentences)]


_SPEED_CAPTION = (
    "Against the target alone on the same samples, prompt and settings: S = tokens a round / (γ · c + v); 1.00x is no "
    "gain. A prediction takes costs and acceptance from the other half of the samples, and is n/a with one sample"
)


def _file_speed(data: ReportData, names: dict[int, str]) -> list[Block]:
    """Imported speculation against the target alone on the same questions, beside what its file says."""
    rows = []
    for found in speeds(evidence_of(data), imported_only=True):
        told = [
            run.info.imported.figures["published_speedup"]
            for run in found.column.runs
            if run.info.imported is not None and "published_speedup" in run.info.imported.figures
        ]
        rows.append(
            (
                Cell(names[id(found.column)]),
                Cell(", ".join(names[id(column)] for column in found.bases(data.columns))),
                ratio_cell(found.ratio, found.interval, lower_is_better=False),
                ratio_cell(fmean(told) if told else None, badge=Badge.IMPORTED),
                Cell(str(len(found.column.runs))),
            )
        )
    if not rows:
        return []
    heads = ("configuration", "against", "speed, totals in pairs", "mean speedup as the file says", "runs")
    caption = "Speculation in imported files: how many times as fast the whole answer is; above 1.00x it pays"
    return [Table(heads, tuple(rows), caption=caption, text_columns=2)]


def _speed_row(name: str, payoff: Payoff) -> tuple[Cell, ...]:
    step = step_ms_of(payoff.baseline)
    found = None if step is None else prediction_over(payoff.runs, step)
    across = predict_across(payoff.runs, payoff.baseline.runs)
    decode = payoff.of(DECODE)
    return (
        Cell(name),
        Cell(number_text(found.mean_gamma), Badge.DERIVED) if found else not_available(),
        Cell(number_text(found.tau), Badge.DERIVED) if found else not_available(),
        ratio_cell(found.c if found else None),
        ratio_cell(found.v if found else None),
        ratio_cell(across.predicted) if across else not_available("(one sample)"),
        ratio_cell(decode.speedup, decode.interval, lower_is_better=False) if decode else not_available(),
        ratio_cell(across.ratio) if across else not_available("(one sample)"),
        saved_cell(payoff),
        Cell(f"{len(payoff.runs)} against {payoff.baseline.words}"),
    )
