"""Rows of the comparison: two models' figures, their ratio, and whether it means better or worse.

Figures come from `evprof.metrics`, so that the window and the command line say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evprof.core.records import COVERS, STAGES
from evprof.core.run_log import RunLog
from evprof.core.units import MIB
from evprof.core.vocabulary.families import family_title
from evprof.metrics.comparison.document import Column as Repeats
from evprof.metrics.comparison.document import (
    column_generation,
    column_token_match,
    comparison_rows,
    generation,
    is_comparable,
    ratio_of,
    token_match,
)
from evprof.metrics.configurations.settings_text import differences
from evprof.metrics.figures import decoding, kv_cache, stages
from evprof.metrics.figures.stages import BASES, END_TO_END, MODEL_ONLY
from evprof.view.columns import Column
from evprof.view.labels import stage_title, stages_in

NOTHING = "–"
BASIS_NAMES = {"end-to-end": "End to end", "without-load": "Without load", "model-only": "Model only"}
LONGEST_HEAD = 12
"""Letters that a column's head has room for."""

_DEFINITIONS = {
    "visual_tokens": ("visual tokens", "positions of the prompt that carry pictures"),
    "input_sequence_length": ("prefill tokens", "positions of the whole prompt"),
    "output_sequence_length": ("output tokens", "tokens of the answer, end of sequence included"),
    "load_ms": ("load", "files to events or frames on the host"),
    "preprocess_ms": ("preprocess", "rendering, resizing, prompt and tokens, up to the device"),
    "vision_ms": ("vision", "tower, projector, adaptor and pooling"),
    "prefill_ms": ("prefill", "one pass over visual and text embeddings, up to the first token"),
    "decode_ms": ("decode", "tokens 2 to n"),
    "time_to_first_token_ms": ("first token", "from the run's zero to the first token"),
    "inter_token_latency_ms": ("per token", "(last token - first token) / (n - 1)"),
    "decode_throughput_tok_s": ("decode rate", "(n - 1) / decode time"),
    "kv_cache_bytes": ("KV cache", "measured in the cache when the run ended"),
    "total_ms": ("total", "from the run's zero to its end"),
    "unattributed_ms": ("unattributed", "wall time that no stage covers"),
}
_MORE = {
    "decode_ms_per_token": ("decode step", "decode time / (n - 1): what one more token costs, however it was found"),
    "prefill_throughput_tok_s": ("prefill rate", "positions of the prompt / prefill time"),
    "weights_bytes": ("weights", "bytes of all loaded weights on their device"),
    "peak_allocated_bytes": ("peak allocated", "most bytes of tensors on the device at once"),
    "peak_rss_bytes": ("peak process", "most resident bytes of the engine process"),
    "draft_acceptance_rate": ("accepted / drafted", "accepted drafts by all that were drafted, bonus tokens apart"),
    "mean_acceptance_length": ("tokens per round", "1 + accepted / rounds, bonus token included"),
}
"""Figures that only the comparison window has room for."""

_ORDER = tuple(_DEFINITIONS)
_GROUPS = frozenset(("load_ms", "preprocess_ms", "time_to_first_token_ms", "kv_cache_bytes", "total_ms"))
"""Rows that may begin a group: the first of the stages, and what follows them."""


@dataclass(frozen=True)
class FigureRow:
    """One line. `judgement` is "good", "bad" or "" for column B against column A; `spread` how sure the ratio is."""

    metric: str
    name: str
    unit: str
    a: str
    b: str
    ratio: str = ""
    judgement: str = ""
    tip: str = ""
    begins_group: bool = False
    spread: str = ""


Cells = tuple[Repeats | None, Repeats | None]
"""All runs that a column stands for, where it stands for its cell."""

NO_CELLS: Cells = (None, None)


def compare(a: Column | None, b: Column | None, basis: str = END_TO_END, cells: Cells = NO_CELLS) -> list[FigureRow]:
    """The lines for two columns, or for the cells they stand for: then means, and the interval of their ratio.

    Every line is there from the start: what is not measured yet is a dash.
    """
    values = _values(a, b, basis, cells)
    units = {metric: unit for metric, unit, _ in _figures(basis)}
    rows: list[FigureRow] = []
    for metric in _listed(units, a, b):
        unit, (first, second), share, ends = values.get(metric, (units.get(metric, "ms"), (None, None), None, None))
        name, tip = figure_name(metric)
        rows.append(
            FigureRow(
                metric,
                name,
                "MiB" if unit == "bytes" else unit,
                figure_text(first, unit),
                figure_text(second, unit),
                ratio_text(share),
                judge(metric, share, ends),
                tip,
                metric in _GROUPS and not (metric == "preprocess_ms" and rows and rows[-1].metric == "load_ms"),
                spread_text(share, ends),
            )
        )
    return rows


