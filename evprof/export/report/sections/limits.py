"""Section: theory beside measurement: prefill, cache formula, roofline, samples that fit in a memory, and what if."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from evprof.core.records import COVERS, DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.core.units import MIB, TIMES, count_text
from evprof.core.vocabulary.modes import mode_of
from evprof.export.report import figures as fmt
from evprof.export.report import parts as doc
from evprof.export.report.data import ReportData, badge_of, is_imported
from evprof.export.report.pairs import MOST_PAIRS, ConfigurationPair, ceiling_in, pairs_of, sizes_in
from evprof.export.report.parts import Badge, Block, Cell, ColumnsOf, Paragraph, PlotSeries, ReportPlot, Section, Table
from evprof.metrics.comparison.differences import common_blocks, part_reader
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.paired import compare, mean_of
from evprof.metrics.figures.decoding import input_length
from evprof.metrics.figures.kv_cache import bytes_per_position, formula_bytes, measured_bytes
from evprof.metrics.figures.stages import stage_ms, unattributed_ms
from evprof.metrics.limits.sizes import ITEM_BYTES, DeviceCeiling
from evprof.metrics.limits.workload import NEAR, Work, holds_vision, linear_share, prefill_flops, works_of
from evprof.metrics.speculation import break_even
from evprof.metrics.speculation.payoff import pace_of

CARD_BYTES = 24_000 * MIB
"""A "24 GB" card as the documents count it; PyTorch sees about 23.5 GiB on one."""

PACKED_CACHES = ("fp8", "hqq8", "hqq4")
"""Kinds of cache whose bytes are not the formula's."""

BOUNDS = "A point on the sloping line is bound by memory, on the level one by arithmetic, below both by neither"
UNBOUND = "No ceiling of this machine was measured: nothing is said of what binds a stage"

FACTORS = {f"2{TIMES}": 2.0, f"4{TIMES}": 4.0, "∞": math.inf}
"""Assumed speeds of a stage; infinity is a stage without cost."""

ASSUMED_RATES, OUTPUT_LENGTHS = (0.5, 0.8, 0.95), (5, 20, 50, 100)
"""Assumed acceptance and tokens of an answer; document 002 expects 80 % of its adapter."""

_GIGA, _TERA = 1e9, 1e12


def section(data: ReportData) -> Section:
    fit, assumed = doc.headed("How many samples fit at once", capacity(data)), doc.headed("What if", what_if(data))
    blocks = [*theory(data), *fit, *assumed]
    missing = "Runs that say how long prompts were, of models whose shape a suite noted."
    return doc.section_of("Theory and limits", blocks, missing)


def theory(data: ReportData) -> list[Block]:
    """Prefill ratios, cache bytes, and shares of the ceilings with a roofline."""
    blocks = [block for pair in pairs_of(data)[:MOST_PAIRS] for block in _prefill(pair, data)]
    return [*blocks, *_cache(data), *_roofline(data)]


