"""Section: draft and target beside each other, figure by figure, with what one is to the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evprof.core.units import TIMES, count_text
from evprof.core.vocabulary.figures import FIGURES, LENGTHS
from evprof.export.report import readings
from evprof.export.report.data import ReportData
from evprof.export.report.figures import figure_cell, nothing_measured, number_text, ratio_cell, rows_cell, share_cell
from evprof.export.report.parts import Badge, Block, Cell, Paragraph, Section, Table
from evprof.export.report.readings import ReportReading, part_title
from evprof.export.report.sections.evidence import ConfigurationPair, badge_of, listed, names_of, pairs_of
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.comparison.differences import part_reader
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.estimates import Read
from evprof.metrics.estimates.paired import compare, mean_of, values_of
from evprof.metrics.figures.partition import Block as Stages
from evprof.metrics.figures.partition import name_of, partition, shape_of
from evprof.metrics.limits.workload import holds_vision

TITLE = "Both models side by side"

LANGUAGE: Stages = ("prefill", "decode")
"""What files of four stages call LLM decoding."""

Line = tuple[str, ReportReading]
"""A line of the table: what it is called, and its figure."""

_AFTER: dict[str, Line] = {
    "visual_tokens": ("of it text", readings.TEXT_TOKENS),
    "decode_throughput_tok_s": ("answer / (vision, prefill and decode), rate", readings.GENERATION_RATE),
}
"""Figures of this table alone, by those that they come after."""


def _figures(*, of_lengths: bool) -> Iterator[Line]:
    """Lengths, or all other figures but those of stages, as the vocabulary names them."""
    for figure in FIGURES.values():
        title = figure.title if figure.beside is None else figure.beside
        if title and (figure.head == LENGTHS) == of_lengths:
            yield title, readings.figure(figure.key)
            if figure.key in _AFTER:
                yield _AFTER[figure.key]


def section(data: ReportData) -> Section:
    """A table for every draft and target of one request."""
    pairs = model_pairs(data)
    if not pairs:
        return Section(TITLE, missing="A draft and a target on the same samples; run the suite stages.")
    doubled = [column for pair in pairs for column in (pair.base, pair.other) if holds_vision(column.runs[0])]
    blocks: list[Block] = [pair_table(pair, data) for pair in pairs]
    if doubled:
        names = names_of(data)
        told = listed(list(dict.fromkeys(names[id(column)] for column in doubled)))
        blocks.append(Paragraph(f"What is told as prefill of {told} holds the vision pass once more.", tone="warn"))
    return Section(TITLE, tuple(blocks))


def model_pairs(data: ReportData) -> list[ConfigurationPair]:
    """The pairs whose sides are two models, each alone."""
    return [pair for pair in pairs_of(data) if pair.base.runs[0].info.role != pair.other.runs[0].info.role]


def pair_table(pair: ConfigurationPair, data: ReportData) -> Table:
    """Lengths, stages with their shares, totals, rates and caches of both, and the ratios."""
    names = names_of(data)
    base, other = (names[id(column)] for column in (pair.base, pair.other))
    rows = [_row(pair, line) for line in _figures(of_lengths=True)]
    rows += [_row(pair, line, data.basis) for line in _times(pair, data.basis)]
    rows += _within(pair, data.basis)
    rows += [_row(pair, line) for line in _figures(of_lengths=False)]
    kept = [row for row in rows if any(cell.badge is not None for cell in row)]
    counted = " and ".join(
        f"{count_text(len(column.runs), 'run')} of {name}" for column, name in ((pair.base, base), (pair.other, other))
    )
    return Table(
        ("figure", base, "share", other, "share", "ratio", "n"),
        tuple(kept),
        f"{other} / {base}: means over samples ± standard deviation, ratios of means with 95 % intervals over the n "
        f"samples that both measured; {counted}",
    )


def _times(pair: ConfigurationPair, basis: str) -> list[Line]:
    """Every stage that both can tell from the others, prefill and decode together, and the total."""
    shapes = {shape_of(run) for column in (pair.base, pair.other) for run in column.runs}
    blocks = partition(shapes)
    if LANGUAGE not in blocks:
        blocks.append(LANGUAGE)
    found = [(part_title(name_of(block)), ReportReading(name_of(block), part_reader(block))) for block in blocks]
    return [*found, (f"total, {basis}", readings.total(basis))]


def _row(pair: ConfigurationPair, line: Line, basis: str = "") -> tuple[Cell, ...]:
    title, reading = line
    cells: list[Cell] = [Cell(title)]
    for column in _sides(pair):
        found = summarize(values_of(column, reading.read))
        value = figure_cell(found, reading.unit, reading.badge(badge_of(column.runs)))
        cells += [value, _share(column, reading.read, basis) if basis else Cell("")]
    compared = compare(pair.base, pair.other, reading.read)
    if compared is None:
        return (*cells, nothing_measured(), nothing_measured())
    ratio = ratio_cell(compared.ratio, compared.ratio_interval)
    return (*cells, ratio, rows_cell(compared.count))


def _share(column: Configuration, read: Read, basis: str) -> Cell:
    part, whole = mean_of(column, read), mean_of(column, readings.total(basis).read)
    return share_cell(part / whole) if part is not None and whole else nothing_measured()


def _within(pair: ConfigurationPair, basis: str) -> list[tuple[Cell, ...]]:
    """What is a ratio within one model: language model / vision, and samples a second."""
    times = [[mean_of(column, part_reader(block)) for block in (LANGUAGE, ("vision",))] for column in _sides(pair)]
    totals = [mean_of(column, readings.total(basis).read) for column in _sides(pair)]
    quotients = [language / vision if language and vision else None for language, vision in times]
    return [
        _plain(
            "prefill and decode / vision",
            [None if value is None else f"{number_text(value)}{TIMES}" for value in quotients],
        ),
        _plain("samples/s, one at a time", [number_text(1000 / total) if total else None for total in totals]),
    ]


def _sides(pair: ConfigurationPair) -> tuple[Configuration, Configuration]:
    return pair.base, pair.other


def _plain(name: str, texts: Sequence[str | None]) -> tuple[Cell, ...]:
    one, other = (nothing_measured() if text is None else Cell(text, Badge.DERIVED) for text in texts)
    return Cell(name), one, Cell(""), other, Cell(""), Cell(""), Cell("")
