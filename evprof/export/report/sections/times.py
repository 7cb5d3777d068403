"""Sections: totals, lengths and rates of every configuration; the times, operations and input of stages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from evprof.core.records import COVERS, DRAFT, STAGES, TARGET, TensorRecord
from evprof.core.rows.spans import Span
from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns
from evprof.export.report import figures as fmt
from evprof.export.report import parts as doc
from evprof.export.report import readings
from evprof.export.report.data import ReportData, badge_of
from evprof.export.report.pairs import MOST_PAIRS, difference_in, firsts_of_models, model_pairs
from evprof.export.report.parts import (
    Badge,
    Block,
    Bullets,
    Cell,
    ColumnsOf,
    Paragraph,
    PlotSeries,
    ReportPlot,
    Section,
    Table,
)
from evprof.export.report.readings import ReportReading, part_title
from evprof.metrics.arithmetic.statistics import Summary, summarize
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.configurations.parts import UNATTRIBUTED
from evprof.metrics.figures.decoding import frames_shown
from evprof.metrics.figures.kv_cache import Loading, loading_of
from evprof.metrics.figures.partition import is_in_pieces, shape_of
from evprof.metrics.figures.stages import BASES, END_TO_END, MODEL_ONLY, WITHOUT_LOAD, is_measured, stage_ms

BASIS_WORDS = {
    END_TO_END: "end to end (the whole wall, reading the files included)",
    WITHOUT_LOAD: "without stage load (reading and decoding the files left out)",
    MODEL_ONLY: "model only (vision, prefill and decode)",
}

METHOD = (
    "Every sample weighs the same in a mean: its repeats count as one. Standard deviations are the sample's (n − 1) "
    "over runs; percentiles are interpolated linearly. Intervals are 95 % intervals of the mean over samples, over "
    "engine processes where there are several, none below three runs. Outliers stay in every figure."
)

OPERATIONS = {
    "load": "read and decode the sample's files",
    "preprocess": "prepare the pictures, tokenize the prompt",
    "vision": "encode the pictures, project them to the language model's width",
    "prefill": "read the whole prompt, text and pictures, into the cache",
    "decode": "one token after the other",
    UNATTRIBUTED: "between the stages",
}

SPREAD = (5, 50, 95, 99)
"""Percentiles in the table of times."""

_NUMBER = re.compile(r"(?<=.)\s*\d+$")

MOST_READ = 200
"""Runs of a configuration whose logs are read for the times of parts of stages."""


def overview(data: ReportData) -> Section:
    total = readings.total(data.basis)

    def per_second(column: Configuration) -> Cell:
        summary = data.summary(column, total)
        return fmt.number_cell(1000 / summary.mean if summary and summary.mean else None, badge=Badge.DERIVED)

    text = (
        f"Totals count {BASIS_WORDS[data.basis]}. Means of all runs of a configuration ± their standard deviation "
        "(n − 1); warm-up, profiled and failed runs are in none of them. Time per token is decode time over tokens "
        "2…n, of both models where a file timed the draft's decoding apart."
    )
    times = data.table([("runs", _runs), ("total", total), *_moments(data), ("samples/s", per_second)], "Times")
    reasons = [difference_in(data, pair).why(tuple(map(data.name, pair.sides))) for pair in model_pairs(data)]
    why = (Paragraph(reason, badge=Badge.DERIVED) for reason in reasons[:MOST_PAIRS] if reason)
    return Section("Overview", (*why, Paragraph(text), times, *lengths(data)))


def _moments(data: ReportData) -> list[tuple[str, ReportReading]]:
    first = readings.figure("time_to_first_token_ms", data.basis)
    return [("to first token", first), ("per token", readings.TIME_PER_TOKEN)]


def _runs(column: Configuration) -> Cell:
    return fmt.rows_cell(len(column.runs))


def lengths(data: ReportData) -> list[Block]:
    """Positions of the prompt by content, tokens of the answer, rates and cache of every configuration."""
    columns = [
        ("prompt", readings.figure("input_sequence_length")),
        ("of it visual", readings.figure("visual_tokens")),
        ("of it text", readings.TEXT_TOKENS),
        ("answer", readings.figure("output_sequence_length")),
        ("prefill", readings.figure("prefill_throughput_tok_s")),
        ("decode", readings.figure("decode_throughput_tok_s")),
        ("answer / (vision, prefill and decode)", readings.GENERATION_RATE),
        ("KV cache", readings.KV_BYTES),
    ]
    return [data.table(columns, "Lengths in tokens, rates and cache")]


def inputs(data: ReportData) -> Table:
    columns: ColumnsOf[Configuration] = [
        ("model", lambda column: column.model),
        ("frames", lambda column: fmt.count_cell(frames_shown(column.runs[0]), badge=badge_of(column.runs))),
        ("samples", lambda column: fmt.rows_cell(len(column.samples()))),
        ("runs", _runs),
    ]
    return data.table(columns, "Inputs", text_columns=2)


def section(data: ReportData) -> Section:
    blocks: list[Block] = []
    if any(shape_of(run).blocks for run in data.runs):
        blocks += [_plot(data), _bases(data)]
        if pieces := _pieces(data):
            blocks += [Paragraph("Measured in one piece, and never split by guess:"), Bullets(pieces)]
        blocks += [*shares(data), *doc.headed("Operations of every stage", operations(data))]
        blocks += doc.headed("Loading", loading(data))
    return doc.section_of("Stages", blocks, "Runs with at least one measured stage.")


def _parts(data: ReportData, basis: str) -> list[str]:
    """The parts of all configurations' times in order of stages, unattributed time last."""
    shapes = data.once("shapes", lambda: {shape_of(run) for run in data.runs})
    names = {name for shape in shapes for name in readings.parts_of_shape(shape, basis)}
    rank = {name: place for place, name in enumerate((*STAGES, UNATTRIBUTED))}
    return sorted(names, key=lambda name: (rank[name.split(COVERS)[0]], name.count(COVERS), name))


