"""Section: the cost of more frames, beside the lengths that the models' layouts give.

`evprof show --costs` gives slopes, exponents and verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evprof.core.run_log import RunLog
from evprof.core.units import MIB
from evprof.export.report.data import ReportData, badge_of
from evprof.export.report.figures import (
    bytes_cell,
    count_cell,
    ms_cell,
    ratio_text,
    rows_cell,
)
from evprof.export.report.pairs import sizes_in
from evprof.export.report.parts import (
    POINTS,
    Badge,
    Block,
    Cell,
    Paragraph,
    PlotSeries,
    ReportPlot,
    Section,
    Table,
    not_available,
    row_of,
    section_of,
)
from evprof.metrics.arithmetic.scaling import fit_line
from evprof.metrics.arithmetic.statistics import Summary, summarize
from evprof.metrics.costs.sweeps import Sweep, sweeps_of
from evprof.metrics.estimates.estimates import Read
from evprof.metrics.figures.decoding import decode_ms_per_token, input_length, visual_tokens
from evprof.metrics.figures.kv_cache import measured_bytes
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.limits.sizes import ModelSizes


@dataclass(frozen=True)
class GrowingFigure:
    """A figure that may grow with the frames: its name, its unit and how it is read."""

    name: str
    unit: str
    read: Read


def _cache_mib(run: RunLog) -> float | None:
    return None if (size := measured_bytes(run)) is None else size / MIB


FIGURES = (
    GrowingFigure("prompt positions", "positions", input_length),
    GrowingFigure("KV cache", "MiB", _cache_mib),
    GrowingFigure("vision", "ms", lambda run: stage_ms(run, "vision")),
    GrowingFigure("prefill", "ms", lambda run: stage_ms(run, "prefill")),
    GrowingFigure("decode per token", "ms", decode_ms_per_token),
)


def section(data: ReportData) -> Section:
    """A table per model, and a plot of every figure with fitted lines."""
    missing = (
        "No model was shown different numbers of frames; run the suite token-scaling, or one with an axis of frames "
        "and event_frames."
    )
    return section_of("Cost of more frames", frames(data), missing)


def frames(data: ReportData) -> list[Block]:
    """Values by number of frames, and plots."""
    sweeps = sweeps_of(data.runs)
    blocks: list[Block] = []
    for sweep in sweeps:
        sizes = sizes_in(data, sweep.runs[0])
        blocks += [_values(sweep, sizes, _left_out(data, sweep)), *_past_context(sweep)]
    blocks += [plot for figure in FIGURES if (plot := _plot(figure, sweeps)) is not None]
    return blocks


def _frames(sweep: Sweep) -> list[int]:
    return list(map(int, sweep.places()))


def _left_out(data: ReportData, sweep: Sweep) -> dict[int, str]:
    """Numbers of frames that suites skipped in a sweep, with the reason."""
    skipped: dict[int, str] = {}
    for suite in data.suites:
        entries = suite.get("left_out")
        for entry in entries if isinstance(entries, list) else ():
            models = entry.get("models") if isinstance(entry, dict) else None
            if not isinstance(models, dict) or models.get(sweep.role) != sweep.model:
                continue
            count = entry.get("event_frames" if sweep.role == "draft" else "frames")
            if isinstance(count, int) and count not in _frames(sweep):
                skipped[count] = str(entry.get("reason"))
    return skipped


def _values(sweep: Sweep, sizes: ModelSizes | None, left_out: dict[int, str]) -> Table:
    badge = badge_of(sweep.runs)
    rows = []
    first = _summary(sweep.at(_frames(sweep)[0]), input_length)
    for count in _frames(sweep):
        runs = sweep.at(count)
        expected = None if sizes is None else expected_visual(sizes, count, runs[0])
        seen, prompt = _summary(runs, visual_tokens), _summary(runs, input_length)
        is_other = seen is not None and expected is not None and seen.mean != expected
        rows.append(
            row_of(
                str(count),
                count_cell(prompt, badge=badge),
                Cell(ratio_text(prompt.mean / first.mean), Badge.DERIVED) if prompt and first else not_available(),
                count_cell(seen, badge=badge, tone="warn" if is_other else ""),
                _expected_cell(expected),
                bytes_cell(_summary(runs, measured_bytes), badge),
                *(ms_cell(_summary(runs, figure.read), badge, has_unit=False) for figure in FIGURES[2:]),
                rows_cell(len(runs)),
            )
        )
    for count, reason in sorted(left_out.items()):
        expected = None if sizes is None else expected_visual(sizes, count, sweep.runs[0])
        none = not_available()
        rows.append(
            row_of(str(count), *[none] * 3, _expected_cell(expected), *[none] * 4, Cell("left out", note=reason))
        )
    heads = ("frames", "prompt", "×", "visual", "visual by layout", "KV cache", "vision, ms", "prefill, ms")
    caption = f"{sweep.name}, by number of frames; ×: prompt to that of the fewest"
    return Table((*heads, "decode, ms/token", "runs"), tuple(rows), caption)


def _expected_cell(expected: int | None) -> Cell:
    return not_available() if expected is None else count_cell(expected, badge=Badge.THEORETICAL)


def _summary(runs: Sequence[RunLog], read: Read) -> Summary | None:
    return summarize([float(value) for run in runs if (value := read(run)) is not None])


def expected_visual(sizes: ModelSizes, count: int, run: RunLog) -> int | None:
    """Visual positions by the model's layout; None where pruning or a grid of pictures changes them."""
    settings = run.info.settings
    if settings.switches.visual_keep != 1 or (sizes.family == "llava" and settings.input.image_layout == "grid"):
        return None
    return sizes.visual_tokens(count, is_pooled=settings.input.pooling != "none")


def _past_context(sweep: Sweep) -> Iterator[Block]:
    for count in _frames(sweep):
        run = sweep.at(count)[0]
        model = run.info.models.get(run.info.role)
        if model and model.context_limit and (input_length(run) or 0) > model.context_limit:
            yield Paragraph(
                f"From {count} frames on the prompt is longer than the {model.context_limit:,} positions {sweep.name} "
                "was trained for: times hold, texts do not.",
                tone="warn",
            )
            return


def _plot(figure: GrowingFigure, sweeps: Sequence[Sweep]) -> ReportPlot | None:
    series: list[PlotSeries] = []
    for sweep in sweeps:
        known = [(count, summary) for count in _frames(sweep) if (summary := _summary(sweep.at(count), figure.read))]
        if not known:
            continue
        ends = [summary.ci95 or (None, None) for _, summary in known]
        series.append(
            PlotSeries(
                sweep.name,
                tuple(float(count) for count, _ in known),
                tuple(summary.mean for _, summary in known),
                sweep.role,
                tuple(low for low, _ in ends),
                tuple(high for _, high in ends),
                badge=badge_of(sweep.runs),
            )
        )
        line = fit_line(*sweep.points(figure.read))
        if line is not None and len(known) > 2:
            x = (line.low_x, line.high_x)
            y = tuple(map(line.at, x))
            series.append(PlotSeries(f"{sweep.name}, line", x, y, sweep.role, is_line=True, badge=Badge.DERIVED))
    if not series:
        return None
    title = f"{figure.name} over frames"
    return ReportPlot(POINTS, title, tuple(series), x_title="frames", y_title=figure.name, unit=figure.unit)
