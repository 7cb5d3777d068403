"""The roofline of a report: what each stage had to do at least, against what the machine was measured to do at most."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.core.units import count_text
from evprof.export.report.data import ReportData
from evprof.export.report.figures import bytes_cell, number_text, share_cell, share_text
from evprof.export.report.parts import (
    POINTS,
    Badge,
    Block,
    Cell,
    Paragraph,
    PlotSeries,
    ReportPlot,
    Table,
    not_available,
)
from evprof.export.report.sections.evidence import ceiling_in, is_imported, sizes_in
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.limits.sizes import DeviceCeiling, ModelSizes
from evprof.metrics.limits.workload import NEAR, Work, works_of

_GIGA, _TERA = 1e9, 1e12


def flops_cell(value: float) -> Cell:
    """A number of operations from a model's shape."""
    text = f"{number_text(value / _TERA)} TFLOP" if value >= _TERA / 10 else f"{number_text(value / _GIGA)} GFLOP"
    return Cell(text, Badge.THEORETICAL)


def roofline_blocks(
    data: ReportData, noted: dict[str, ModelSizes], ceilings: list[DeviceCeiling], names: dict[int, str]
) -> list[Block]:
    """A table of all stages whose work is known, what is to be said of them, and the plot."""
    found: list[tuple[Configuration, Work, DeviceCeiling | None]] = []
    for column in data.columns:
        sizes = sizes_in(column.runs[0], noted)
        if sizes is not None:
            ceiling = ceiling_in(column.runs[0], ceilings)
            found += [(column, work, ceiling) for work in works_of(column.runs, sizes)]
    if not found:
        return [
            Paragraph(
                "No roofline: nothing notes the shape of these models. A suite does, and measures the ceilings of the "
                "machine; published 7B layouts are known without."
            )
        ]
    blocks: list[Block] = [_work_table(found, names)]
    blocks += [Paragraph(text, tone=tone) for text, tone in _remarks(found, names)]
    return [*blocks, _plot(found)]


def _work_table(found: Sequence[tuple[Configuration, Work, DeviceCeiling | None]], names: dict[int, str]) -> Table:
    """Shares of ceilings only where any were measured."""
    has_ceilings = any(ceiling is not None for _, _, ceiling in found)
    rows = []
    for column, work, ceiling in found:
        rates = Badge.IMPORTED if is_imported(column) else Badge.DERIVED
        own = (
            Cell(names[id(column)]),
            Cell(work.stage),
            flops_cell(work.flops),
            bytes_cell(work.bytes, Badge.THEORETICAL),
            Cell(number_text(work.intensity), Badge.THEORETICAL),
            Cell(number_text(work.flops_s / _GIGA), rates),
            Cell(number_text(work.bytes_s / _GIGA), rates),
        )
        rows.append((*own, *_shares(work, ceiling)) if has_ceilings else own)
    heads = ("configuration", "stage", "operations", "bytes", "FLOP/B", "GFLOP/s", "GB/s")
    return Table(
        (*heads, "MFU", "MBU", "bound by", "of the roof") if has_ceilings else heads,
        tuple(rows),
        caption="One pass of each stage (a decode step; a prefill; all frames) of the prompt of median length, in its "
        "median time: least operations and bytes by the model's shape, against the measured ceilings of the machine",
        text_columns=2,
    )


def _shares(work: Work, ceiling: DeviceCeiling | None) -> tuple[Cell, ...]:
    if ceiling is None:
        return (not_available("(no ceiling)"),) * 4
    near = work.attained(ceiling)
    bound = Cell("neither" if near < NEAR else work.bound(ceiling), Badge.DERIVED)
    return share_cell(work.mfu(ceiling)), _mbu_cell(work, ceiling), bound, share_cell(near)


def _fits_cache(work: Work, ceiling: DeviceCeiling) -> bool:
    return ceiling.cache_bytes is not None and work.bytes < ceiling.cache_bytes


def _mbu_cell(work: Work, ceiling: DeviceCeiling) -> Cell:
    note = (
        "fits the processor's cache, so that the bandwidth of memory is no limit" if _fits_cache(work, ceiling) else ""
    )
    return share_cell(work.mbu(ceiling), note=note)