def _prefill(pair: ConfigurationPair, data: ReportData) -> list[Block]:
    """Squares of the lengths, operations, and the measured times of two prefills."""
    lengths = [mean_of(column, input_length) for column in pair.sides]
    if not lengths[0] or not lengths[1] or lengths[0] == lengths[1]:
        return []
    one, two = round(lengths[0]), round(lengths[1])
    badge, square = badge_of(pair.runs), two**2 / one**2
    counts = [fmt.count_cell(count, badge=badge) for count in (one, two)]
    squares = [fmt.count_cell(count**2, badge=Badge.THEORETICAL) for count in (one, two)]
    rows = [
        doc.row_of("prompt positions", *counts, Cell(fmt.ratio_text(two / one), Badge.DERIVED)),
        doc.row_of("positions squared", *squares, _theory(fmt.ratio_text(square))),
    ]
    sizes = [sizes_in(data, column.runs[0]) for column in pair.sides]
    text = f"If attention were all, the ratio would be {fmt.ratio_text(square)}."
    if sizes[0] is not None and sizes[1] is not None:
        operations = prefill_flops(sizes[0].text, one), prefill_flops(sizes[1].text, two)
        shares = linear_share(sizes[0], one), linear_share(sizes[1], two)
        ratio = fmt.ratio_text(operations[1] / operations[0])
        rows.append(doc.row_of("operations of the prefill", *map(_flops, operations), _theory(ratio)))
        cells = (fmt.share_cell(share, Badge.THEORETICAL) for share in shares)
        rows.append(doc.row_of("of these linear in the prompt", *cells, ""))
        text += (
            f" But attention is only {fmt.share_text(1 - shares[1])} of the operations; the layers are linear in the "
            f"prompt, and together they give {ratio}."
        )
        if sizes[0].text.layer_weights != sizes[1].text.layer_weights:
            text += " The models are not equally large, so lengths alone explain little."
    measured = compare(pair.base, pair.other, lambda run: stage_ms(run, "prefill"))
    if measured is not None and measured.ratio is not None:
        times = (fmt.ms_cell(mean, badge) for mean in measured.means)
        rows.append(doc.row_of("measured prefill", *times, fmt.verdict_cell(measured)))
        text += f" The measured ratio is {fmt.ratio_text(measured.ratio)}."
    if holds_vision(pair.other.runs[0]):
        text += " The measured time holds the vision pass once more, which these operations leave out."
    base, other = map(data.name, pair.sides)
    table = Table(("", base, other, "ratio"), tuple(rows), f"Prefill of {other} against {base}")
    return [table, Paragraph(text, badge=Badge.DERIVED)]


def _theory(text: str) -> Cell:
    return Cell(text, Badge.THEORETICAL)


def _flops(value: float) -> Cell:
    is_large = value >= _TERA / 10
    return _theory(f"{fmt.number_text(value / (_TERA if is_large else _GIGA))} {'TFLOP' if is_large else 'GFLOP'}")


def _cache(data: ReportData) -> list[Block]:
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
            doc.row_of(
                data.name(column),
                f"2 · {model.layers} · {model.kv_heads} · {model.head_dim} · {model.kv_element_bytes} B · "
                f"{expected // bytes_per_position(model)}",
                fmt.bytes_cell(expected, Badge.THEORETICAL),
                fmt.bytes_cell(measured, badge_of([run])),
                Cell(f"{ratio:.3f}", Badge.DERIVED, tone="" if is_close else "warn", note=note),
            )
        )
    heads = ("configuration", "formula", "by formula", "measured", "measured / formula")
    caption = (
        "KV cache: 2 (keys and values) · layers · heads · head dimension · bytes of an element · positions; the last "
        "token of an answer has no position, and files count the prompt only"
    )
    return [Table(heads, tuple(rows), caption, text_columns=2)] if rows else []


StageWork = tuple[Configuration, Work, DeviceCeiling | None]
"""A stage's operations and bytes, and the measured ceiling of its machine."""


def _roofline(data: ReportData) -> list[Block]:
    works = [
        (column, work, ceiling_in(data, column.runs[0]))
        for column in data.columns
        if (sizes := sizes_in(data, column.runs[0])) is not None
        for work in works_of(column.runs, sizes)
    ]
    return [_work_table(works, data), _roofline_plot(works)] if works else []


def _work_table(works: Sequence[StageWork], data: ReportData) -> Table:
    """Shares of ceilings only where any were measured."""

    def rate(one: StageWork, value: float) -> Cell:
        return Cell(fmt.number_text(value / _GIGA), badge_of(one[0].runs, Badge.DERIVED))

    def bound(one: StageWork) -> Cell:
        _, work, ceiling = one
        if ceiling is None:
            return doc.not_available("(no ceiling)")
        is_other = work.attained(ceiling) < NEAR
        note = f"below {fmt.share_text(NEAR)} of the roof: dispatching, waiting or small matrices" if is_other else ""
        return Cell("neither" if is_other else work.bound(ceiling), Badge.DERIVED, note=note)

    def share(one: StageWork, name: str) -> Cell:
        _, work, ceiling = one
        if ceiling is None:
            return doc.not_available("(no ceiling)")
        fits_cache = name == "mbu" and ceiling.cache_bytes is not None and work.bytes < ceiling.cache_bytes
        note = "the bytes fit the processor's cache, so that MBU means nothing" if fits_cache else ""
        return fmt.share_cell(getattr(work, name)(ceiling), note=note)

    columns: ColumnsOf[StageWork] = [
        ("configuration", lambda one: data.name(one[0])),
        ("stage", lambda one: one[1].stage),
        ("operations", lambda one: _flops(one[1].flops)),
        ("bytes", lambda one: fmt.bytes_cell(one[1].bytes, Badge.THEORETICAL)),
        ("FLOP/B", lambda one: _theory(fmt.number_text(one[1].intensity))),
        ("GFLOP/s", lambda one: rate(one, one[1].flops_s)),
        ("GB/s", lambda one: rate(one, one[1].bytes_s)),
    ]
    if any(ceiling for _, _, ceiling in works):
        columns = [
            *columns,
            ("MFU", lambda one: share(one, "mfu")),
            ("MBU", lambda one: share(one, "mbu")),
            ("bound by", bound),
            ("of the roof", lambda one: share(one, "attained")),
        ]
    caption = (
        "One pass of each stage (a decode step; a prefill; all frames) of the prompt of median length, in its median "
        "time: least operations and bytes by the model's shape, against the measured ceilings of the machine"
    )
    return doc.table_of(works, columns, caption, text_columns=2)


