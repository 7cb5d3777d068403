"""Sections: the architectures of both models and their compression of pictures; the cost of more frames."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.core.run_info import ModelFacts
from evprof.core.run_log import RunLog
from evprof.core.units import MIB
from evprof.export.report import parts as doc
from evprof.export.report.data import ReportData, badge_of
from evprof.export.report.figures import bytes_cell, count_cell, ms_cell, nothing_measured, ratio_text, rows_cell
from evprof.export.report.pairs import sizes_in
from evprof.export.report.parts import Badge, Block, Cell, Paragraph, PlotSeries, ReportPlot, Section, Table
from evprof.metrics.arithmetic.scaling import fit_line
from evprof.metrics.arithmetic.statistics import Summary, summarize
from evprof.metrics.costs.sweeps import Sweep, sweeps_of
from evprof.metrics.estimates.observations import Read
from evprof.metrics.figures.decoding import decode_ms_per_token, frames_shown, input_length, visual_tokens
from evprof.metrics.figures.kv_cache import measured_bytes
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.limits.sizes import ModelSizes, read_words

MOST_COMPRESSIONS = 12
WORDS = {"backbone": "backbone", "vision tower": "vision_tower", "projector": "projector"}


def section(data: ReportData) -> Section:
    return doc.section_of("Models", [*architecture(data), *compression(data)], "Runs that name their models.")


def architecture(data: ReportData) -> list[Block]:
    models: dict[tuple[str, str], tuple[ModelFacts, ModelSizes | None]] = {}
    for run in data.runs:
        model = run.info.models.get(run.info.role)
        if model is not None and model.layers:  # a server names no layers
            models.setdefault((run.info.role, model.name), (model, sizes_in(data, run)))
    if not models:
        return []
    words = read_words(data.facts("models"))
    known = [(role, model, sizes, words.get(model.name, {})) for (role, _), (model, sizes) in models.items()]
    rows = [
        doc.row_of("role", *(role for role, *_ in known)),
        doc.row_of("family", *(model.family for _, model, *_ in known)),
    ]
    for title, key in WORDS.items():
        if any(key in own for *_, own in known):
            rows.append(doc.row_of(title, *(str(own.get(key, "n/a")) for *_, own in known)))
    numbers = [_numbers(model, sizes, own) for _, model, sizes, own in known]
    for title in dict.fromkeys(title for each in numbers for title in each):
        values = (each.get(title) for each in numbers)
        cells = (count_cell(one, badge=Badge.THEORETICAL) if one else nothing_measured() for one in values)
        rows.append(doc.row_of(title, *cells))
    heads = ("", *(model.name for _, model, *_ in known))
    blocks: list[Block] = [Table(heads, tuple(rows), "Architectures, from the models' configurations")]
    if any(sizes is not None and sizes.is_published for _, _, sizes, _ in known):
        text = "Sizes that no suite noted are the published ones of 7B models."
        blocks.append(Paragraph(text, badge=Badge.THEORETICAL))
    return blocks


def _numbers(model: ModelFacts, sizes: ModelSizes | None, words: dict[str, str | int]) -> dict[str, int]:
    numbers = {"parameters": model.parameters, "layers": model.layers, "heads of keys and values": model.kv_heads}
    numbers |= {"head dimension": model.head_dim, "positions trained for": model.context_limit}
    if sizes is not None:
        text, vision = sizes.text, sizes.vision
        numbers |= {"hidden": text.hidden, "heads": text.heads, "feed-forward": text.intermediate}
        numbers |= {"vocabulary": text.vocabulary}
        if vision is not None:
            numbers |= {"vision layers": vision.layers, "vision width": vision.width, "patch, pixels": vision.patch}
            numbers |= {"positions of a frame": vision.kept}
    if isinstance(size := words.get("image_size"), int):
        numbers["image, pixels"] = size
    return {name: value for name, value in numbers.items() if value}


def compression(data: ReportData) -> list[Block]:
    """Positions of all frames' features together beside those in the prompt."""
    rows: dict[tuple[str, int, int], tuple[Cell, ...]] = {}
    for run in data.runs:
        sizes, frames, visual = sizes_in(data, run), frames_shown(run), visual_tokens(run)
        model = run.info.models.get(run.info.role)
        is_pruned = run.info.settings.switches.visual_keep != 1
        if sizes is None or sizes.vision is None or not frames or not visual or model is None or is_pruned:
            continue
        kept, own = sizes.vision.kept, badge_of([run])
        rows[model.name, frames, visual] = doc.row_of(
            model.name,
            count_cell(frames, badge=own),
            count_cell(kept, badge=Badge.THEORETICAL),
            count_cell(frames * kept, badge=Badge.THEORETICAL),
            count_cell(visual, badge=own),
            Cell(ratio_text(frames * kept / visual), Badge.DERIVED),
        )
    heads = ("model", "frames", "positions of a frame", "of all frames", "visual in the prompt", "compression")
    shown = tuple(rows[key] for key in sorted(rows)[:MOST_COMPRESSIONS])
    return [Table(heads, shown, "Compression of visual features before the language model")] if shown else []


