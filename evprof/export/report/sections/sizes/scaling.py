"""Section: what more frames cost, with fitted slopes, beside what the models' layouts lead one to expect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from evprof.core.run_log import RunLog
from evprof.core.units import MIB
from evprof.export.report.data import ReportData
from evprof.export.report.figures import (
    bytes_cell,
    count_cell,
    interval_text,
    ms_cell,
    number_text,
    ratio_text,
    rows_cell,
)
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
)
from evprof.export.report.sections.evidence import badge_of, noted_models, sizes_in
from evprof.metrics.arithmetic.scaling import FittedLine, Power, fit_line, fit_power
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.costs.sweeps import (
    GROWS,
    SHRINKS,
    TOO_FEW,
    UNCLEAR,
    Sweep,
    basis_text,
    sweeps_of,
    verdict_of,
)
from evprof.metrics.figures.decoding import decode_ms_per_token, input_length, visual_tokens
from evprof.metrics.figures.kv_cache import measured_bytes
from evprof.metrics.figures.stages import stage_ms
from evprof.metrics.limits.sizes import ModelSizes

TITLE = "What more frames cost"

RELEASED_EVENTGPT = ((1, 637), (5, 641), (8, 644), (32, 668))
"""Frames and prompt positions of EventGPT's released path, with its own template and question."""

Read = Callable[[RunLog], float | None]


@dataclass(frozen=True)
class GrowingFigure:
    """What grows: its name, its unit and how it is read."""

    name: str
    unit: str
    read: Read

    def scaled(self, values: Sequence[float]) -> GrowingFigure:
        """The same in MiB where KiB would have more than four digits."""
        is_large = self.unit == "KiB" and max(values, default=0.0) >= 10_000
        return replace(self, unit="MiB", read=_mib) if is_large else self


def _kib(run: RunLog) -> float | None:
    return None if (found := measured_bytes(run)) is None else found / 1024


def _mib(run: RunLog) -> float | None:
    return None if (found := measured_bytes(run)) is None else found / MIB


FIGURES = (
    GrowingFigure("prompt positions", "positions", input_length),
    GrowingFigure("KV cache", "KiB", _kib),
    GrowingFigure("vision", "ms", lambda run: stage_ms(run, "vision")),
    GrowingFigure("prefill", "ms", lambda run: stage_ms(run, "prefill")),
    GrowingFigure("decode per token", "ms", decode_ms_per_token),
)


def section(data: ReportData) -> Section:
    """Tables and fits per model, expectations, and a plot of every figure."""
    sweeps = sweeps_of(data.runs)
    if not sweeps:
        return Section(
            TITLE,
            missing="No model was shown different numbers of frames; run the suite token-scaling, or one with an axis "
            "of frames and event_frames.",
        )
    noted = noted_models(data)
    blocks: list[Block] = []
    for sweep in sweeps:
        blocks.append(_values(sweep, sizes_in(sweep.runs[0], noted), _left_out(data, sweep)))
        blocks.append(_fits(sweep))
        blocks += [Paragraph(sentence, badge=Badge.DERIVED) for sentence in _sentences(sweep)]
        blocks += _expected(sweep, sizes_in(sweep.runs[0], noted))
    blocks += [plot for figure in FIGURES if (plot := _plot(figure, sweeps)) is not None]
    return Section(TITLE, tuple(blocks))


def _frames(sweep: Sweep) -> list[int]:
    return list(map(int, sweep.places()))