def _roofline_plot(works: Sequence[StageWork]) -> ReportPlot:
    together: dict[tuple[str, str, Badge], set[tuple[float, float]]] = {}
    for column, work, _ in works:
        info = column.runs[0].info
        model = info.models.get(info.role)
        key = (model.name if model else info.role, work.stage, badge_of(column.runs, Badge.DERIVED))
        together.setdefault(key, set()).add((work.intensity, work.flops_s / _GIGA))
    series = []
    for (name, stage, badge), found in together.items():
        x, y = zip(*sorted(found), strict=True)
        series.append(PlotSeries(f"{name}: {stage}", x, y, stage, badge=badge))
    low = min(work.intensity for _, work, _ in works) / 2
    high = max(work.intensity for _, work, _ in works) * 2
    ceilings = dict.fromkeys(ceiling for _, _, ceiling in works if ceiling is not None)
    for ceiling in ceilings:
        x = tuple(sorted({low, min(max(ceiling.balance, low), high), high}))
        y = tuple(min(value * ceiling.bandwidth_bytes_s, ceiling.matmul_flops_s) / _GIGA for value in x)
        threads = f", {count_text(ceiling.threads, 'thread')}" if ceiling.device == "cpu" else ""
        name = f"ceiling of {ceiling.device} in {ceiling.dtype}{threads}"
        series.append(PlotSeries(name, x, y, is_line=True, badge=Badge.MEASURED))
    return ReportPlot(
        doc.POINTS,
        "Roofline",
        tuple(series),
        x_title="operations per byte",
        y_title="operations a second",
        unit="GFLOP/s",
        caption=BOUNDS if ceilings else UNBOUND,
        is_log=True,
    )


def capacity(data: ReportData) -> list[Block]:
    def cache(column: Configuration) -> float:
        return mean_of(column, measured_bytes) or 0.0

    def weights(column: Configuration) -> Cell:
        run = column.runs[0]
        size, model = weights_of(run), run.info.models.get(run.info.role)
        own = badge_of([run]) if model and model.weight_bytes else Badge.THEORETICAL
        return doc.not_available("(not known)") if size is None else fmt.bytes_cell(size, own)

    def beside(column: Configuration) -> Cell:
        size = weights_of(column.runs[0])
        if size is None:
            return doc.not_available("(weights not known)")
        return fmt.count_cell(max(0, int((CARD_BYTES - size) / cache(column))), badge=Badge.DERIVED)

    # A speculative run has two models and two caches: no batch has their sum.
    shown = [column for column in data.columns if not mode_of(column.runs[0].info.mode).is_paired and cache(column)]
    if not shown:
        return []
    table = data.table(
        [
            ("KV cache of a sample", lambda column: fmt.bytes_cell(cache(column), badge_of(column.runs))),
            ("naive", lambda column: fmt.count_cell(int(CARD_BYTES / cache(column)), badge=Badge.DERIVED)),
            ("weights", weights),
            ("beside weights, at most", beside),
        ],
        "Samples in a 24 GB card (24,000 MiB), as long as the measured ones",
        shown,
    )
    text = (
        "The naive figure is memory / KV cache of one sample. It ignores the weights, which are there once, and the "
        "activations, which grow with the batch; document 002's ~75 and ~10 samples in 24 GB are naive."
    )
    return [table, Paragraph(text, "warn")]