def _plot(data: ReportData) -> ReportPlot:
    series = []
    for name in _parts(data, data.basis):
        summaries = [data.summary(column, readings.part(name)) for column in data.columns]
        if any(summary and summary.mean > 0 for summary in summaries):
            means = tuple(summary.mean if summary else None for summary in summaries)
            series.append(PlotSeries(part_title(name), (), means, color=name, badge=badge_of(data.columns[0].runs)))
    caption = "Mean time of each stage."
    if any(entry.color == UNATTRIBUTED for entry in series):
        caption += " Hatched: time that no stage covers."
    if any(COVERS in entry.color for entry in series):
        caption += " Striped: several stages that were measured in one piece."
    return ReportPlot(doc.STACKED, "Where the time goes", tuple(series), tuple(data.names), unit="ms", caption=caption)


def _bases(data: ReportData) -> Table:
    def cell(column: Configuration, basis: str) -> Cell:
        total = data.summary(column, readings.total(basis))
        note = "" if total else "a stage of it was not measured, or only in one piece with others"
        return fmt.ms_cell(total, badge_of(column.runs), has_unit=False, note=note)

    columns = [(basis.replace("-", " "), partial(cell, basis=basis)) for basis in BASES]
    return data.table(columns, "Totals on three bases, ms")


def _pieces(data: ReportData) -> tuple[str, ...]:
    """Intervals that cover several stages, in sentences, each with its configurations."""
    sentences: dict[str, list[str]] = {}
    for name, column in zip(data.names, data.columns, strict=True):
        spans = {
            (span.covers, run.accounts_for(span))
            for run in filter(is_in_pieces, column.runs[:50])
            for span in run.stages()
        }
        for covers, owned in sorted(spans):
            if len(covers) > 1:
                sentences.setdefault(_piece(covers, owned), []).append(name)
    return tuple(f"{sentence} ({', '.join(names)})" for sentence, names in sentences.items())


def _piece(covers: tuple[str, ...], owned: tuple[str, ...]) -> str:
    if owned == covers:
        return f"{', '.join(covers[:-1])} and {covers[-1]} are one interval"
    again = " and ".join(name for name in covers if name not in owned)
    return f"the interval recorded as {' + '.join(owned)} holds {again} once more, which was also measured apart"


