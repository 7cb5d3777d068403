"""Section: what both models are made of, what shapes they handed on, how far pictures are compressed."""

from __future__ import annotations

from collections.abc import Iterator

from evprof.core.rows.span import Span
from evprof.core.run_info import ModelFacts
from evprof.core.run_log import RunLog
from evprof.export.report.data import ReportData
from evprof.export.report.figures import count_cell, nothing_measured, ratio_text
from evprof.export.report.parts import Badge, Block, Cell, Paragraph, Section, Table, Verbatim
from evprof.export.report.sections.evidence import badge_of, noted_models, sizes_in
from evprof.export.report.tensor_text import tensors_text
from evprof.metrics.figures.decoding import decode_steps, frames_shown, visual_tokens
from evprof.metrics.limits.sizes import ModelSizes, read_words

TITLE = "Models"

MOST_COMPRESSIONS = 12

Model = tuple[ModelFacts, ModelSizes | None, RunLog]


def section(data: ReportData) -> Section:
    """The architectures beside each other, how pictures are compressed, and a diagram of each model."""
    blocks = [*architecture(data), *compression(data), *diagrams(data)]
    return Section(TITLE, tuple(blocks)) if blocks else Section(TITLE, missing="Runs that name their models.")


def architecture(data: ReportData) -> list[Block]:
    """Backbones, sizes and vision towers beside each other."""
    models = _models(data)
    if not models:
        return []
    blocks: list[Block] = [_table(data, models)]
    if any(sizes is not None and sizes.is_published for _, sizes, _ in models.values()):
        blocks.append(
            Paragraph("Sizes that no suite noted are the published ones of 7B models.", badge=Badge.THEORETICAL)
        )
    return blocks


def _models(data: ReportData) -> dict[tuple[str, str], Model]:
    """Answering models by role and name, each with its sizes and its first run that has tensors, or its first run."""
    noted = noted_models(data)
    found: dict[tuple[str, str], Model] = {}
    for run in data.runs:
        model = run.info.models.get(run.info.role)
        if model is None or not model.layers:
            continue  # behind a server
        key = (run.info.role, model.name)
        if key not in found or (not has_shapes(found[key][2]) and has_shapes(run)):
            found[key] = (model, sizes_in(run, noted), run)
    return found


def has_shapes(run: RunLog) -> bool:
    """Whether it is known what went in and out of its stages."""
    return run.has_tensors and any(span.tensors for span in run.stages())


def _table(data: ReportData, models: dict[tuple[str, str], Model]) -> Table:
    words = read_words(data.facts("models"))
    listed = [(role, *model) for (role, _), model in models.items()]
    rows: list[tuple[Cell, ...]] = [
        (Cell("role"), *(Cell(role) for role, *_ in listed)),
        (Cell("family"), *(Cell(model.family) for _, model, *_ in listed)),
    ]
    for title, key in (("backbone", "backbone"), ("vision tower", "vision_tower"), ("projector", "projector")):
        if any(key in words.get(model.name, {}) for _, model, *_ in listed):
            rows.append(
                (Cell(title), *(Cell(str(words.get(model.name, {}).get(key, "n/a"))) for _, model, *_ in listed))
            )
    numbers = [_numbers(model, sizes, words.get(model.name, {})) for _, model, sizes, _ in listed]
    for title in dict.fromkeys(title for each in numbers for title in each):
        rows.append(
            (
                Cell(title),
                *(
                    count_cell(value, badge=Badge.THEORETICAL) if (value := each.get(title)) else nothing_measured()
                    for each in numbers
                ),
            )
        )
    heads = ("", *(model.name for _, model, *_ in listed))
    return Table(heads, tuple(rows), "Architectures, from the models' configurations")


def _numbers(model: ModelFacts, sizes: ModelSizes | None, words: dict[str, str | int]) -> dict[str, int]:
    """Sizes that are known, by what they are called."""
    found = {"parameters": model.parameters, "layers": model.layers, "heads of keys and values": model.kv_heads}
    found |= {"head dimension": model.head_dim, "positions trained for": model.context_limit}
    if sizes is not None:
        text = sizes.text
        found |= {"hidden": text.hidden, "heads": text.heads, "feed-forward": text.intermediate}
        found |= {"vocabulary": text.vocabulary}
        if sizes.vision is not None:
            seen = sizes.vision
            found |= {"vision layers": seen.layers, "vision width": seen.width, "patch, pixels": seen.patch}
            found |= {"positions of a frame": seen.kept}
    if isinstance(size := words.get("image_size"), int):
        found["image, pixels"] = size
    return {name: value for name, value in found.items() if value}


def compression(data: ReportData) -> list[Block]:
    """Positions that all frames' features have together beside those that they take in the prompt."""
    noted = noted_models(data)
    rows: dict[tuple[str, int, int], tuple[Cell, ...]] = {}
    for run in data.runs:
        sizes, frames, visual = sizes_in(run, noted), frames_shown(run), visual_tokens(run)
        model = run.info.models.get(run.info.role)
        if sizes is None or sizes.vision is None or not frames or not visual or model is None or _prunes(run):
            continue
        together = frames * sizes.vision.kept
        own = badge_of([run])
        rows.setdefault(
            (model.name, frames, visual),
            (
                Cell(model.name),
                count_cell(frames, badge=own),
                count_cell(sizes.vision.kept, badge=Badge.THEORETICAL),
                count_cell(together, badge=Badge.THEORETICAL),
                count_cell(visual, badge=own),
                Cell(ratio_text(together / visual), Badge.DERIVED),
            ),
        )
    if not rows:
        return []
    heads = ("model", "frames", "positions of a frame", "of all frames", "visual in the prompt", "compression")
    listed = [rows[key] for key in sorted(rows)][:MOST_COMPRESSIONS]
    return [Table(heads, tuple(listed), "Compression of visual features before the language model")]


def _prunes(run: RunLog) -> bool:
    return run.info.settings.switches.visual_keep != 1


def diagrams(data: ReportData) -> list[Block]:
    """Every model as a chain of stages with the shapes that its first run handed on."""
    return [
        Verbatim("\n".join(_diagram(role, model, run)))
        for (role, _), (model, _, run) in _models(data).items()
        if has_shapes(run)
    ]


def _diagram(role: str, model: ModelFacts, run: RunLog) -> Iterator[str]:
    yield f"{model.name} ({role}, {model.dtype}), run {run.run_id}"
    yield ""
    for span in run.stages(role):
        inside = [child for child in run.children(span.span_id) if span.name != "decode"]
        yield f"  {span.name}{_words(run, model, span)}"
        width = max((len(child.name) for child in inside), default=0)
        for child in inside:
            yield f"  │   {child.name.ljust(width)}  {tensors_text(child.tensors, 'out')}".rstrip()
        yield f"  ▼ {tensors_text(span.tensors, 'out')}"


def _words(run: RunLog, model: ModelFacts, span: Span) -> str:
    if span.name == "prefill":
        return f" through {model.layers} layers of {model.kv_heads} heads of {model.head_dim}"
    return f", {decode_steps(run) or 0} steps" if span.name == "decode" else ""
