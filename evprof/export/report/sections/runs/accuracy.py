"""Section: how right the answers are, beside the time and energy they take; by task, and in pairs with the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evprof.core.units import percent_text
from evprof.core.vocabulary.figures import FIGURES
from evprof.core.vocabulary.scoring import RIGHT, ROUGE_L, SCORING_RULES, TOKEN_F1
from evprof.export.report.data import ReportData
from evprof.export.report.figures import interval_text, nothing_measured, number_text, rows_cell
from evprof.export.report.parts import Badge, Block, Bullets, Cell, Paragraph, Section, Table, table_of
from evprof.metrics.comparison.accuracy import (
    Accuracy,
    PairedAccuracy,
    accuracy_of,
    by_task,
    of_judged,
    paired_accuracy,
)
from evprof.metrics.estimates.estimates import Estimate

TITLE = "Accuracy beside time"

MISSING = (
    "No sample says what its right answer is; a list of samples gives right answers in a column called reference, or "
    "choices and the right_choice."
)

LARGEST_P = 0.05
"""p above which a difference may well be chance."""


@dataclass(frozen=True)
class _Line:
    """A configuration's answers under its name."""

    name: str
    told: Accuracy


def section(data: ReportData) -> Section:
    """Scores with time and energy, then by task, then McNemar's test against the first configuration, and the rules."""
    found = [
        (place, told)
        for place, column in enumerate(data.columns)
        if (told := accuracy_of(column, data.basis)) is not None
    ]
    if not found:
        return Section(TITLE, missing=MISSING)
    lines = [_Line(data.names[place], told) for place, told in found]
    blocks: list[Block] = [
        _scores(lines, f"Scores, times and energy, means over samples with 95 % intervals, {data.basis}")
    ]
    tasks = [_Line(line.name, part) for line in lines for part in by_task(line.told)]
    if tasks:
        blocks.append(_scores(tasks, "The same by task", has_task=True))
    blocks += _pairs(data, [place for place, told in found if RIGHT in told.scores])
    shown = {key for line in lines for key in line.told.scores}
    blocks.append(Bullets(tuple(rule.sentence for key, rule in SCORING_RULES.items() if key in shown)))
    return Section(TITLE, tuple(blocks))


def _scores(lines: Sequence[_Line], caption: str, *, has_task: bool = False) -> Table:
    keys = [key for key in SCORING_RULES if any(key in line.told.scores for line in lines)]
    # By task there is room for what matters most.
    keys = [key for key in keys if key in (RIGHT, TOKEN_F1, ROUGE_L)] if has_task else keys
    columns = [
        ("configuration", lambda line: line.name),
        *([("task", lambda line: line.told.task)] if has_task else []),
        ("n", lambda line: rows_cell(line.told.samples)),
        *((FIGURES[key].title, lambda line, key=key: _score(line.told, key)) for key in keys),
        ("total", lambda line: _mean(line.told.total_ms, "ms")),
    ]
    # Of free text none is right or wrong.
    if any(line.told.per_second for line in lines):
        columns.append(("right per s", lambda line: _mean(line.told.per_second, "")))
    if any(line.told.energy_j for line in lines):
        columns.append(("energy", lambda line: _mean(line.told.energy_j, "J")))
    if any(line.told.per_joule for line in lines):
        columns.append(("right per J", lambda line: _mean(line.told.per_joule, "")))
    return table_of(lines, columns, caption, text_columns=2 if has_task else 1)


def _score(told: Accuracy, key: str) -> Cell:
    """A mean of scores of 0…1 in percent, with its interval, which reaches no further."""
    found = told.scores.get(key)
    if found is None:
        return nothing_measured()
    text = percent_text(found.value, 1)
    if found.interval is not None:
        low, high = (100 * min(max(end, 0.0), 1.0) for end in found.interval)
        text += f" [{low:.1f}, {high:.1f}]"
    return Cell(text + of_judged(key, told.judged, told.samples), Badge.DERIVED, note=found.note)


def _mean(found: Estimate | None, unit: str) -> Cell:
    if found is None:
        return nothing_measured()
    interval = f" {interval_text(found.interval)}" if found.interval else ""
    return Cell(f"{number_text(found.value)} {unit}".rstrip() + interval, Badge.DERIVED, note=found.note)


def _pairs(data: ReportData, places: Sequence[int]) -> Iterator[Block]:
    """McNemar's test of every configuration against the first that was scored."""
    if not places:
        return
    base, *others = places
    found = [(place, paired_accuracy(data.columns[base], data.columns[place])) for place in others]
    paired = [(data.names[place], told) for place, told in found if told is not None]
    if not paired:
        return
    heads = (
        "configuration",
        "pairs",
        "both right",
        "only the baseline",
        "only this",
        "neither",
        "difference",
        "p, exact",
        "χ²",
        "p, χ²",
    )
    yield Table(
        heads,
        tuple(_pair_row(name, told) for name, told in paired),
        caption=f"Right answers in pairs of one sample each, against {data.names[base]}: McNemar's test",
    )
    yield Paragraph(_verdict(data.names[base], paired))


def _pair_row(name: str, told: PairedAccuracy) -> tuple[Cell, ...]:
    test, difference = told.mcnemar, told.difference
    counts = (test.pairs, test.both, test.base, test.other, test.neither)
    return (
        Cell(name),
        *map(rows_cell, counts),
        nothing_measured() if difference is None else Cell(_points(difference), Badge.DERIVED, note=difference.note),
        *(_p_cell(value) for value in (test.exact_p, test.chi2, test.chi2_p)),
    )


def _p_cell(value: float | None) -> Cell:
    return nothing_measured() if value is None else Cell(number_text(value), Badge.DERIVED)


def _points(found: Estimate) -> str:
    """A difference of shares in percentage points."""
    text = f"{100 * found.value:+.1f} points"
    if found.interval is not None:
        text += f" [{100 * found.interval[0]:+.1f}, {100 * found.interval[1]:+.1f}]"
    return text


def _verdict(base: str, paired: Sequence[tuple[str, PairedAccuracy]]) -> str:
    said = []
    for word, is_more in (("more", True), ("less", False)):
        names = [
            name
            for name, told in paired
            if told.mcnemar.exact_p is not None
            and told.mcnemar.exact_p < LARGEST_P
            and (told.mcnemar.other > told.mcnemar.base) == is_more
        ]
        if names:
            said.append(f"{', '.join(names)}: right {word} often than {base} (exact p below {LARGEST_P:g}).")
    rest = len(paired) - sum(
        told.mcnemar.exact_p is not None and told.mcnemar.exact_p < LARGEST_P for _, told in paired
    )
    if rest:
        who = "None" if rest == len(paired) else f"The other {rest}"
        said.append(f"{who} can be told from {base} by these samples.")
    if len(paired) > 1:
        said.append("Each p is of one comparison; none is adjusted for their number.")
    return " ".join(said)