def _listed(units: Mapping[str, str], *columns: Column | None) -> list[str]:
    """Metrics in order of presentation. What a file measured in one piece has a line of its own; the stages in it have
    none where no column measured them apart."""
    whole, apart = _intervals(columns)
    hidden = {name for covers in whole for name in covers if name not in apart}
    found: list[str] = []
    for metric in (metric for metric in _ORDER if metric in units):
        stage = metric.removesuffix("_ms")
        found += [f"{COVERS.join(covers)}_ms" for covers in whole if covers[0] == stage]
        if stage not in hidden:
            found.append(metric)
    return found


def _intervals(columns: Sequence[Column | None]) -> tuple[list[tuple[str, ...]], set[str]]:
    """What intervals over several stages account for, in order; and the stages whose time is told apart."""
    owned = [
        column.run.accounts_for(span)
        for column in columns
        if column is not None
        for span in column.run.stages(column.role)
    ]
    return list(dict.fromkeys(part for part in owned if len(part) > 1)), {part[0] for part in owned if len(part) == 1}


def figure_name(metric: str) -> tuple[str, str]:
    """What a figure is called, and what it means."""
    if metric in _DEFINITIONS:
        return _DEFINITIONS[metric]
    if metric in _MORE:
        return _MORE[metric]
    stage = metric.removesuffix("_ms")
    if stages_in(stage):
        return stage_title(stage), "these stages together, as a file that times them in one piece gives them"
    return metric.replace("_", " "), ""


Reading = Callable[[Column], float | None]
_Value = tuple[str, tuple[float | None, float | None], float | None, Sequence[float] | None]
"""Unit, figures of A and B, their ratio, and its interval."""


def _values(a: Column | None, b: Column | None, basis: str, cells: Cells) -> dict[str, _Value]:
    if a is not None and b is not None and a.run is not b.run:
        found = {metric: _means(figure, unit, a, b, cells) for metric, unit, figure in _pieces(a, b)}
        listed = (cells[0] or Repeats((a.run,)), cells[1] or Repeats((b.run,)))
        return found | {
            row.metric: (
                row.unit,
                (row.values[0], row.values[1]),
                row.ratio[1],
                row.ci95[1] if row.ci95 else None,
            )
            for row in comparison_rows(listed, 0, basis)
            if row.metric in _DEFINITIONS or row.metric in found
        }
    return {metric: _means(figure, unit, a, b, cells) for metric, unit, figure in (*_figures(basis), *_pieces(a, b))}


def _means(figure: Reading, unit: str, a: Column | None, b: Column | None, cells: Cells) -> _Value:
    """A figure of each column: of its run, or the mean over the runs that it stands for. One run has one cell."""
    alone = next((cell for cell in cells if cell is not None), None)
    first, second = (
        None
        if column is None
        else _mean(figure, column, cell or (alone if a is not None and b is not None and a.run is b.run else None))
        for column, cell in zip((a, b), cells, strict=True)
    )
    return unit, (first, second), ratio_of(second, first), None


def _mean(figure: Reading, column: Column, cell: Repeats | None) -> float | None:
    columns = [column] if cell is None else [Column(run, column.role) for run in cell.runs]
    known = [value for one in columns if (value := figure(one)) is not None]
    return sum(known) / len(known) if known else None


def _pieces(*columns: Column | None) -> list[tuple[str, str, Reading]]:
    """How the time of pieces of several stages is read."""
    return [(f"{COVERS.join(part)}_ms", "ms", _piece(part)) for part in _intervals(columns)[0]]


def _piece(part: tuple[str, ...]) -> Reading:
    def read(column: Column) -> float | None:
        run, role = column
        return next((stages.span_ms(span) for span in run.stages(role) if run.accounts_for(span) == part), None)

    return read


def _figures(basis: str) -> list[tuple[str, str, Reading]]:
    """How one model's figures are read; those of the whole run belong to the model that answers."""
    names = stages.MODEL_STAGES if basis == MODEL_ONLY else STAGES[0 if basis == END_TO_END else 1 :]
    found: list[tuple[str, str, Reading]] = [
        ("visual_tokens", "tokens", lambda column: decoding.visual_tokens(*column)),
        ("input_sequence_length", "tokens", lambda column: decoding.input_length(*column)),
        ("output_sequence_length", "tokens", _of_answer(decoding.output_length)),
        *((f"{name}_ms", "ms", _stage(name)) for name in names),
        ("time_to_first_token_ms", "ms", _of_answer(lambda run: decoding.time_to_first_token_ms(run, basis))),
        ("inter_token_latency_ms", "ms", _of_answer(decoding.inter_token_latency_ms)),
        ("decode_throughput_tok_s", "tok/s", _of_answer(decoding.decode_throughput_tok_s)),
        ("kv_cache_bytes", "bytes", lambda column: kv_cache.live_bytes(*column)),
        ("total_ms", "ms", _of_answer(lambda run: stages.total_ms(run, basis))),
    ]
    if basis != MODEL_ONLY:
        found.append(("unattributed_ms", "ms", _of_answer(stages.unattributed_ms)))
    return found


