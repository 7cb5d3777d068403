"""Section: where every configuration's time goes, the operations of every stage, and what stage load read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from statistics import fmean

from evprof.core.records import COVERS, DRAFT, STAGES, TARGET, TensorRecord
from evprof.core.rows.spans import Span
from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns
from evprof.export.report import readings
from evprof.export.report.data import ReportData, badge_of
from evprof.export.report.figures import (
    bytes_cell,
    count_cell,
    interval_cell,
    ms_cell,
    nothing_measured,
    rate_cell,
    rows_cell,
    share_cell,
)
from evprof.export.report.pairs import firsts_of_models
from evprof.export.report.parts import (
    STACKED,
    Block,
    Bullets,
    Cell,
    ColumnsOf,
    Paragraph,
    PlotSeries,
    ReportPlot,
    Section,
    Table,
    headed,
    row_of,
    section_of,
    table_of,
)
from evprof.export.report.readings import UNATTRIBUTED, ReportReading, part_title
from evprof.metrics.arithmetic.statistics import Summary, summarize
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.figures.kv_cache import Loading, loading_of
from evprof.metrics.figures.partition import is_in_pieces, shape_of
from evprof.metrics.figures.stages import BASES, END_TO_END, MODEL_ONLY, WITHOUT_LOAD, is_measured, stage_ms

NOT_MEASURED = {
    END_TO_END: "a stage of it was not measured",
    WITHOUT_LOAD: "a stage of it was not measured, or only in one piece with loading",
    MODEL_ONLY: "a stage of it was not measured, or only in one piece with others",
}

OPERATIONS = {
    "load": "read and decode the sample's files",
    "preprocess": "prepare the pictures, tokenize the prompt",
    "vision": "encode the pictures, project them to the language model's width",
    "prefill": "read the whole prompt, text and pictures, into the cache",
    "decode": "one token after the other",
    UNATTRIBUTED: "between the stages",
}

MOST_READ = 200
"""Runs of a configuration whose logs are read for the times of parts of stages."""

_NUMBERED = re.compile(r"^(.*?)\s*\d+$")


def section(data: ReportData) -> Section:
    """The plot, every stage's interval and share, the three bases, then operations and loading."""
    blocks: list[Block] = []
    if any(shape_of(run).blocks for run in data.runs):
        blocks += [_plot(data), _bases(data)]
        if pieces := _pieces(data):
            blocks += [Paragraph("Measured in one piece, and never split by guess:"), Bullets(pieces)]
        blocks += [*shares(data), *headed("Operations of every stage", operations(data))]
        blocks += headed("Loading", loading(data))
    return section_of("Stages", blocks, "Runs with at least one measured stage.")


def _parts(data: ReportData, basis: str) -> list[str]:
    """Everything that any configuration's time is made of, in order of stages, unattributed time last."""
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
    return ReportPlot(STACKED, "Where the time goes", tuple(series), tuple(data.names), unit="ms", caption=caption)


def _bases(data: ReportData) -> Table:
    def cell(column: Configuration, basis: str) -> Cell:
        total = data.summary(column, readings.total(basis))
        return ms_cell(total, badge_of(column.runs), has_unit=False, note="" if total else NOT_MEASURED[basis])

    columns: ColumnsOf[Configuration] = [
        ("configuration", data.name),
        *((basis.replace("-", " "), partial(cell, basis=basis)) for basis in BASES),
    ]
    return table_of(data.columns, columns, "Totals on three bases, ms")


def _pieces(data: ReportData) -> tuple[str, ...]:
    """Intervals that cover several stages, in sentences, each with the configurations it is true of."""
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
        if shared := _of_both(column.runs[0]):
            verb = "is" if len(shared) == 1 else "are"
            sentence = f"{' and '.join(shared)} {verb} of both models together, the draft's and the target's"
            sentences.setdefault(sentence, []).append(name)
    return tuple(f"{sentence} ({', '.join(names)})" for sentence, names in sentences.items())


