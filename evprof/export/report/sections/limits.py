"""Section: theory beside measurement: prefill, cache formula, roofline, and how many samples fit in a memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evprof.core.run_log import RunLog
from evprof.core.units import MIB, count_text, memory_text
from evprof.core.vocabulary.modes import mode_of
from evprof.export.report.data import ReportData, badge_of, is_imported
from evprof.export.report.figures import (
    bytes_cell,
    count_cell,
    ms_cell,
    number_text,
    ratio_cell,
    ratio_text,
    share_cell,
    share_text,
)
from evprof.export.report.pairs import MOST_PAIRS, ConfigurationPair, ceiling_in, noted_models, pairs_of, sizes_in
from evprof.export.report.parts import (
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
    headed,
    not_available,
    row_of,
    section_of,
    table_of,
)
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.estimates import Verdict
from evprof.metrics.estimates.paired import compare, mean_of
from evprof.metrics.figures.decoding import input_length
from evprof.metrics.figures.kv_cache import bytes_per_position, formula_bytes, measured_bytes
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.limits.sizes import ITEM_BYTES, Capacity, DeviceCeiling, ModelSizes
from evprof.metrics.limits.workload import NEAR, Work, holds_vision, linear_share, prefill_flops, works_of

CARD_BYTES = 24_000 * MIB
"""A "24 GB" card as the documents count it; PyTorch sees about 23.5 GiB on one."""

WITHIN = 1.25
"""Ratios nearer than this to each other are called equal: operations are counted, not how well they are done."""

PACKED_CACHES = ("fp8", "hqq8", "hqq4")
_GIGA, _TERA = 1e9, 1e12


def section(data: ReportData) -> Section:
    """Prefill ratios, cache bytes, the roofline, and capacities."""
    blocks = [*theory(data), *headed("How many samples fit at once", capacity(data))]
    missing = "Runs that say how long prompts were, of models whose shape a suite noted."
    return section_of("Theory and limits", blocks, missing)


def theory(data: ReportData) -> list[Block]:
    """Prefill ratios, cache bytes, and shares of the ceilings with a roofline."""
    blocks = [block for pair in pairs_of(data)[:MOST_PAIRS] for block in _prefill(pair, data)]
    return [*blocks, *_cache(data), *_roofline(data)]


def _prefill(pair: ConfigurationPair, data: ReportData) -> list[Block]:
    """Squares of the lengths, operations, and the measured times of two prefills."""
    lengths = [mean_of(column, input_length) for column in pair.sides]
    if not lengths[0] or not lengths[1] or lengths[0] == lengths[1]:
        return []
    measured = compare(pair.base, pair.other, lambda run: stage_ms(run, "prefill"))
    one, two = round(lengths[0]), round(lengths[1])
    badge, square = badge_of(pair.runs), two**2 / one**2
    rows = [
        row_of("prompt positions", *_counts(badge, one, two), Cell(ratio_text(two / one), Badge.DERIVED)),
        row_of("positions squared", *_counts(Badge.THEORETICAL, one**2, two**2), _theory(ratio_text(square))),
    ]
    sizes = [sizes_in(data, column.runs[0]) for column in pair.sides]
    flops = attention = None
    if sizes[0] is not None and sizes[1] is not None:
        counted = prefill_flops(sizes[0].text, one), prefill_flops(sizes[1].text, two)
        shares = linear_share(sizes[0], one), linear_share(sizes[1], two)
        flops, attention = counted[1] / counted[0], 1 - shares[1]
        rows.append(row_of("operations of the prefill", *map(_flops, counted), _theory(ratio_text(flops))))
        cells = (share_cell(share, Badge.THEORETICAL) for share in shares)
        rows.append(row_of("of these linear in the prompt", *cells, ""))
    if measured is not None and measured.ratio is not None:
        times = (ms_cell(mean, badge) for mean in measured.means)
        rows.append(row_of("measured prefill", *times, ratio_cell(measured.ratio, measured.interval)))
    base, other = map(data.name, pair.sides)
    table = Table(("", base, other, "ratio"), tuple(rows), f"Prefill of {other} against {base}")
    if measured is None or not measured.ratio:
        return [table]
    text = _prefill_sentence(square, flops, attention, measured)
    if sizes[0] and sizes[1] and sizes[0].text.layer_weights != sizes[1].text.layer_weights:
        text += " The models are not equally large, so lengths alone explain little."
    if holds_vision(pair.other.runs[0]):
        text += " The measured time holds the vision pass once more, which these operations leave out."
    return [table, Paragraph(text, badge=Badge.DERIVED)]


def _counts(badge: Badge, *counts: int) -> list[Cell]:
    return [count_cell(count, badge=badge) for count in counts]


def _theory(text: str) -> Cell:
    return Cell(text, Badge.THEORETICAL)


def _flops(value: float) -> Cell:
    is_large = value >= _TERA / 10
    return _theory(f"{number_text(value / (_TERA if is_large else _GIGA))} {'TFLOP' if is_large else 'GFLOP'}")


def _prefill_sentence(square: float, flops: float | None, attention: float | None, measured: Verdict) -> str:
    ratio = measured.ratio or 0.0
    text = f"Were attention all, the ratio would be {ratio_text(square)}; measured is {ratio_text(ratio)}. "
    if flops is None or attention is None:
        return text + "How much of a prefill attention is depends on the model's shape, which is not noted here."
    text += (
        f"But attention is only {share_text(attention)} of these operations, the layers, linear in the prompt, are the "
        f"rest: together they give {ratio_text(flops)}. "
    )
    low, high = measured.interval or (ratio, ratio)
    if low < flops / WITHIN and high > flops * WITHIN:
        return text + "The interval of the measured ratio is too wide to judge whether that explains it."
    if abs(math.log(ratio / flops)) <= math.log(WITHIN):
        return text + "That is what was measured, to within a quarter: the number of operations explains the ratio."
    if ratio < flops:
        return text + "Measured is less: the shorter prompt does not use the machine as well, or pays fixed costs."
    return text + "Measured is more: something besides operations grows with the prompt."


def _cache(data: ReportData) -> list[Block]:
    """The cache by formula and as measured, of one run of each configuration."""
    rows = []
    for column in data.columns:
        run = next((run for run in column.runs if measured_bytes(run) is not None), None)
        model = run.info.models.get(run.info.role) if run is not None else None
        if run is None or model is None:
            continue
        expected = formula_bytes(run)
        if expected is None and is_imported(column):
            expected = bytes_per_position(model) * (input_length(run) or 0)
        if not expected:
            continue
        measured = measured_bytes(run) or 0
        ratio = measured / expected
        is_close = abs(ratio - 1) < 0.005
        is_packed = not is_close and model.cache in PACKED_CACHES
        note = f"kept as {model.cache}: the formula counts unpacked elements" if is_packed else ""
        rows.append(
            row_of(
                data.name(column),
                f"2 · {model.layers} · {model.kv_heads} · {model.head_dim} · {model.kv_element_bytes} B · "
                f"{expected // bytes_per_position(model)}",
                bytes_cell(expected, Badge.THEORETICAL),
                bytes_cell(measured, badge_of([run])),
                Cell(f"{ratio:.3f}", Badge.DERIVED, tone="" if is_close else "warn", note=note),
            )
        )
    heads = ("configuration", "formula", "by formula", "measured", "measured / formula")
    caption = (
        "KV cache: 2 (keys and values) · layers · heads · head dimension · bytes of an element · positions; the last "
        "token of an answer has no position, and files count the prompt only"
    )
    return [Table(heads, tuple(rows), caption, text_columns=2)] if rows else []


@dataclass(frozen=True)
class StageWork:
    """A stage's operations and bytes, and the ceiling of the machine it ran on, where one was measured."""

    column: Configuration
    work: Work
    ceiling: DeviceCeiling | None

    @property
    def fits_cache(self) -> bool:
        """Whether all bytes of a pass fit the processor's last-level cache."""
        known = self.ceiling.cache_bytes if self.ceiling else None
        return known is not None and self.work.bytes < known


