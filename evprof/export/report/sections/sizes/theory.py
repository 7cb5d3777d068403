"""Section: what theory says beside what was measured: attention and linear parts, the cache's formula, the roofline."""

from __future__ import annotations

import math

from evprof.core.run_log import RunLog
from evprof.export.report.data import ReportData
from evprof.export.report.figures import (
    bytes_cell,
    count_cell,
    ms_cell,
    ratio_cell,
    ratio_text,
    share_cell,
    share_text,
)
from evprof.export.report.parts import (
    Badge,
    Block,
    Cell,
    Paragraph,
    Section,
    Table,
)
from evprof.export.report.sections.evidence import (
    MOST_PAIRS,
    ConfigurationPair,
    badge_of,
    names_of,
    noted_ceilings,
    noted_models,
    pairs_of,
    sizes_in,
)
from evprof.export.report.sections.sizes.roofline import flops_cell, roofline_blocks
from evprof.metrics.estimates.paired import Compared, compare, mean_of
from evprof.metrics.figures.decoding import input_length
from evprof.metrics.figures.kv_cache import bytes_per_position, formula_bytes, measured_bytes
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.limits.roofline import prefill_flops
from evprof.metrics.limits.sizes import ModelSizes
from evprof.metrics.limits.workload import holds_vision, linear_share

TITLE = "Theory and measurement"


def section(data: ReportData) -> Section:
    """Prefill ratios, cache bytes, shares of the ceilings, and a roofline."""
    noted, ceilings, names = noted_models(data), noted_ceilings(data), names_of(data)
    blocks: list[Block] = []
    for pair in pairs_of(data)[:MOST_PAIRS]:
        blocks += _prefill(pair, noted, names)
    cache = _cache(data, names)
    if cache is not None:
        blocks += [cache, Paragraph(_CACHE_TEXT, badge=Badge.THEORETICAL)]
    blocks += roofline_blocks(data, noted, ceilings, names)
    if not blocks:
        return Section(
            TITLE,
            missing="Nothing says how long prompts were or what shape the models have; run a suite, which notes the "
            "shapes and measures the machine's ceilings.",
        )
    return Section(TITLE, tuple(blocks))


_CACHE_TEXT = (
    "Formula: 2 (keys and values) · layers · heads of keys and values · head dimension · bytes of an element · "
    "positions; the last token of an answer is never fed back and has no position. Files of other programs measured "
    "their caches after prefill, so only the prompt counts there."
)


def _prefill(pair: ConfigurationPair, noted: dict[str, ModelSizes], names: dict[int, str]) -> list[Block]:
    """Squares of the lengths, operations, and the measured times of two prefills."""
    runs = pair.base.runs[0], pair.other.runs[0]
    lengths = [mean_of(column, input_length) for column in (pair.base, pair.other)]
    measured = compare(pair.base, pair.other, lambda run: stage_ms(run, "prefill"))
    if not lengths[0] or not lengths[1] or lengths[0] == lengths[1]:
        return []
    one, two = round(lengths[0]), round(lengths[1])
    badge = badge_of((*pair.base.runs, *pair.other.runs))
    square = two**2 / one**2
    rows = [
        _line("prompt positions", count_cell(one, badge=badge), count_cell(two, badge=badge), two / one, Badge.DERIVED),
        _line("positions squared", *_counts(one**2, two**2), square, Badge.THEORETICAL),
    ]
    sizes = [sizes_in(run, noted) for run in runs]
    flops = None
    if sizes[0] is not None and sizes[1] is not None:
        counted = prefill_flops(sizes[0].text, one), prefill_flops(sizes[1].text, two)
        flops = counted[1] / counted[0]
        rows.append(_line("operations of the prefill", flops_cell(counted[0]), flops_cell(counted[1]), flops))
        shares = linear_share(sizes[0], one), linear_share(sizes[1], two)
        cells = [share_cell(share, Badge.THEORETICAL) for share in shares]
        rows.append((Cell("of these linear in the prompt"), *cells, Cell("")))
    if measured is not None and measured.ratio is not None:
        times = [ms_cell(sum(side) / len(side), badge) for side in (measured.before, measured.after)]
        rows.append((Cell("measured prefill"), *times, ratio_cell(measured.ratio, measured.ratio_interval)))
    base, other = names[id(pair.base)], names[id(pair.other)]
    table = Table(("", base, other, "ratio"), tuple(rows), caption=f"Prefill of {other} against {base}")
    if measured is None or not measured.ratio:
        return [table]
    attention = None if sizes[1] is None else 1 - linear_share(sizes[1], two)
    is_alike = (
        sizes[0] is not None and sizes[1] is not None and sizes[0].text.layer_weights == sizes[1].text.layer_weights
    )
    sentence = (
        _prefill_sentence(square, flops, attention, measured)
        + ("" if is_alike or flops is None else " The models are not equally large, so lengths alone tell little.")
        + (
            " The measured time holds the vision pass once more, which these operations leave out."
            if holds_vision(runs[1])
            else ""
        )
    )
    return [table, Paragraph(sentence, badge=Badge.DERIVED)]