def shares(data: ReportData) -> list[Block]:
    """Every time of every configuration with its share of the total, and its spread."""
    rows = [row for column in data.columns for row in _times(data, column)]
    percentiles = (f"p{percent}" if percent != 50 else "median" for percent in SPREAD)
    heads = ("configuration", "time", "mean ± std", "share", "minimum", *percentiles, "maximum", "n")
    table = Table(heads, tuple(rows), f"Stage by stage, {data.basis}, ms", text_columns=2)
    return [Paragraph(METHOD), table] if rows else []


def _times(data: ReportData, column: Configuration) -> list[tuple[Cell, ...]]:
    total = readings.total(data.basis)
    parts = [(part_title(name), readings.part(name)) for name in _parts(data, data.basis)]
    listed = [(title, reading, data.summary(column, reading)) for title, reading in parts]
    whole = data.summary(column, total)
    divisor = whole.mean if whole else sum(summary.mean for _, _, summary in listed if summary)
    note = "" if whole else "of the measured stages together: there is no total on this basis"
    shared = {title for title, _ in parts} | {"total"}
    listed += [
        (title, reading, data.summary(column, reading)) for title, reading in (("total", total), *_moments(data))
    ]
    rows: list[tuple[Cell, ...]] = []
    for title, reading, summary in listed:
        if summary is None:
            continue
        badge = reading.badge(badge_of(column.runs))
        spread = (summary.minimum, *(summary.percentiles[percent] for percent in SPREAD), summary.maximum)
        is_shared = title in shared
        rows.append(
            doc.row_of(
                "" if rows else data.name(column),
                title,
                fmt.ms_cell(summary, badge, has_unit=False),
                fmt.share_cell(summary.mean / divisor if divisor else None, note=note) if is_shared else "",
                *(fmt.ms_cell(value, badge, has_unit=False) for value in spread),
                fmt.rows_cell(summary.count),
            )
        )
    return rows


def operations(data: ReportData) -> list[Block]:
    """Operations of each stage with inputs, outputs, times and shares; of the first configuration of every model."""
    return [_operations(data, column) for column in firsts_of_models(data, lambda run: bool(shape_of(run).blocks))]