GROWING: dict[str, tuple[str, Read]] = {
    "prompt positions": ("positions", input_length),
    "KV cache": ("MiB", lambda run: None if (size := measured_bytes(run)) is None else size / MIB),
    "vision": ("ms", lambda run: stage_ms(run, "vision")),
    "prefill": ("ms", lambda run: stage_ms(run, "prefill")),
    "decode per token": ("ms", decode_ms_per_token),
}
"""Figures that may grow with the frames, with their unit."""


def frames_section(data: ReportData) -> Section:
    """A table per model, and a plot of every figure with fitted lines."""
    missing = (
        "No model was shown different numbers of frames; run the suite token-scaling, or one with an axis of frames "
        "and event_frames."
    )
    return doc.section_of("Cost of more frames", frames(data), missing)


def frames(data: ReportData) -> list[Block]:
    """Values by number of frames, and plots; `evprof show --costs` gives slopes, exponents and verdicts."""
    sweeps = sweeps_of(data.runs)
    blocks: list[Block] = []
    for sweep in sweeps:
        blocks.append(_values(sweep, sizes_in(data, sweep.runs[0])))
        for count in _counts(sweep):
            run = sweep.at(count)[0]
            model = run.info.models.get(run.info.role)
            if model and model.context_limit and (input_length(run) or 0) > model.context_limit:
                text = (
                    f"From {count} frames on the prompt is longer than the {model.context_limit:,} positions "
                    f"{sweep.name} was trained for: times hold, texts do not."
                )
                blocks.append(Paragraph(text, tone="warn"))
                break
    return [*blocks, *(plot for name in GROWING if (plot := _plot(name, sweeps)) is not None)]


def _counts(sweep: Sweep) -> list[int]:
    return list(map(int, sweep.places()))


def _summary(runs: Sequence[RunLog], read: Read) -> Summary | None:
    return summarize([float(value) for run in runs if (value := read(run)) is not None])


def _values(sweep: Sweep, sizes: ModelSizes | None) -> Table:
    badge, least = badge_of(sweep.runs), _summary(sweep.at(_counts(sweep)[0]), input_length)

    def growth(count: int) -> Cell:
        prompt = _summary(sweep.at(count), input_length)
        return Cell(ratio_text(prompt.mean / least.mean), Badge.DERIVED) if prompt and least else doc.not_available()

    def expected(count: int) -> int | None:
        return None if sizes is None else expected_visual(sizes, count, sweep.at(count)[0])

    def seen(count: int) -> Cell:
        visual, by_layout = _summary(sweep.at(count), visual_tokens), expected(count)
        is_other = visual is not None and by_layout is not None and visual.mean != by_layout
        return count_cell(visual, badge=badge, tone="warn" if is_other else "")

    def layout(count: int) -> Cell:
        by_layout = expected(count)
        return doc.not_available() if by_layout is None else count_cell(by_layout, badge=Badge.THEORETICAL)

    def time(count: int, name: str) -> Cell:
        return ms_cell(_summary(sweep.at(count), GROWING[name][1]), badge, has_unit=False)

    return doc.table_of(
        _counts(sweep),
        [
            ("frames", str),
            ("prompt", lambda count: count_cell(_summary(sweep.at(count), input_length), badge=badge)),
            ("×", growth),
            ("visual", seen),
            ("visual by layout", layout),
            ("KV cache", lambda count: bytes_cell(_summary(sweep.at(count), measured_bytes), badge)),
            ("vision, ms", lambda count: time(count, "vision")),
            ("prefill, ms", lambda count: time(count, "prefill")),
            ("decode, ms/token", lambda count: time(count, "decode per token")),
            ("runs", lambda count: rows_cell(len(sweep.at(count)))),
        ],
        f"{sweep.name}, by number of frames; ×: prompt to that of the fewest",
    )


def expected_visual(sizes: ModelSizes, count: int, run: RunLog) -> int | None:
    """Visual positions by the model's layout; None where pruning or a grid of pictures changes them."""
    settings = run.info.settings
    if settings.switches.visual_keep != 1 or (sizes.family == "llava" and settings.input.image_layout == "grid"):
        return None
    return sizes.visual_tokens(count, is_pooled=settings.input.pooling != "none")


def _plot(name: str, sweeps: Sequence[Sweep]) -> ReportPlot | None:
    unit, read = GROWING[name]
    series: list[PlotSeries] = []
    for sweep in sweeps:
        known = [(count, summary) for count in _counts(sweep) if (summary := _summary(sweep.at(count), read))]
        if not known:
            continue
        x, y = tuple(float(count) for count, _ in known), tuple(summary.mean for _, summary in known)
        low, high = zip(*((summary.minimum, summary.maximum) for _, summary in known), strict=True)
        series.append(PlotSeries(sweep.name, x, y, sweep.role, low, high, badge=badge_of(sweep.runs)))
        line = fit_line(*sweep.points(read))
        if line is not None and len(known) > 2:
            ends = (line.low_x, line.high_x)
            fitted = tuple(map(line.at, ends))
            series.append(
                PlotSeries(f"{sweep.name}, line", ends, fitted, sweep.role, is_line=True, badge=Badge.DERIVED)
            )
    if not series:
        return None
    return doc.points_plot(f"{name} over frames", series, "frames", name, unit=unit)