def _of_both(run: RunLog) -> list[str]:
    """The parts of an imported run that two models' times make up."""
    if run.info.imported is None:
        return []
    roles: dict[str, set[str]] = {}
    for span in run.stages():
        roles.setdefault(COVERS.join(run.accounts_for(span)), set()).add(span.role)
    return [part_title(name) for name, owners in roles.items() if name and len(owners) > 1]


def _piece(covers: tuple[str, ...], owned: tuple[str, ...]) -> str:
    if owned == covers:
        return f"{', '.join(covers[:-1])} and {covers[-1]} are one interval"
    again = " and ".join(name for name in covers if name not in owned)
    return f"the interval recorded as {' + '.join(owned)} holds {again} once more, which was also measured apart"


def shares(data: ReportData) -> list[Block]:
    """Every stage of every configuration with its interval and its share of the total."""
    rows: list[tuple[Cell, ...]] = []
    for name, column in zip(data.names, data.columns, strict=True):
        own = badge_of(column.runs)
        parts = [(part, data.summary(column, readings.part(part))) for part in _parts(data, data.basis)]
        measured = [(part_title(part), summary) for part, summary in parts if summary]
        total = data.summary(column, readings.total(data.basis))
        whole = total.mean if total else sum(summary.mean for _, summary in measured)
        note = "" if total else "of the measured stages together: there is no total on this basis"
        rows += [
            row_of(
                "" if index else name,
                title,
                ms_cell(summary, own),
                ms_cell(summary.median, own),
                interval_cell(summary.ci95),
                share_cell(summary.mean / whole if whole else None, note=note),
                rows_cell(summary.count),
            )
            for index, (title, summary) in enumerate([*measured, *([("total", total)] if total else [])])
        ]
    heads = ("configuration", "stage", "mean ± std", "median", "95 % interval of the mean", "share", "n")
    return [Table(heads, tuple(rows), f"Stage by stage, {data.basis}", text_columns=2)] if rows else []


def operations(data: ReportData) -> list[Block]:
    """What each stage does, takes in, gives out, and its time and share; of the first configuration of every model."""
    return [_operations(data, column) for column in firsts_of_models(data, lambda run: bool(shape_of(run).blocks))]