def _roofline(data: ReportData) -> list[Block]:
    """All stages whose work is known, in a table with remarks, and the plot."""
    works = [
        StageWork(column, work, ceiling_in(data, column.runs[0]))
        for column in data.columns
        if (sizes := sizes_in(data, column.runs[0])) is not None
        for work in works_of(column.runs, sizes)
    ]
    if not works:
        return []
    blocks: list[Block] = [_work_table(works, data)]
    low = [f"{data.name(one.column)}: {one.work.stage}" for one in works if _attained(one) < NEAR]
    if low:
        more = f"; and {len(low) - 6} others of the table" if len(low) > 6 else ""
        text = (
            f"Below {share_text(NEAR)} of the roof neither arithmetic nor memory takes the time, but dispatching, "
            f"waiting or small matrices: {'; '.join(low[:6])}{more}."
        )
        blocks.append(Paragraph(text))
    if any(one.fits_cache for one in works):
        text = "Bytes that fit the processor's cache make MBU meaningless: there MBU may exceed 100 %."
        blocks.append(Paragraph(text, "warn"))
    return [*blocks, _roofline_plot(works)]


def _attained(one: StageWork) -> float:
    return 1.0 if one.ceiling is None else one.work.attained(one.ceiling)


def _work_table(works: Sequence[StageWork], data: ReportData) -> Table:
    """Shares of ceilings only where any were measured."""

    def rate(one: StageWork, value: float) -> Cell:
        return Cell(number_text(value / _GIGA), badge_of(one.column.runs, Badge.DERIVED))

    def against(one: StageWork, column: str) -> Cell:
        work, ceiling = one.work, one.ceiling
        if ceiling is None:
            return not_available("(no ceiling)")
        if column == "bound by":
            return Cell("neither" if work.attained(ceiling) < NEAR else work.bound(ceiling), Badge.DERIVED)
        shares = {"MFU": work.mfu, "MBU": work.mbu, "of the roof": work.attained}
        note = "fits the processor's cache" if column == "MBU" and one.fits_cache else ""
        return share_cell(shares[column](ceiling), note=note)

    columns: ColumnsOf[StageWork] = [
        ("configuration", lambda one: data.name(one.column)),
        ("stage", lambda one: one.work.stage),
        ("operations", lambda one: _flops(one.work.flops)),
        ("bytes", lambda one: bytes_cell(one.work.bytes, Badge.THEORETICAL)),
        ("FLOP/B", lambda one: _theory(number_text(one.work.intensity))),
        ("GFLOP/s", lambda one: rate(one, one.work.flops_s)),
        ("GB/s", lambda one: rate(one, one.work.bytes_s)),
    ]
    if any(one.ceiling for one in works):
        heads = ("MFU", "MBU", "bound by", "of the roof")
        columns = [*columns, *((head, lambda one, head=head: against(one, head)) for head in heads)]
    caption = (
        "One pass of each stage (a decode step; a prefill; all frames) of the prompt of median length, in its median "
        "time: least operations and bytes by the model's shape, against the measured ceilings of the machine"
    )
    return table_of(works, columns, caption, text_columns=2)


