"""Section: every acceptance figure with its definition, numerator and denominator; predicted against measured speed.

Figures of one body of work read 3 %, 4 %, 24 % and 35 % because their definitions differ: none stands alone here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from evprof.core.run_log import RunLog
from evprof.core.speculation import PAIRED_MODES, SPECULATIVE_MODES
from evprof.export.report.data import ReportData
from evprof.export.report.figures import (
    count_cell,
    count_text,
    ms_cell,
    number_text,
    ratio_cell,
    share_cell,
    share_text,
)
from evprof.export.report.parts import Badge, Block, Cell, Paragraph, Section, Table, not_available
from evprof.export.report.sections.evidence import badge_of, evidence_of, names_of, pairs_of
from evprof.metrics.claims.speculation import speeds
from evprof.metrics.clinic import SHARE, definitions_over
from evprof.metrics.comparison import column_token_match
from evprof.metrics.configurations import Column, by_sample, sample_key
from evprof.metrics.speculation import Verdict, plain_step_ms, verdict
from evprof.metrics.statistics import mean_interval, summarize

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


def _rates(column: Column, name: str, definitions: list[str]) -> Iterator[Rate]:
    yield from _counted(column, name)
    yield from _told_by_file(column, name, definitions)


def _told_by_file(column: Column, name: str, definitions: list[str]) -> Iterator[Rate]:
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


def _counted(column: Column, name: str) -> Iterator[Rate]:
    """Every definition, its counts summed over all runs of a configuration: long answers weigh more."""
    badge = badge_of(column.runs)
    for entry in definitions_over([(run, None) for run in column.runs if run.rounds]):
        if entry.value is not None:
            words = f"{entry.formula}; {entry.note}" if entry.note else entry.formula
            is_share = entry.unit == SHARE
            yield Rate(name, entry.name, words, entry.numerator, entry.denominator, entry.value, badge, is_share)


def _matches(data: ReportData, names: dict[int, str]) -> Iterator[Rate]:
    """How far two plain answers agree place by place: an upper hand on nothing, but what "naive acceptance" was."""
    for pair in pairs_of(data):
        if {pair.base.runs[0].info.mode, pair.other.runs[0].info.mode} & set(PAIRED_MODES):
            continue
        found = column_token_match(pair.base, pair.other)
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
        caption="Counts are summed over the runs of a configuration, so that long answers weigh more",
        text_columns=3,
    )


def _of(rate: Rate) -> Badge:
    return Badge.IMPORTED if rate.badge is Badge.IMPORTED else Badge.DERIVED


def verdicts_of(data: ReportData, column: Column) -> list[tuple[RunLog, Verdict]]:
    """Every speculative run of a configuration weighed against the target alone on the same sample, where that ran."""
    others = by_sample(run for run in data.runs if run.info.mode not in PAIRED_MODES)
    found = []
    for run in column.runs:
        if run.info.mode in SPECULATIVE_MODES and run.info.imported is None:
            weighed = verdict(run, plain_step_ms(run, others.get(sample_key(run), ())))
            if weighed is not None:
                found.append((run, weighed))
    return found


def _speed(data: ReportData, names: dict[int, str]) -> list[Block]:
    rows, sentences = [], []
    for column in data.columns:
        found = [weighed for _, weighed in verdicts_of(data, column)]
        if not found:
            continue
        rows.append(_speed_row(names[id(column)], found))
        sentences.append(_speed_sentence(names[id(column)], found))
    if not rows:
        return []
    heads = (
        "configuration",
        "γ drafted",
        "tokens a round",
        "draft / target step",
        "verification / target step",
        "predicted decoding speed",
        "measured decoding speed",
        "predicted / measured",
        "net, with the draft's own stages",
        "runs",
    )
    caption = (
        "Against the target alone on the same sample and prompt: S = tokens a round / (γ · c + v); 1.00x is no gain"
    )
    return [
        Table(heads, tuple(rows), caption=caption),
        *(Paragraph(sentence, badge=Badge.DERIVED) for sentence in sentences),
    ]


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


def _speed_row(name: str, found: list[Verdict]) -> tuple[Cell, ...]:
    costs = [weighed.draft_cost for weighed in found if weighed.draft_cost is not None]
    predicted = [weighed.predicted_speedup for weighed in found if weighed.predicted_speedup is not None]
    measured = [weighed.measured_speedup for weighed in found]
    agreement = fmean(predicted) / fmean(measured) if predicted else None
    return (
        Cell(name),
        Cell(number_text(fmean(weighed.gamma for weighed in found)), Badge.DERIVED),
        Cell(number_text(fmean(weighed.tokens_per_round for weighed in found)), Badge.DERIVED),
        ratio_cell(fmean(costs) if costs else None, mean_interval(costs)),
        ratio_cell(fmean(weighed.verify_cost for weighed in found)),
        ratio_cell(fmean(predicted) if predicted else None, mean_interval(predicted)),
        ratio_cell(fmean(measured), mean_interval(measured), lower_is_better=False),
        ratio_cell(agreement),
        ms_cell(summarize([weighed.net_ms for weighed in found]), Badge.DERIVED),
        count_cell(len(found), badge=Badge.DERIVED),
    )


def _speed_sentence(name: str, found: list[Verdict]) -> str:
    net = fmean(weighed.net_ms for weighed in found)
    interval = mean_interval([weighed.net_ms for weighed in found])
    paid = sum(weighed.pays for weighed in found)
    if interval is not None and interval[0] <= 0 <= interval[1]:
        head = f"{name}: whether speculation pays cannot be told from {len(found)} runs (net {number_text(net)} ms)"
    elif net > 0:
        head = f"{name}: speculation saves {number_text(net)} ms a run"
    else:
        head = f"{name}: speculation costs {number_text(-net)} ms a run"
    rates = [weighed.rate for weighed in found if weighed.rate is not None]
    needed = [weighed.break_even_rate for weighed in found]
    known = [rate for rate in needed if rate is not None]
    accepted = f" at an acceptance of {share_text(fmean(rates))} of the drafted tokens" if rates else ""
    if not known:
        more = "no acceptance rate would make it pay at these step times and lengths"
    elif len(known) < len(needed):
        more = f"only in {len(known)} of {len(needed)} runs could any acceptance rate make it pay"
    else:
        more = f"it would break even at {share_text(fmean(known))}"
    return f"{head}{accepted}; {more}. It paid in {paid} of {len(found)} runs."