def _operations(data: ReportData, column: Configuration) -> Table:
    own, first = badge_of(column.runs), column.runs[0]
    read = column.runs[:: -(-len(column.runs) // MOST_READ)]
    times = _part_times(read)
    total = data.summary(column, readings.total(data.basis))
    rows: list[tuple[Cell, ...]] = []

    def add(title: str, words: str, span: Span | None, spent: Summary | None) -> None:
        share = spent.mean / total.mean if spent and total and total.mean else None
        outputs = [record.nbytes for record in span.tensors if record.direction == "out"] if span else []
        size = fmt.bytes_cell(sum(outputs), own) if outputs else ""
        rows.append(doc.row_of(title, words, *_tensors(span), size, fmt.ms_cell(spent, own), fmt.share_cell(share)))

    for part in readings.parts_of(first, data.basis):
        covered = tuple(part.split(COVERS))
        span = next((span for span in first.stages(first.info.role) if first.accounts_for(span) == covered), None)
        words = "; ".join(OPERATIONS[name] for name in covered)
        add(part_title(part), words, span, data.summary(column, readings.part(part)))
        # Decode steps are the stage itself.
        children = [] if span is None or part == "decode" else first.children(span.span_id)
        for child in reversed({one.name: one for one in reversed(children)}.values()):
            add("", child.name, child, summarize(times.get((child.name, child.role), [])))
    caption = f"{data.name(column)}: inputs and outputs of its first run, mean times of {len(column.runs):,} runs"
    if len(read) < len(column.runs):
        caption += f"; times of parts of stages are means of {len(read):,} of these runs"
    heads = ("stage", "operation", "input", "output", "bytes of the output", "time", "share")
    return Table(heads, tuple(rows), caption, text_columns=4)


def _part_times(runs: Iterable[RunLog]) -> dict[tuple[str, str], list[float]]:
    """The times in ms of every part of a stage by its name and role, run by run."""
    times: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        spent: dict[tuple[str, str], float] = {}
        for stage in {span.span_id for span in run.stages(run.info.role)}:
            for child in filter(is_measured, run.children(stage)):
                key = child.name, child.role
                spent[key] = spent.get(key, 0.0) + ms_from_ns((child.end_ns or 0) - child.start_ns)
        for key, value in spent.items():
            times.setdefault(key, []).append(value)
    return times


def _tensors(span: Span | None) -> tuple[str, str]:
    records = [] if span is None else span.tensors
    return tensors_text(records, "in"), tensors_text(records, "out")


def tensors_text(records: Iterable[TensorRecord], direction: str) -> str:
    """`pixel_values [5, 3, 64, 64] float32`; numbered ones of one shape as `5 × event frame [180, 240, 3] uint8`."""
    counts = Counter(
        f"{_NUMBER.sub('', record.name)} [{', '.join(map(str.strip, record.shape.split(',')))}] {record.dtype}"
        for record in records
        if record.direction == direction
    )
    return ", ".join(f"{count} × {text}" if count > 1 else text for text, count in counts.items())


Row = tuple[Configuration, str]
"""A configuration, and one of its models."""


def loading(data: ReportData) -> list[Block]:
    """Bytes read and from a disk, events or frames a second, decoders, and the parts of stage load."""
    rows = [
        (column, role)
        for column in data.columns
        for role in (DRAFT, TARGET)
        if any(role in run.info.loading for run in column.runs)
    ]
    if not rows:
        return []

    def loaded(row: Row, name: str, read: Callable[[Loading], float | None]) -> Summary | None:
        def of_run(run: RunLog) -> float | None:
            found = loading_of(run, row[1])
            return None if found is None else read(found)

        return data.summary(row[0], ReportReading(f"loading {name} {row[1]}", of_run))

    def name(row: Row) -> str:
        return data.name(row[0]) + ("" if row[1] == row[0].runs[0].info.role else f" · {row[1]}")

    def amount(row: Row) -> Cell:
        if (events := loaded(row, "events", lambda found: found.facts.events)) is not None:
            return fmt.count_cell(events, "events")
        frames = loaded(row, "frames", lambda found: found.facts.frames)
        return fmt.count_cell(frames, "frame" if frames and frames.mean == 1 else "frames")

    def rate(row: Row) -> Cell:
        events = loaded(row, "M events/s", lambda found: found.events_per_s and found.events_per_s / 1e6)
        if events is not None:
            return fmt.rate_cell(events, "M events/s")
        return fmt.rate_cell(loaded(row, "frames/s", lambda found: found.frames_per_s), "frames/s")

    def load(row: Row) -> Summary | None:
        return data.summary(row[0], ReportReading(f"load {row[1]}", lambda run: stage_ms(run, "load", row[1])))

    def share(row: Row) -> Cell:
        spent, total = load(row), data.summary(row[0], readings.total(END_TO_END))
        return fmt.share_cell(None if spent is None or total is None or not total.mean else spent.mean / total.mean)

    def part(row: Row, part: str) -> Cell:
        spent = loaded(row, f"part {part}", lambda found: found.part_ms.get(part))
        return Cell("") if spent is None else fmt.ms_cell(spent, has_unit=False)

    loadings = (loading_of(run, role) for column, role in rows for run in column.runs)
    names = dict.fromkeys(part for found in loadings if found for part in found.part_ms)
    read = doc.table_of(
        rows,
        [
            ("configuration", name),
            ("with", lambda row: _decoders(row[0].runs, row[1])),
            ("what", amount),
            ("read", lambda row: fmt.bytes_cell(loaded(row, "bytes", lambda found: found.facts.bytes_read))),
            ("from disk", lambda row: fmt.bytes_cell(loaded(row, "disk", lambda found: found.facts.bytes_from_disk))),
            ("rate", rate),
            ("load, ms", lambda row: fmt.ms_cell(load(row), has_unit=False)),
            ("of the total", share),
        ],
        "Input of stage load, means over samples and repeats; bytes from a disk were not in the page cache",
        text_columns=2,
    )
    parts: ColumnsOf[Row] = [("configuration", name), *((one, partial(part, part=one)) for one in names)]
    return [read, doc.table_of(rows, parts, "Parts of stage load, ms")]


def _decoders(runs: Sequence[RunLog], role: str) -> str:
    """The decoders in order of the runs: "pyav", "pyav, frame cache hit"."""
    loadings = filter(None, (run.info.loading.get(role) for run in runs))
    known = ((one.decoder, f"frame cache {one.frame_cache}" if one.frame_cache else "") for one in loadings)
    return "; ".join(dict.fromkeys(", ".join(filter(None, words)) for words in known if words[0]))