def _roofline_plot(works: Sequence[StageWork]) -> ReportPlot:
    together: dict[tuple[str, str, Badge], set[tuple[float, float]]] = {}
    for one in works:
        info = one.column.runs[0].info
        model = info.models.get(info.role)
        key = (model.name if model else info.role, one.work.stage, badge_of(one.column.runs, Badge.DERIVED))
        together.setdefault(key, set()).add((one.work.intensity, one.work.flops_s / _GIGA))
    series = []
    for (name, stage, badge), found in together.items():
        points = sorted(found)
        x, y = tuple(x for x, _ in points), tuple(y for _, y in points)
        series.append(PlotSeries(f"{name}: {stage}", x, y, stage, badge=badge))
    low = min(one.work.intensity for one in works) / 2
    high = max(one.work.intensity for one in works) * 2
    for ceiling in dict.fromkeys(one.ceiling for one in works if one.ceiling is not None):
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
        is_log=True,
    )


def capacity(data: ReportData) -> list[Block]:
    """Measured caches against a 24 GB card, and what a suite computed for this machine."""
    # A speculative run has two models and two caches: their number is no question of a batch.
    measured = [
        column
        for column in data.columns
        if not mode_of(column.runs[0].info.mode).is_paired and mean_of(column, measured_bytes)
    ]
    blocks: list[Block] = [_measured(measured, data)] if measured else []
    planned = dict.fromkeys((one, fit) for one in noted_models(data).values() for fit in one.capacities)
    if planned:
        blocks.append(_planned(planned))
    if not blocks:
        return []
    text = (
        "The naive figure is memory / KV cache of one sample. It ignores the weights, which are there once, and the "
        "activations, which grow with the batch; document 002's ~75 and ~10 samples in 24 GB are naive."
    )
    blocks.append(Paragraph(text, "warn"))
    return blocks


