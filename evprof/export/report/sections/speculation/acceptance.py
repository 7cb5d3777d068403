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
from evprof.export.report.parts import Badge, Block, Cell, ColumnsOf, Paragraph, Section, Table, not_available, table_of
from evprof.export.report.sections.evidence import (
    badge_of,
    evidence_of,
    measured_cell,
    names_of,
    pairs_of,
    payoff_in,
    runs_against,
    saved_cell,
)
from evprof.metrics.claims.speculation import Speed, speeds
from evprof.metrics.comparison.document import configuration_token_match
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.speculation.clinic import SHARE, definitions_over
from evprof.metrics.speculation.cross_prediction import CrossPrediction, predict_across
from evprof.metrics.speculation.outcome import distinct_answers, round_count
from evprof.metrics.speculation.payoff import DECODE, Payoff, Prediction, prediction_over, step_ms_of
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
        words = f"{definition.rstrip('.')}; mean over {len(rates):,} rows"
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
    for entry in definitions_over([(run, None) for run in distinct_answers(column.runs) if round_count(run)]):
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
    columns: ColumnsOf[Rate] = [
        ("configuration", lambda rate: rate.configuration),
        ("figure", lambda rate: rate.name),
        ("definition", lambda rate: rate.definition),
        ("numerator", lambda rate: _count(rate.numerator, rate)),
        ("denominator", lambda rate: _count(rate.denominator, rate)),
        (
            "value",
            lambda rate: (
                share_cell(rate.value, _of(rate)) if rate.is_share else Cell(number_text(rate.value), _of(rate))
            ),
        ),
    ]
    caption = (
        "Counts are summed over the distinct answers of a configuration: repeats of one answer count once, and long "
        "answers weigh more"
    )
    return table_of(rates, columns, caption, text_columns=3)


def _count(count: float | None, rate: Rate) -> Cell:
    return not_available() if count is None else Cell(count_text(count), rate.badge)


def _of(rate: Rate) -> Badge:
    return Badge.IMPORTED if rate.badge is Badge.IMPORTED else Badge.DERIVED


def _speed(data: ReportData, names: dict[int, str]) -> list[Block]:
    rounds: list[tuple[Configuration, Payoff]] = []
    sentences = []
    for column in data.columns:
        info = column.runs[0].info
        if not mode_of(info.mode).drafts or info.imported is not None:
            continue
        payoff = payoff_in(data, column)
        if payoff is None:
            continue
        if info.mode == SPECULATIVE:
            rounds.append((column, payoff))
        sentences.append(f"{names[id(column)]}: {payoff_sentence(payoff)} {detail(payoff)}".rstrip())
    table = [_speeds(rounds, names)] if rounds else []
    return [*table, *(Paragraph(sentence, badge=Badge.DERIVED) for sentence in sentences)]


_SPEED_CAPTION = (
    "Against the target alone on the same samples, prompt and settings: S = tokens a round / (γ · c + v); 1.00× is no "
    "gain. A prediction takes costs and acceptance from the other half of the samples, and is n/a with one sample"
)


def _file_speed(data: ReportData, names: dict[int, str]) -> list[Block]:
    """Imported speculation against the target alone on the same questions, beside what its file says."""
    columns: ColumnsOf[Speed] = [
        ("configuration", lambda found: names[id(found.column)]),
        ("against", lambda found: ", ".join(names[id(column)] for column in found.bases(data.columns))),
        ("speed, totals in pairs", lambda found: ratio_cell(found.ratio, found.interval, lower_is_better=False)),
        ("mean speedup as the file says", lambda found: ratio_cell(_told_speed(found.column), badge=Badge.IMPORTED)),
        ("runs", lambda found: str(len(found.column.runs))),
    ]
    listed = list(speeds(evidence_of(data), imported_only=True))
    caption = "Speculation in imported files: how many times as fast the whole answer is; above 1.00× it pays"
    return [table_of(listed, columns, caption, text_columns=2)] if listed else []


def _told_speed(column: Configuration) -> float | None:
    figures = [run.info.imported.figures for run in column.runs if run.info.imported is not None]
    told = [each["published_speedup"] for each in figures if "published_speedup" in each]
    return fmean(told) if told else None


def _speeds(rounds: list[tuple[Configuration, Payoff]], names: dict[int, str]) -> Table:
    rows = []
    for column, payoff in rounds:
        step = step_ms_of(payoff.baseline)
        found = None if step is None else prediction_over(payoff.runs, step)
        rows.append((names[id(column)], payoff, found, predict_across(payoff.runs, payoff.baseline.runs)))
    one_sample = not_available("(one sample)")
    columns: ColumnsOf[tuple[str, Payoff, Prediction | None, CrossPrediction | None]] = [
        ("configuration", lambda row: row[0]),
        ("γ drafted", lambda row: _derived(row[2].mean_gamma) if row[2] else not_available()),
        ("tokens a round", lambda row: _derived(row[2].tau) if row[2] else not_available()),
        ("draft / target step", lambda row: ratio_cell(row[2].c if row[2] else None)),
        ("rest of a round / target step", lambda row: ratio_cell(row[2].v if row[2] else None)),
        (
            "decoding, predicted from other samples",
            lambda row: ratio_cell(row[3].predicted) if row[3] else one_sample,
        ),
        ("decoding, measured", lambda row: measured_cell(row[1].of(DECODE))),
        ("predicted / measured", lambda row: ratio_cell(row[3].ratio) if row[3] else one_sample),
        ("saved an answer", lambda row: saved_cell(row[1])),
        ("runs against plain", lambda row: runs_against(row[1])),
    ]
    return table_of(rows, columns, _SPEED_CAPTION)


def _derived(value: float) -> Cell:
    return Cell(number_text(value), Badge.DERIVED)
