"""Section: draft and target beside each other, figure by figure, with what one is to the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from evprof.core.run_log import RunLog
from evprof.export.report.data import ReportData
from evprof.export.report.figures import (
    bytes_cell,
    count_cell,
    ms_cell,
    nothing_measured,
    number_text,
    rate_cell,
    ratio_cell,
    rows_cell,
    share_cell,
)
from evprof.export.report.parts import Badge, Block, Cell, Paragraph, Section, Table
from evprof.export.report.sections.evidence import ConfigurationPair, badge_of, listed, names_of, pairs_of
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.estimates import Read
from evprof.metrics.estimates.paired import compare, mean_of, values_of
from evprof.metrics.figures import decoding
from evprof.metrics.figures.kv_cache import measured_bytes
from evprof.metrics.figures.partition import Block as Stages
from evprof.metrics.figures.partition import measured_ms, name_of, partition, shape_of
from evprof.metrics.figures.stages import total_ms
from evprof.metrics.limits.workload import holds_vision

TITLE = "Both models side by side"

LANGUAGE: Stages = ("prefill", "decode")
"""What files of four stages call LLM decoding."""

COUNT, MS, RATE, BYTES = "count", "ms", "rate", "bytes"


@dataclass(frozen=True)
class FigureOfBoth:
    """A line of the table. `kind` is one of COUNT, MS, RATE and BYTES; what is `derived` was not clocked itself."""

    name: str
    kind: str
    read: Read
    derived: bool = False


LENGTHS = (
    FigureOfBoth("prompt, positions", COUNT, decoding.input_length),
    FigureOfBoth("of it visual", COUNT, decoding.visual_tokens),
    FigureOfBoth("of it text", COUNT, decoding.text_tokens),
    FigureOfBoth("answer, tokens", COUNT, decoding.output_length),
)
RATES = (
    FigureOfBoth("per token of decode", MS, decoding.decode_ms_per_token, derived=True),
    FigureOfBoth("prefill rate", RATE, decoding.prefill_throughput_tok_s, derived=True),
    FigureOfBoth("decode rate", RATE, decoding.decode_throughput_tok_s, derived=True),
    FigureOfBoth(
        "answer / (vision, prefill and decode), rate", RATE, decoding.generation_throughput_tok_s, derived=True
    ),
    FigureOfBoth("KV cache", BYTES, measured_bytes),
)


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
    rows = [_row(pair, figure) for figure in LENGTHS]
    rows += [_row(pair, figure, data.basis) for figure in _times(pair, data.basis)]
    rows += _within(pair, data.basis)
    rows += [_row(pair, figure) for figure in RATES]
    kept = [row for row in rows if any(cell.badge is not None for cell in row)]
    counted = " and ".join(
        f"{len(column.runs)} runs of {name}" for column, name in ((pair.base, base), (pair.other, other))
    )
    return Table(
        ("figure", base, "share", other, "share", "ratio", "n"),
        tuple(kept),
        f"{other} / {base}: means over samples ± standard deviation, ratios of means with 95 % intervals over the n "
        f"samples that both measured; {counted}",
    )


def _times(pair: ConfigurationPair, basis: str) -> list[FigureOfBoth]:
    """Every stage that both can tell from the others, prefill and decode together, and the total."""
    shapes = {shape_of(run) for column in (pair.base, pair.other) for run in column.runs}
    blocks = partition(shapes)
    if LANGUAGE not in blocks:
        blocks.append(LANGUAGE)
    found = [FigureOfBoth(name_of(block).replace("+", " + "), MS, partial(_block_ms, block=block)) for block in blocks]
    return [*found, FigureOfBoth(f"total, {basis}", MS, partial(total_ms, basis=basis))]


def _block_ms(run: RunLog, block: Stages) -> float | None:
    return measured_ms(run, shape_of(run), block)


def _row(pair: ConfigurationPair, figure: FigureOfBoth, basis: str = "") -> tuple[Cell, ...]:
    cells: list[Cell] = [Cell(figure.name)]
    for column in (pair.base, pair.other):
        cells += [_value(column, figure), _share(column, figure, basis) if basis else Cell("")]
    compared = compare(pair.base, pair.other, figure.read)
    if compared is None:
        return (*cells, nothing_measured(), nothing_measured())
    ratio = ratio_cell(compared.ratio, compared.ratio_interval)
    return (*cells, ratio, rows_cell(compared.count))


def _value(column: Configuration, figure: FigureOfBoth) -> Cell:
    found = summarize(values_of(column, figure.read))
    badge = Badge.DERIVED if figure.derived else badge_of(column.runs)
    if figure.kind == MS:
        return ms_cell(found, badge)
    if figure.kind == RATE:
        return rate_cell(found, badge=badge)
    return bytes_cell(found, badge) if figure.kind == BYTES else count_cell(found, badge=badge)


def _share(column: Configuration, figure: FigureOfBoth, basis: str) -> Cell:
    part, whole = mean_of(column, figure.read), mean_of(column, partial(total_ms, basis=basis))
    return share_cell(part / whole) if part is not None and whole else nothing_measured()


def _within(pair: ConfigurationPair, basis: str) -> list[tuple[Cell, ...]]:
    """What is a ratio within one model: language model / vision, and samples a second."""
    times = [
        [mean_of(column, partial(_block_ms, block=block)) for block in (LANGUAGE, ("vision",))]
        for column in _sides(pair)
    ]
    totals = [mean_of(column, partial(total_ms, basis=basis)) for column in _sides(pair)]
    quotients = [language / vision if language and vision else None for language, vision in times]
    return [
        _plain(
            "prefill and decode / vision", [None if value is None else f"{number_text(value)}x" for value in quotients]
        ),
        _plain("samples/s, one at a time", [number_text(1000 / total) if total else None for total in totals]),
    ]


def _sides(pair: ConfigurationPair) -> tuple[Configuration, Configuration]:
    return pair.base, pair.other


def _plain(name: str, texts: Sequence[str | None]) -> tuple[Cell, ...]:
    one, other = (nothing_measured() if text is None else Cell(text, Badge.DERIVED) for text in texts)
    return Cell(name), one, Cell(""), other, Cell(""), Cell(""), Cell("")