def _left_out(data: ReportData, sweep: Sweep) -> dict[int, str]:
    """Numbers of frames that suites skipped in a sweep, with the reason."""
    found: dict[int, str] = {}
    for suite in data.facts("suite"):
        entries = suite.get("left_out") if isinstance(suite, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            models = entry.get("models") if isinstance(entry, dict) else None
            if not isinstance(models, dict) or models.get(sweep.role) != sweep.model:
                continue
            frames = entry.get("event_frames" if sweep.role == "draft" else "frames")
            if isinstance(frames, int) and frames not in _frames(sweep):
                found[frames] = str(entry.get("reason"))
    return found


def _values(sweep: Sweep, sizes: ModelSizes | None, left_out: dict[int, str]) -> Table:
    badge = badge_of(sweep.runs)
    rows = []
    first = summarize(_read(sweep.at(_frames(sweep)[0]), input_length))
    for frames in _frames(sweep):
        runs = sweep.at(frames)
        expected = None if sizes is None else expected_visual(sizes, frames, runs[0])
        seen = summarize(_read(runs, visual_tokens))
        prompt = summarize(_read(runs, input_length))
        rows.append(
            (
                Cell(str(frames)),
                count_cell(prompt, badge=badge),
                Cell(ratio_text(prompt.mean / first.mean), Badge.DERIVED) if prompt and first else not_available(),
                count_cell(seen, badge=badge, tone=_tone(seen.mean if seen else None, expected)),
                _by_layout(sizes, frames, runs[0]),
                bytes_cell(summarize(_read(runs, measured_bytes)), badge),
                *(ms_cell(summarize(_read(runs, figure.read)), badge, has_unit=False) for figure in FIGURES[2:]),
                rows_cell(len(runs)),
            )
        )
    for frames, reason in sorted(left_out.items()):
        rows.append(
            (
                Cell(str(frames)),
                not_available(),
                not_available(),
                not_available(),
                _by_layout(sizes, frames, sweep.runs[0]),
                *[not_available()] * 4,
                Cell("left out", note=reason),
            )
        )
    heads = ("frames", "prompt", "×", "visual", "visual by layout", "KV cache", "vision, ms", "prefill, ms")
    return Table(
        (*heads, "decode, ms/token", "runs"),
        tuple(rows),
        caption=f"{sweep.name}, by number of frames; ×: prompt to that of the fewest",
    )


def _by_layout(sizes: ModelSizes | None, frames: int, run: RunLog) -> Cell:
    expected = None if sizes is None else expected_visual(sizes, frames, run)
    return not_available() if expected is None else count_cell(expected, badge=Badge.THEORETICAL)


def _tone(seen: float | None, expected: int | None) -> str:
    return "warn" if seen is not None and expected is not None and seen != expected else ""


def _read(runs: Sequence[RunLog], read: Read) -> list[float]:
    return [float(value) for run in runs if (value := read(run)) is not None]


def expected_visual(sizes: ModelSizes, frames: int, run: RunLog) -> int | None:
    """Visual positions by the model's layout; None where pruning or a grid of pictures make them others."""
    asked = run.info.settings
    if asked.switches.visual_keep != 1 or (sizes.family == "llava" and asked.input.image_layout == "grid"):
        return None
    return sizes.visual_tokens(frames, is_pooled=asked.input.pooling != "none")


def _fits(sweep: Sweep) -> Table:
    rows = []
    for named in FIGURES:
        figure = named.scaled(sweep.points(named.read)[1])
        frames, values, samples = sweep.points(figure.read)
        line = fit_line(frames, values, samples)
        if line is None:
            rows.append((Cell(figure.name), *[not_available(f"(n = {len(values)})")] * 4))
            continue
        power = fit_power(frames, values, samples)
        rows.append(
            (
                Cell(figure.name),
                Cell(_slope_text(line, figure.unit), Badge.DERIVED),
                Cell(f"{number_text(line.intercept)} {figure.unit}", Badge.DERIVED),
                Cell(_exponent_text(power), Badge.DERIVED) if power else not_available("(3 numbers of frames needed)"),
                Cell(
                    f"{_verdict(line, power)}; {basis_text(line, sweep.axis)}",
                    tone="warn" if verdict_of(line) in (UNCLEAR, TOO_FEW) else "",
                ),
            )
        )
    return Table(
        ("figure", "slope per frame", "line at 0 frames", "exponent (log-log)", "meaning"),
        tuple(rows),
        caption=f"{sweep.name}: straight lines and powers by least squares over single runs, every sample with a "
        "level of its own; 95 % intervals of slopes and exponents",
    )


def _slope_text(line: FittedLine, unit: str) -> str:
    text = f"{number_text(line.slope)} {unit}"
    if line.slope_interval is None:
        return f"{text} (no interval)"
    low, high = line.slope_interval
    # An exact count: an interval of rounding errors is none.
    return text if high - low <= 1e-9 * max(1.0, abs(line.slope)) else f"{text} {interval_text(line.slope_interval)}"


def _exponent_text(power: Power) -> str:
    text = f"{power.exponent:.2f}"
    if power.interval is None or power.interval[1] - power.interval[0] < 0.005:
        return text
    return f"{text} {interval_text(power.interval)}"


def _verdict(line: FittedLine, power: Power | None) -> str:
    verdict = verdict_of(line)
    if verdict == UNCLEAR:
        return "not told apart from flat"
    if verdict in (GROWS, SHRINKS) and line.is_small:
        return f"{verdict}, by less than 5 % over the range"
    if verdict == GROWS and power is not None and power.interval is not None and power.interval[0] > 1:
        return "grows faster than in proportion, so that the line is too low at both ends"
    return verdict


def _sentences(sweep: Sweep) -> list[str]:
    """What the prefill does over positions: between 1 (all linear) and 2 (all attention), below 1 fixed costs."""
    lengths, spent, samples = sweep.points(lambda run: stage_ms(run, "prefill"), input_length)
    if not lengths or max(lengths) < 2 * min(lengths):
        return []
    power = fit_power(lengths, spent, samples)
    if power is None:
        return []
    low, high = power.interval or (power.exponent, power.exponent)
    kind = "grows slower than its prompt (fixed costs)" if high < 1 else "grows about as its prompt"
    if low > 1:
        kind = "grows faster than its prompt: attention is felt"
    if low > 1.9:
        kind = "grows as attention alone would, with the square of its prompt"
    return [
        f"{sweep.name}: over prompt positions the prefill has the exponent {_exponent_text(power)} (1: linear layers "
        f"only, 2: attention only), so it {kind}."
    ]


def _expected(sweep: Sweep, sizes: ModelSizes | None) -> list[Block]:
    if sizes is None or sizes.vision is None:
        return [
            Paragraph(f"What the layout of {sweep.name} leads one to expect is not known: no suite noted its sizes.")
        ]
    if sizes.family == "eventgpt":
        text = (
            f"By its layout {sweep.name} brings one position per event frame and {sizes.vision.kept} for all frames "
            "together."
        )
        if sizes.vision.kept == 577:
            listed = ", ".join(f"{positions:,} at {frames}" for frames, positions in RELEASED_EVENTGPT)
            text += f" Published prompts of the released path: {listed} frames; document 002's constant is not one."
    else:
        text = f"By its layout {sweep.name} brings {sizes.vision.kept} positions per frame."
        if sizes.vision.kept == 576:
            text += " Document 002: 576 per frame, about 600, 4,640, 9,260 and 18,500 at 1, 8, 16 and 32 frames."
    context = [
        (frames, limit)
        for frames in _frames(sweep)
        for run in sweep.at(frames)[:1]
        if (model := run.info.models.get(run.info.role)) and (limit := model.context_limit)
        if (input_length(run) or 0) > limit
    ]
    found: list[Block] = [Paragraph(text, badge=Badge.THEORETICAL)]
    if context:
        frames, limit = context[0]
        found.append(
            Paragraph(
                f"From {frames} frames on the prompt is longer than the {limit:,} positions {sweep.name} was trained "
                "for: times hold, texts do not.",
                tone="warn",
            )
        )
    return found


def _plot(named: GrowingFigure, sweeps: Sequence[Sweep]) -> ReportPlot | None:
    figure = named.scaled([value for sweep in sweeps for value in sweep.points(named.read)[1]])
    series: list[PlotSeries] = []
    for sweep in sweeps:
        frames, values, samples = sweep.points(figure.read)
        shown = [count for count in _frames(sweep) if _read(sweep.at(count), figure.read)]
        if not shown:
            continue
        found = [summarize(_read(sweep.at(count), figure.read)) for count in shown]
        ends = [summary.ci95 if summary and summary.ci95 else (None, None) for summary in found]
        series.append(
            PlotSeries(
                sweep.name,
                tuple(map(float, shown)),
                tuple(None if summary is None else summary.mean for summary in found),
                sweep.role,
                tuple(low for low, _ in ends),
                tuple(high for _, high in ends),
                badge=badge_of(sweep.runs),
            )
        )
        line = fit_line(frames, values, samples)
        if line is not None and len(shown) > 2:
            across = (line.low_x, line.high_x)
            fitted = tuple(map(line.at, across))
            series.append(
                PlotSeries(f"{sweep.name}, line", across, fitted, sweep.role, is_line=True, badge=Badge.DERIVED)
            )
    if not series:
        return None
    title = f"{figure.name} over frames"
    return ReportPlot(POINTS, title, tuple(series), x_title="frames", y_title=figure.name, unit=figure.unit)