def _operations(data: ReportData, column: Configuration) -> Table:
    own, first = badge_of(column.runs), column.runs[0]
    read = column.runs[:: -(-len(column.runs) // MOST_READ)]
    times = _part_times(read)
    total = data.summary(column, readings.total(data.basis))
    whole = total.mean if total else None
    rows: list[tuple[Cell, ...]] = []
    for part in readings.parts_of(first, data.basis):
        summary = data.summary(column, readings.part(part))
        covered = tuple(part.split(COVERS))
        span = next((span for span in first.stages(first.info.role) if first.accounts_for(span) == covered), None)
        share = summary.mean / whole if summary and whole else None
        words = "; ".join(OPERATIONS[name] for name in covered)
        rows.append(row_of(part_title(part), words, *_tensors(span), ms_cell(summary, own), share_cell(share)))
        # Decode steps are the stage itself.
        children = [] if span is None or part == "decode" else first.children(span.span_id)
        for child in list({one.name: one for one in reversed(children)}.values())[::-1]:
            spent = times.get((child.name, child.role), [])
            share = fmean(spent) / whole if spent and whole else None
            rows.append(row_of("", child.name, *_tensors(child), ms_cell(summarize(spent), own), share_cell(share)))
    caption = f"{data.name(column)}: inputs and outputs of its first run, mean times of {len(column.runs):,} runs"
    if len(read) < len(column.runs):
        caption += f"; times of parts of stages are means of {len(read):,} of these runs"
    return Table(("stage", "operation", "input", "output", "time", "share"), tuple(rows), caption, text_columns=4)


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
    return tensors_text(records, "in", has_dtype=True), tensors_text(records, "out", has_dtype=True)


def unnumbered(name: str) -> str:
    """ "frame" of "frame 3"."""
    match = _NUMBERED.match(name)
    return match[1] if match else name


def tensors_text(records: Iterable[TensorRecord], direction: str, *, has_dtype: bool = False) -> str:
    """`pixel_values [5, 3, 64, 64], text_ids [55]`; numbered ones of one shape as `5 × event frame [180, 240, 3]`."""
    counts = Counter(
        f"{unnumbered(record.name)} [{', '.join(part.strip() for part in record.shape.split(','))}]"
        + (f" {record.dtype}" if has_dtype else "")
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
    from_disk = partial(_loaded, data, name="bytes_from_disk", read=lambda loading: loading.facts.bytes_from_disk)

    def load(row: Row) -> Summary | None:
        return data.summary(row[0], ReportReading(f"load {row[1]}", lambda run: stage_ms(run, "load", row[1])))

    def share(row: Row) -> Cell:
        spent, total = load(row), data.summary(row[0], readings.total(END_TO_END))
        return share_cell(None if spent is None or total is None or not total.mean else spent.mean / total.mean)

    columns: ColumnsOf[Row] = [
        ("configuration", lambda row: _name(data, *row)),
        ("with", lambda row: _decoders(row[0].runs, row[1])),
        ("what", lambda row: _amount(data, row)),
        ("read", lambda row: bytes_cell(_loaded(data, row, "bytes", lambda loading: loading.facts.bytes_read))),
        ("from disk", lambda row: bytes_cell(from_disk(row))),
        ("rate", lambda row: _rate(data, row)),
        ("load, ms", lambda row: ms_cell(load(row), has_unit=False)),
        ("of the total", share),
    ]
    blocks: list[Block] = [
        table_of(rows, columns, "Input of stage load, means over samples and repeats", text_columns=2)
    ]
    if any(summary.mean for row in rows if (summary := from_disk(row))):
        text = (
            "Bytes from a disk were not in the page cache. --prefetch warm or cold makes that the same for every run."
        )
        blocks.append(Paragraph(text))
    return [*blocks, _load_parts(data, rows)]


def _loaded(data: ReportData, row: Row, name: str, read: Callable[[Loading], float | None]) -> Summary | None:
    column, role = row

    def of_run(run: RunLog) -> float | None:
        loading = loading_of(run, role)
        return None if loading is None else read(loading)

    return data.summary(column, ReportReading(f"loading {name} {role}", of_run))


def _name(data: ReportData, column: Configuration, role: str) -> str:
    return data.name(column) if role == column.runs[0].info.role else f"{data.name(column)} · {role}"


def _amount(data: ReportData, row: Row) -> Cell:
    events = _loaded(data, row, "events", lambda loading: loading.facts.events)
    if events is not None:
        return count_cell(events, "events")
    frames = _loaded(data, row, "frames", lambda loading: loading.facts.frames)
    return nothing_measured() if frames is None else count_cell(frames, "frames" if frames.mean != 1 else "frame")


def _rate(data: ReportData, row: Row) -> Cell:
    events = _loaded(data, row, "Mev/s", lambda loading: loading.events_per_s and loading.events_per_s / 1e6)
    if events is not None:
        return rate_cell(events, "Mev/s")
    return rate_cell(_loaded(data, row, "frames/s", lambda loading: loading.frames_per_s), "frames/s")


def _decoders(runs: Sequence[RunLog], role: str) -> str:
    """The decoders in order of the runs: "pyav", "pyav, frame cache hit"."""
    facts = (run.info.loading.get(role) for run in runs)
    return "; ".join(
        dict.fromkeys(
            one.decoder + (f", frame cache {one.frame_cache}" if one.frame_cache else "")
            for one in facts
            if one is not None and one.decoder
        )
    )


def _load_parts(data: ReportData, rows: list[Row]) -> Table:
    def cell(row: Row, name: str) -> Cell:
        spent = _loaded(data, row, f"part {name}", lambda loading: loading.part_ms.get(name))
        return Cell("") if spent is None else ms_cell(spent, has_unit=False)

    loadings = (loading_of(run, role) for column, role in rows for run in column.runs)
    names = dict.fromkeys(name for one in loadings if one for name in one.part_ms)
    columns: ColumnsOf[Row] = [
        ("configuration", lambda row: _name(data, *row)),
        *((name, partial(cell, name=name)) for name in names),
    ]
    return table_of(rows, columns, "Parts of stage load, ms")