def _measured(columns: list[Configuration], data: ReportData) -> Table:
    def cache(column: Configuration) -> float:
        return mean_of(column, measured_bytes) or 0.0

    def weights(column: Configuration) -> Cell:
        run = column.runs[0]
        size, model = weights_of(run), run.info.models.get(run.info.role)
        own = badge_of([run]) if model and model.weight_bytes else Badge.THEORETICAL
        return not_available("(not known)") if size is None else bytes_cell(size, own)

    def beside(column: Configuration) -> Cell:
        size = weights_of(column.runs[0])
        if size is None:
            return not_available("(weights not known)")
        return count_cell(max(0, int((CARD_BYTES - size) / cache(column))), badge=Badge.DERIVED)

    heads: ColumnsOf[Configuration] = [
        ("configuration", data.name),
        ("KV cache of a sample", lambda column: bytes_cell(cache(column), badge_of(column.runs))),
        ("naive", lambda column: count_cell(int(CARD_BYTES / cache(column)), badge=Badge.DERIVED)),
        ("weights", weights),
        ("beside weights, at most", beside),
    ]
    return table_of(columns, heads, "Samples in a 24 GB card (24,000 MiB), as long as the measured ones")


def weights_of(run: RunLog) -> int | None:
    """Bytes of a model's weights: recorded, or of an unquantized one its parameters in its dtype; None if unknown."""
    model = run.info.models.get(run.info.role)
    if model is None or model.weight_bytes:
        return model.weight_bytes if model else None
    item = ITEM_BYTES.get(model.dtype)
    return model.parameters * item if item and model.parameters and model.quantization is None else None


def _planned(planned: dict[tuple[ModelSizes, Capacity], None]) -> Table:
    def memory(plan: tuple[ModelSizes, Capacity]) -> str:
        kind = "a 24 GB card" if plan[1].is_assumed else "free here at the start"
        return f"{kind}, {memory_text(plan[1].memory_bytes)}"

    def settings(plan: tuple[ModelSizes, Capacity]) -> str:
        frames = count_text(plan[1].frames, "frame") if plan[1].frames else ""
        return ", ".join(word for word in (plan[1].dtype, plan[1].quantization, frames) if word)

    columns: ColumnsOf[tuple[ModelSizes, Capacity]] = [
        ("model", lambda plan: plan[0].name),
        ("memory", memory),
        ("as", settings),
        ("positions", lambda plan: count_cell(plan[1].positions, badge=Badge.THEORETICAL)),
        ("KV cache", lambda plan: bytes_cell(plan[1].kv_bytes_per_sample, Badge.THEORETICAL)),
        ("naive", lambda plan: count_cell(plan[1].naive, badge=Badge.THEORETICAL)),
        ("weights", lambda plan: bytes_cell(plan[1].weight_bytes, Badge.THEORETICAL)),
        ("activations a sample", lambda plan: bytes_cell(plan[1].activation_bytes_per_sample, Badge.THEORETICAL)),
        ("real", lambda plan: count_cell(plan[1].real, badge=Badge.THEORETICAL, tone="" if plan[1].real else "bad")),
    ]
    caption = "Batches by the models' shapes, each model alone; positions as long as the suite's settings allow"
    return table_of(planned, columns, caption, text_columns=3)