def _stage(name: str) -> Reading:
    return lambda column: stages.stage_ms(column.run, name, column.role)


def _of_answer(figure: Callable[[RunLog], float | None]) -> Reading:
    return lambda column: figure(column.run) if column.is_answer else None


def judge(metric: str, ratio: float | None, ends: Sequence[float] | None) -> str:
    """ "good" or "bad" for B against A where the metric has a better side and the ratio's 95 % interval leaves 1 out;
    "" otherwise, and without an interval."""
    if ratio is None or ends is None or ends[0] <= 1 <= ends[1]:
        return ""
    if metric.endswith("_ms") or metric == "kv_cache_bytes":
        return "good" if ratio < 1 else "bad"
    if metric.endswith("_tok_s"):
        return "good" if ratio > 1 else "bad"
    return ""


def spread_text(ratio: float | None, ends: Sequence[float] | None) -> str:
    """`±3`: half the 95 % interval of a ratio in percent of it; empty without one, or where nothing spreads."""
    half = 50 * (ends[1] - ends[0]) / ratio if ratio and ends is not None else 0.0
    return "" if half < 0.05 else f"±{half:.0f}" if half >= 0.95 else f"±{half:.1f}"


def ratio_text(ratio: float | None) -> str:
    """`8.0×`, `0.64×`; empty without a ratio."""
    if ratio is None:
        return ""
    if ratio >= 100:
        return f"{ratio:,.0f}×"
    return f"{ratio:.1f}×" if ratio >= 10 else f"{ratio:.2f}×"


def figure_text(value: float | None, unit: str) -> str:
    """A figure without its unit: whole counts, times and rates to three or four digits, bytes in MiB."""
    if value is None:
        return NOTHING
    if unit == "tokens":
        return f"{value:.0f}"
    if unit == "bytes":
        mib = value / MIB
        return f"{mib:.{1 if mib >= 100 else 2 if mib >= 1 else 3}f}"
    return f"{value:.{0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2}f}"


def left_out(a: Column | None, b: Column | None) -> str:
    """Why a pair is not compared; empty when it is."""
    for column in (a, b):
        if column is not None and not is_comparable(column.run):
            kind = "a torch trace" if column.run.info.profiled else "a warm-up"
            return f"Run {column.run.run_id} is {kind}: it takes no part in comparisons."
    return ""


def generation_sentence(a: Column | None, b: Column | None, cells: Cells = NO_CELLS) -> str:
    """`generation 3.2× = 1.9× tokens · 1.7× time per token`; empty while unknown."""
    if a is None or b is None or a.run is b.run:
        return ""
    found = column_generation(cells[0], cells[1]) if cells[0] and cells[1] else generation(a.run, b.run)
    parts = [ratio_text(found[key]) for key in ("product", "token_count_ratio", "time_per_token_ratio")]
    return f"generation {parts[0]} = {parts[1]} tokens · {parts[2]} time per token" if all(parts) else ""


def cells_sentence(a: Column | None, b: Column | None, cells: Cells) -> str:
    """`Means over runs: A 60 of EventGPT, B 58 of Video-LLaVA. The columns show typical ones.`; empty without cells."""
    named = zip("AB", (a, b), cells, strict=True)
    counts = [f"{side} {len(cell.runs):,} of {_family(column)}" for side, column, cell in named if cell is not None]
    if not counts:
        return ""
    shown = "The columns show typical ones." if len(counts) == 2 else "The column shows a typical one."
    return f"Means over runs: {', '.join(counts)}. {shown}"


def match_sentence(a: Column | None, b: Column | None, cells: Cells = NO_CELLS) -> str:
    """`9 of 26 tokens match by position, 35 %`; empty without two answers."""
    if a is None or b is None or a.run is b.run:
        return ""
    found = column_token_match(cells[0], cells[1]) if cells[0] and cells[1] else token_match(a.run, b.run)
    if found["rate"] is None:
        return ""
    return f"{found['matched']:,} of {found['compared']:,} tokens match by position, {found['rate']:.0%}"


def column_heads(a: Column | None, b: Column | None) -> tuple[str, str]:
    """Column heads: the families; when those are the same, the one setting that differs, else run numbers."""
    if a is not None and b is not None and a.run is not b.run and _family(a) == _family(b):
        found = differences(a, b)
        if len(found) == 1 and max(len(setting.text) for setting in found[0]) <= LONGEST_HEAD:
            return found[0][0].text, found[0][1].text
        return f"run {a.run.run_id}", f"run {b.run.run_id}"
    return _family(a), _family(b)


def _family(column: Column | None) -> str:
    if column is None:
        return ""
    model = column.run.info.models.get(column.role)
    return family_title(model.family) if model else column.role


__all__ = [
    "BASES",
    "BASIS_NAMES",
    "FigureRow",
    "cells_sentence",
    "column_heads",
    "compare",
    "generation_sentence",
    "left_out",
    "match_sentence",
]
