"""Section: where drafts are accepted, by place and by round, and why they fail, by the first rejected token."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from evprof.core.run_log import RunLog
from evprof.export.report.data import ReportData
from evprof.export.report.figures import count_cell, share_cell, share_text
from evprof.export.report.parts import (
    GROUPED,
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
    table_of,
)
from evprof.export.report.sections.evidence import names_of
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.speculation.clinic import per_position, round_histogram
from evprof.metrics.speculation.failure_modes import KINDS, Rejection, first_rejections, rejection_counts
from evprof.metrics.speculation.outcome import round_count

TITLE = "Why drafts fail"

MOST_DRAWN = 4
"""Configurations in one plot."""

MOST_EXAMPLES = 12
"""First rejections that are told one by one, per configuration."""

MEANINGS = (
    "A round ends at its first rejected token. Shifted: the draft's token comes a few places later in the target's "
    "text, or the target's in the draft's; both say the same, one of them a word earlier. Surface: the same word but "
    "for case, spaces, punctuation or inflection. Content: another word. The first two are what training a draft on "
    "the target's own answers removes; the last is what it sees differently."
)


def section(data: ReportData) -> Section:
    """Plots by place and round, and the failures by kind, with examples."""
    names = names_of(data)
    told = [column for column in data.columns if any(map(round_count, column.runs))]
    if not told:
        return Section(TITLE, missing="No run speculated in rounds; run speculation on some samples.")
    failed = {id(column): _counted(column.runs) for column in told}
    # Blocks drafted inside a prefill are of another length; a section of their own tells of them.
    steady = [column for column in told if round_histogram(*column.runs, steady_only=True)][:MOST_DRAWN]
    blocks: list[Block] = [_by_place(steady, names), _by_round(steady, names)] if steady else []
    if any(map(any, failed.values())):
        blocks += [Paragraph(MEANINGS), _kinds(told, names, failed)]
        blocks += [_examples(column, names) for column in told[:MOST_DRAWN] if any(failed[id(column)])]
    return Section(TITLE, tuple(blocks))


def _by_place(told: list[Configuration], names: dict[int, str]) -> ReportPlot:
    series = []
    for column in told:
        places = [entry for entry in per_position(*column.runs, steady_only=True) if entry.judged]
        x = tuple(float(entry.place + 1) for entry in places)
        name = names[id(column)]
        series.append(
            PlotSeries(name, x, tuple(entry.conditional for entry in places), is_line=True, badge=Badge.MEASURED)
        )
    return ReportPlot(
        POINTS,
        "Accepted of what was judged, by place in the round",
        tuple(series),
        x_title="drafted token",
        y_title="accepted",
        caption="A token is judged when all before it in its round were accepted",
    )


def _by_round(told: list[Configuration], names: dict[int, str]) -> ReportPlot:
    each = [round_histogram(*column.runs, steady_only=True) for column in told]
    most = max(max(found, default=0) for found in each)
    places = tuple(float(accepted) for accepted in range(most + 1))
    series = tuple(
        PlotSeries(
            names[id(column)],
            places,
            tuple(found.get(int(accepted), 0) / sum(found.values()) for accepted in places),
            badge=Badge.MEASURED,
        )
        for column, found in zip(told, each, strict=True)
    )
    labels = tuple(f"{accepted:.0f}" for accepted in places)
    return ReportPlot(
        GROUPED,
        "Rounds by accepted tokens",
        series,
        labels=labels,
        y_title="accepted tokens",
        caption="Share of all rounds of a configuration",
    )


def _counted(runs: Iterable[RunLog]) -> tuple[int, ...]:
    """First rejections of all these runs, in the order of KINDS."""
    each = [found for run in runs if (found := rejection_counts(run)) is not None]
    return tuple(sum(found[kind] for found in each) for kind in KINDS)


def _kinds(told: list[Configuration], names: dict[int, str], failed: dict[int, tuple[int, ...]]) -> Table:
    rows = []
    for column in told:
        found = failed[id(column)]
        whole = sum(found)
        cells = [Cell(f"{count} ({share_text(count / whole)})" if whole else "0", Badge.MEASURED) for count in found]
        rows.append((Cell(names[id(column)]), count_cell(whole), *cells))
    return Table(("configuration", "first rejections", *KINDS), tuple(rows), caption="First rejections by kind")


def _examples(column: Configuration, names: dict[int, str]) -> Table:
    # Repeats fail alike; of each sample one is told.
    firsts = [repeats[0] for repeats in column.samples().values()]
    count = sum(_counted(firsts))
    each = ((run, entry) for run in firsts if rejection_counts(run) for entry in first_rejections(run))
    listed = list(islice(each, MOST_EXAMPLES))
    columns: ColumnsOf[tuple[RunLog, Rejection]] = [
        ("run", lambda told: str(told[0].run_id)),
        ("round", lambda told: str(told[1].round_index + 1)),
        ("draft", lambda told: _piece(told[1].draft_piece)),
        ("target", lambda told: _piece(told[1].target_piece)),
        ("kind", lambda told: told[1].kind),
        ("draft of its own", lambda told: share_cell(told[1].draft_chance, Badge.MEASURED)),
        ("target of the draft's", lambda told: share_cell(told[1].cross_chance, Badge.MEASURED)),
        ("target of its own", lambda told: share_cell(told[1].target_chance, Badge.MEASURED)),
    ]
    more = f"; {MOST_EXAMPLES} of {count}" if count > MOST_EXAMPLES else ""
    caption = f"{names[id(column)]}: first rejections with their probabilities{more}"
    return table_of(listed, columns, caption, text_columns=5)


def _piece(piece: str) -> str:
    return f"“{piece}”" if piece else "(end)"
