"""Section: the architectures of both models, how far they compress pictures, and the shapes that stages hand on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from evprof.core.records import TensorRecord
from evprof.core.rows.spans import Span
from evprof.core.run_info import ModelFacts
from evprof.core.run_log import RunLog
from evprof.export.report.data import ReportData, badge_of
from evprof.export.report.figures import bytes_cell, count_cell, nothing_measured, ratio_text
from evprof.export.report.pairs import firsts_of_models, sizes_in
from evprof.export.report.parts import (
    Badge,
    Block,
    Cell,
    Paragraph,
    Section,
    Table,
    Verbatim,
    headed,
    row_of,
    section_of,
)
from evprof.export.report.sections.stages import tensors_text, unnumbered
from evprof.metrics.figures.decoding import decode_steps, frames_shown, visual_tokens
from evprof.metrics.limits.sizes import ModelSizes, read_words

MOST_COMPRESSIONS = 12
WORDS = {"backbone": "backbone", "vision tower": "vision_tower", "projector": "projector"}

Model = tuple[ModelFacts, ModelSizes | None, RunLog]


def section(data: ReportData) -> Section:
    """The architectures beside each other, compression, a diagram of each model, and all shapes."""
    blocks = [
        *architecture(data),
        *compression(data),
        *headed("Stages of each model", diagrams(data)),
        *headed("Shapes", shapes(data)),
    ]
    return section_of("Models and shapes", blocks, "Runs that name their models.")


def architecture(data: ReportData) -> list[Block]:
    """Backbones, sizes and vision towers beside each other."""
    models = _models(data)
    if not models:
        return []
    words = read_words(data.facts("models"))
    known = [(role, *model) for (role, _), model in models.items()]
    rows = [
        row_of("role", *(role for role, *_ in known)),
        row_of("family", *(model.family for _, model, *_ in known)),
    ]
    for title, key in WORDS.items():
        if any(key in words.get(model.name, {}) for _, model, *_ in known):
            rows.append(row_of(title, *(str(words.get(model.name, {}).get(key, "n/a")) for _, model, *_ in known)))
    numbers = [_numbers(model, sizes, words.get(model.name, {})) for _, model, sizes, _ in known]
    for title in dict.fromkeys(title for each in numbers for title in each):
        values = (each.get(title) for each in numbers)
        cells = (count_cell(one, badge=Badge.THEORETICAL) if one else nothing_measured() for one in values)
        rows.append(row_of(title, *cells))
    heads = ("", *(model.name for _, model, *_ in known))
    blocks: list[Block] = [Table(heads, tuple(rows), "Architectures, from the models' configurations")]
    if any(sizes is not None and sizes.is_published for _, sizes, _ in models.values()):
        text = "Sizes that no suite noted are the published ones of 7B models."
        blocks.append(Paragraph(text, badge=Badge.THEORETICAL))
    return blocks


def _models(data: ReportData) -> dict[tuple[str, str], Model]:
    """Answering models by role and name, each with its sizes and its first run that has tensors, or its first run."""
    models: dict[tuple[str, str], Model] = {}
    for run in data.runs:
        model = run.info.models.get(run.info.role)
        if model is None or not model.layers:
            continue  # behind a server
        key = (run.info.role, model.name)
        if key not in models or (not _has_shapes(models[key][2]) and _has_shapes(run)):
            models[key] = (model, sizes_in(data, run), run)
    return models


def _has_shapes(run: RunLog) -> bool:
    return run.has_tensors and any(span.tensors for span in run.stages())


def _numbers(model: ModelFacts, sizes: ModelSizes | None, words: dict[str, str | int]) -> dict[str, int]:
    """Sizes that are known, by name."""
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
    """Positions that all frames' features have together beside those that they take in the prompt."""
    rows: dict[tuple[str, int, int], tuple[Cell, ...]] = {}
    for run in data.runs:
        sizes, frames, visual = sizes_in(data, run), frames_shown(run), visual_tokens(run)
        model = run.info.models.get(run.info.role)
        is_pruned = run.info.settings.switches.visual_keep != 1
        if sizes is None or sizes.vision is None or not frames or not visual or model is None or is_pruned:
            continue
        kept, own = sizes.vision.kept, badge_of([run])
        rows[model.name, frames, visual] = row_of(
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


def diagrams(data: ReportData) -> list[Block]:
    """Every model as a chain of stages with the shapes that its first run handed on."""
    return [
        Verbatim("\n".join(_diagram(role, model, run)))
        for (role, _), (model, _, run) in _models(data).items()
        if _has_shapes(run)
    ]


def _diagram(role: str, model: ModelFacts, run: RunLog) -> Iterator[str]:
    yield f"{model.name} ({role}, {model.dtype}), run {run.run_id}"
    yield ""
    for span in run.stages(role):
        inside = [child for child in run.children(span.span_id) if span.name != "decode"]
        words = {
            "prefill": f" through {model.layers} layers of {model.kv_heads} heads of {model.head_dim}",
            "decode": f", {decode_steps(run) or 0} steps",
        }
        yield f"  {span.name}{words.get(span.name, '')}"
        width = max((len(child.name) for child in inside), default=0)
        for child in inside:
            yield f"  │   {child.name.ljust(width)}  {tensors_text(child.tensors, 'out')}".rstrip()
        yield f"  ▼ {tensors_text(span.tensors, 'out')}"


class TensorLine(NamedTuple):
    """One tensor, or several numbered ones, of a stage or a part of one; `nbytes` is of all of them."""

    title: str
    direction: str
    name: str
    dtype: str
    shape: str
    nbytes: int


def shapes(data: ReportData) -> list[Block]:
    """Inputs and outputs of every stage of the first configuration of every model that has them."""
    tables: list[Block] = []
    for column in firsts_of_models(data, _has_shapes):
        run, own = column.runs[0], badge_of(column.runs)
        for role in dict.fromkeys(span.role for span in run.stages()):
            rows = tuple(
                row_of(*line[:4], Cell(line.shape, own), bytes_cell(line.nbytes, own)) for line in _lines(run, role)
            )
            heads = ("stage", "", "name", "dtype", "shape", "bytes")
            tables.append(Table(heads, rows, f"{data.name(column)} ({role}), its first run", text_columns=5))
    return tables


def _lines(run: RunLog, role: str) -> Iterator[TensorLine]:
    for span in run.stages(role):
        yield from _of_span(span, span.name)
        for child in run.children(span.span_id):
            yield from _of_span(child, f"{span.name} · {child.name}")


def _of_span(span: Span, title: str) -> Iterator[TensorLine]:
    for direction in ("in", "out"):
        records = [record for record in span.tensors if record.direction == direction]
        for (name, dtype), group in groupby(records, lambda record: (unnumbered(record.name), record.dtype)):
            alike = list(group)
            yield TensorLine(title, direction, name, dtype, _shape(alike), sum(each.nbytes for each in alike))


def _shape(records: Sequence[TensorRecord]) -> str:
    """`[5, 3, 64, 64]`; of several alike with ranges of sizes, `3 × [3, 335…336, 336]`."""
    sizes = [[int(part) for part in record.shape.split(",") if part.strip()] for record in records]
    if len({len(each) for each in sizes}) > 1:
        return " and ".join(dict.fromkeys(f"[{', '.join(map(str, each))}]" for each in sizes))
    ends = [(min(column), max(column)) for column in zip(*sizes, strict=True)]
    shape = f"[{', '.join(str(low) if low == high else f'{low}…{high}' for low, high in ends)}]"
    return shape if len(records) == 1 else f"{len(records)} × {shape}"