def weights_of(run: RunLog) -> int | None:
    """Bytes of a model's weights: recorded, or of an unquantized one its parameters in its dtype; None if unknown."""
    model = run.info.models.get(run.info.role)
    if model is None or model.weight_bytes:
        return model.weight_bytes if model else None
    item = ITEM_BYTES.get(model.dtype)
    return model.parameters * item if item and model.parameters and model.quantization is None else None


def what_if(data: ReportData) -> list[Block]:
    """Amdahl's law for every stage, and expected totals by output length with hidden drafts."""
    pairs = pairs_of(data)
    columns = list({id(side): side for pair in pairs for side in pair.sides}.values()) or list(data.columns)
    blocks: list[Block] = [table for column in columns[:MOST_PAIRS] if (table := _amdahl(column, data)) is not None]
    for pair in pairs:
        paces = pace_of(pair.base), pace_of(pair.other)
        roles = [column.runs[0].info.role for column in pair.sides]
        if roles == [DRAFT, TARGET] and paces[0] is not None and paces[1] is not None:
            return [*blocks, *_expected(paces[0], paces[1], data.name(pair.other))]
    return blocks


def _amdahl(column: Configuration, data: ReportData) -> Table | None:
    spent = {COVERS.join(block): mean_of(column, part_reader(block)) for block in common_blocks([column])}
    parts = {name: value for name, value in spent.items() if value is not None}
    whole = sum(parts.values()) + (mean_of(column, unattributed_ms) or 0.0)
    # Of a file that ends before it begins, parts and rest can add up to nothing.
    if len(parts) < 2 or not sum(parts.values()) or whole <= 0:
        return None

    def saved_cell(part: tuple[str, float], factor: float) -> Cell:
        saved = part[1] * (1 - 1 / factor)
        return Cell(f"{fmt.share_text(saved / whole)} (to {fmt.number_text(whole - saved)} ms)", Badge.DERIVED)

    return doc.table_of(
        parts.items(),
        [
            ("stage", lambda part: part[0]),
            ("now", lambda part: fmt.ms_cell(part[1], badge_of(column.runs))),
            ("share", lambda part: fmt.share_cell(part[1] / whole)),
            *((f"saves at {name}", partial(saved_cell, factor=factor)) for name, factor in FACTORS.items()),
        ],
        f"{data.name(column)}: saved of the measured {fmt.number_text(whole)} ms when one stage alone gets faster; ∞ "
        "is a stage without cost",
    )


def _expected(draft: break_even.AnswerPace, target: break_even.AnswerPace, name: str) -> list[Block]:
    free = break_even.free_tokens(target.prefix_ms, draft)

    def hidden(tokens: int, rate: float) -> Cell:
        total_ms, accepted = break_even.with_hidden_drafts(target, draft, tokens, rate)
        text = f"{fmt.number_text(total_ms)} ms ({fmt.ratio_text(target.total_ms(tokens) / total_ms)})"
        return Cell(text, Badge.DERIVED, note=f"{fmt.number_text(accepted)} of {free} free tokens accepted")

    table = doc.table_of(
        OUTPUT_LENGTHS,
        [
            ("tokens", lambda tokens: fmt.count_cell(tokens, badge=Badge.THEORETICAL)),
            (f"{name} alone", lambda tokens: fmt.ms_cell(target.total_ms(tokens), Badge.DERIVED)),
            *((f"a = {fmt.share_text(rate)}", partial(hidden, rate=rate)) for rate in ASSUMED_RATES),
        ],
        "Expected totals by output length with one block drafted while the target prefills, on a device of its own; "
        "a is the assumed acceptance of every token",
    )
    text = (
        f"While the target prefills ({fmt.number_text(target.prefix_ms)} ms, from its own start), a draft on a second "
        f"device without contention gives {free} tokens; it needs {fmt.number_text(draft.prefix_ms)} ms until its "
        "first."
    )
    return [table, Paragraph(text, badge=Badge.DERIVED)]