def _line(name: str, one: Cell, two: Cell, ratio: float, badge: Badge = Badge.THEORETICAL) -> tuple[Cell, ...]:
    return Cell(name), one, two, Cell(ratio_text(ratio), badge)


def _counts(one: int, two: int) -> tuple[Cell, Cell]:
    return count_cell(one, badge=Badge.THEORETICAL), count_cell(two, badge=Badge.THEORETICAL)


WITHIN = 1.25
"""Ratios nearer than this to each other are told as equal: operations are counted, not how well they are done."""


def _prefill_sentence(square: float, flops: float | None, attention: float | None, measured: Compared) -> str:
    ratio = measured.ratio or 0.0
    text = f"Were attention all, the ratio would be {ratio_text(square)}; measured is {ratio_text(ratio)}. "
    if flops is None or attention is None:
        return text + "How much of a prefill attention is depends on the model's shape, which nothing notes here."
    text += (
        f"But attention is only {share_text(attention)} of these operations, the layers, linear in the prompt, are the "
        f"rest: together they give {ratio_text(flops)}. "
    )
    low, high = measured.ratio_interval or (ratio, ratio)
    if low < flops / WITHIN and high > flops * WITHIN:
        return text + "The interval of the measured ratio is too wide to tell whether that explains it."
    if abs(math.log(ratio / flops)) <= math.log(WITHIN):
        return text + "That is what was measured, to within a quarter: the number of operations explains the ratio."
    if ratio < flops:
        return text + "Measured is less: the shorter prompt does not use the machine as well, or pays fixed costs."
    return text + "Measured is more: something besides operations grows with the prompt."


def _cache(data: ReportData, names: dict[int, str]) -> Table | None:
    rows = []
    for column in data.columns:
        run = next((run for run in column.runs if measured_bytes(run) is not None), None)
        model = run.info.models.get(run.info.role) if run is not None else None
        expected = None if run is None else formula_bytes(run)
        if run is not None and expected is None and model is not None and run.info.imported is not None:
            length = input_length(run)
            expected = bytes_per_position(model) * length if length else None
        if run is None or model is None or not expected:
            continue
        measured = measured_bytes(run) or 0
        ratio = measured / expected
        rows.append(
            (
                Cell(names[id(column)]),
                Cell(
                    f"2 · {model.layers} · {model.kv_heads} · {model.head_dim} · {model.kv_element_bytes} B · "
                    f"{expected // bytes_per_position(model)}"
                ),
                bytes_cell(expected, Badge.THEORETICAL),
                bytes_cell(measured, badge_of([run])),
                Cell(
                    f"{ratio:.3f}", Badge.DERIVED, tone="" if abs(ratio - 1) < 0.005 else "warn", note=_why(run, ratio)
                ),
            )
        )
    if not rows:
        return None
    return Table(
        ("configuration", "formula", "by formula", "measured", "measured / formula"),
        tuple(rows),
        caption="KV cache by formula and as measured, of one run of each configuration",
        text_columns=2,
    )


def _why(run: RunLog, ratio: float) -> str:
    model = run.info.models.get(run.info.role)
    if abs(ratio - 1) < 0.005 or model is None:
        return ""
    return (
        f"kept as {model.cache}: the formula counts unpacked elements" if model.cache in ("fp8", "hqq8", "hqq4") else ""
    )