def _remarks(
    found: Sequence[tuple[Configuration, Work, DeviceCeiling | None]], names: dict[int, str]
) -> list[tuple[str, str]]:
    said: list[tuple[str, str]] = []
    known = [(column, work, ceiling) for column, work, ceiling in found if ceiling is not None]
    low = [(column, work) for column, work, ceiling in known if work.attained(ceiling) < NEAR]
    if low:
        listed = dict.fromkeys(f"{names[id(column)]}: {work.stage}" for column, work in low)
        said.append(
            (
                f"Below {share_text(NEAR)} of the roof neither arithmetic nor memory takes the time, but what "
                f"surrounds them: dispatching, waiting, small matrices. That is so for {_some(list(listed))}.",
                "",
            )
        )
    if any(_fits_cache(work, ceiling) for _, work, ceiling in known):
        said.append(
            (
                "Where all bytes of a pass fit the processor's last-level cache, the measured bandwidth of memory is "
                "no ceiling: MBU may exceed 100 % there and says nothing of memory.",
                "warn",
            )
        )
    said += _without_ceiling(found, names)
    return said


def _some(places: list[str], most: int = 6) -> str:
    more = f"; and {len(places) - most} others of the table" if len(places) > most else ""
    return "; ".join(places[:most]) + more


def _without_ceiling(
    found: Sequence[tuple[Configuration, Work, DeviceCeiling | None]], names: dict[int, str]
) -> list[tuple[str, str]]:
    """Where no machine was measured, a run's own decoding tells what bandwidth there was at least."""
    said = []
    by_column: dict[int, dict[str, Work]] = {}
    for column, work, ceiling in found:
        if ceiling is None:
            by_column.setdefault(id(column), {})[work.stage] = work
    for key, works in by_column.items():
        if not {"prefill", "decode"} <= works.keys():
            continue
        prefill, rate = works["prefill"], works["decode"].bytes_s
        share = prefill.bytes / rate / prefill.seconds
        kind = "memory" if share > 1 / 2 else "arithmetic, not by memory"
        text = (
            f"{names[key]}: no ceilings were measured, but its decode steps read {number_text(rate / _GIGA)} GB/s. At "
            f"that rate the bytes of its prefill take {number_text(1000 * prefill.bytes / rate)} of "
            f"{number_text(1000 * prefill.seconds)} ms ({share_text(share)}), so the prefill is bound by {kind}."
        )
        said.append((text, ""))
    return said


def _plot(found: Sequence[tuple[Configuration, Work, DeviceCeiling | None]]) -> ReportPlot:
    together: dict[tuple[str, str, Badge], list[Work]] = {}  # by model, stage and where it is from
    for column, work, _ in found:
        run = column.runs[0]
        model = run.info.models.get(run.info.role)
        badge = Badge.IMPORTED if is_imported(column) else Badge.DERIVED
        together.setdefault((model.name if model else run.info.role, work.stage, badge), []).append(work)
    series = []
    for (name, stage, badge), works in together.items():
        points = sorted({(work.intensity, work.flops_s / _GIGA) for work in works})
        x, y = tuple(x for x, _ in points), tuple(y for _, y in points)
        series.append(PlotSeries(f"{name}: {stage}", x, y, stage, badge=badge, family=name))
    low = min(work.intensity for _, work, _ in found) / 2
    high = max(work.intensity for _, work, _ in found) * 2
    for ceiling in dict.fromkeys(ceiling for _, _, ceiling in found if ceiling is not None):
        x = tuple(sorted({low, min(max(ceiling.balance, low), high), high}))
        y = tuple(min(value * ceiling.bandwidth_bytes_s, ceiling.matmul_flops_s) / _GIGA for value in x)
        threads = f", {count_text(ceiling.threads, 'thread')}" if ceiling.device == "cpu" else ""
        name = f"ceiling of {ceiling.device} in {ceiling.dtype}{threads}"
        series.append(PlotSeries(name, x, y, is_line=True, badge=Badge.MEASURED))
    return ReportPlot(
        POINTS,
        "Roofline",
        tuple(series),
        x_title="operations per byte",
        y_title="operations a second",
        unit="GFLOP/s",
        caption="A point on the sloping line is bound by memory, on the level one by arithmetic, below both by neither",
        is_log_x=True,
        is_log_y=True,
    )
