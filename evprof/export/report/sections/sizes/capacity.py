"""Section: how many samples a memory holds at once, by KV cache alone and with what else has to be there."""

from __future__ import annotations

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_info import ModelFacts
from evprof.core.run_log import RunLog
from evprof.core.units import MIB, memory_text
from evprof.core.units import count_text as counted
from evprof.core.vocabulary.modes import mode_of
from evprof.export.report.data import ReportData
from evprof.export.report.figures import bytes_cell, count_cell, count_text
from evprof.export.report.parts import Badge, Block, Cell, ColumnsOf, Paragraph, Section, Table, not_available, table_of
from evprof.export.report.sections.evidence import badge_of, names_of, noted_models, pairs_of
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.paired import mean_of
from evprof.metrics.figures.kv_cache import measured_bytes
from evprof.metrics.limits.sizes import ITEM_BYTES, Capacity, ModelSizes

TITLE = "How many samples fit at once"

CARD_BYTES = 24_000 * MIB
"""A "24 GB" card as the mission documents count it; PyTorch finds about 23.5 GiB on one."""


def section(data: ReportData) -> Section:
    """Measured caches against a 24 GB card, and what a suite reckoned for this machine."""
    noted, names = noted_models(data), names_of(data)
    # A speculative run has two models and two caches; how many of those fit is no question of a batch.
    measured = [
        column
        for column in data.columns
        if not mode_of(column.runs[0].info.mode).is_paired and mean_of(column, measured_bytes)
    ]
    blocks: list[Block] = []
    if measured:
        blocks.append(_measured(measured, names))
        blocks += [Paragraph(text, badge=Badge.DERIVED) for text in _sentences(data, names)]
    planned = list(dict.fromkeys((sizes, capacity) for sizes in noted.values() for capacity in sizes.capacities))
    if planned:
        blocks.append(_planned(planned))
    if not blocks:
        return Section(TITLE, missing="No run measured its KV cache and no suite reckoned what its models take.")
    blocks.append(
        Paragraph(
            "The naive figure is memory / KV cache of one sample. It ignores the weights, which are there once, and "
            "the activations, which grow with the batch; document 002's ~75 and ~10 samples in 24 GB are naive."
            + ("" if planned else " Activations are not reckoned here: a suite does that from the models' shapes."),
            tone="warn",
        )
    )
    if any(_is_paired_7b(data)):
        blocks.append(Paragraph(_both(data), badge=Badge.DERIVED, tone="warn"))
    return Section(TITLE, tuple(blocks))


def _measured(columns: list[Configuration], names: dict[int, str]) -> Table:
    def cache(column: Configuration) -> float:
        return mean_of(column, measured_bytes) or 0.0

    told: ColumnsOf[Configuration] = [
        ("configuration", lambda column: names[id(column)]),
        ("KV cache of a sample", lambda column: bytes_cell(cache(column), badge_of(column.runs))),
        ("naive", lambda column: count_cell(naive_capacity(cache(column)), badge=Badge.DERIVED)),
        ("weights", lambda column: _weights_cell(column.runs[0])),
        ("beside weights, at most", lambda column: _beside(cache(column), weights_of(column.runs[0]))),
    ]
    caption = f"Samples in a 24 GB card ({count_text(CARD_BYTES / MIB)} MiB), as long as the measured ones"
    return table_of(columns, told, caption)


def naive_capacity(cache_bytes: float, memory_bytes: int = CARD_BYTES) -> int:
    """Memory / cache of one sample."""
    return int(memory_bytes / cache_bytes)


def weights_of(run: RunLog, role: str | None = None) -> int | None:
    """Bytes of a model's weights: told, or of an unquantized one its parameters in its dtype; None when unknown."""
    model: ModelFacts | None = run.info.models.get(role or run.info.role)
    if model is None:
        return None
    if model.weight_bytes:
        return model.weight_bytes
    item = ITEM_BYTES.get(model.dtype)
    return model.parameters * item if item and model.parameters and model.quantization is None else None


def _weights_cell(run: RunLog) -> Cell:
    model, weights = run.info.models.get(run.info.role), weights_of(run)
    if model is None or weights is None:
        return not_available("(not told)")
    return bytes_cell(weights, badge_of([run]) if model.weight_bytes else Badge.THEORETICAL)


def _beside(cache: float, weights: int | None) -> Cell:
    if weights is None:
        return not_available("(weights not told)")
    return count_cell(max(0, int((CARD_BYTES - weights) / cache)), badge=Badge.DERIVED)


def _sentences(data: ReportData, names: dict[int, str]) -> list[str]:
    said = []
    for pair in pairs_of(data)[:1]:
        caches = [mean_of(column, measured_bytes) for column in (pair.base, pair.other)]
        if not caches[0] or not caches[1]:
            continue
        one, two = (naive_capacity(cache) for cache in (caches[0], caches[1]))
        base, other = names[id(pair.base)], names[id(pair.other)]
        text = f"By cache alone {count_text(one)} samples of {base} against {count_text(two)} of {other} fit 24 GB"
        weights = [weights_of(column.runs[0]) for column in (pair.base, pair.other)]
        if weights[0] is not None and weights[1] is not None:
            left = [
                max(0, int((CARD_BYTES - weight) / cache))
                for weight, cache in zip((weights[0], weights[1]), (caches[0], caches[1]), strict=True)
            ]
            text += (
                f"; beside the weights at most {count_text(left[0])} against {count_text(left[1])}, activations still "
                "not counted"
            )
        said.append(f"{text}.")
    return said


def _planned(planned: list[tuple[ModelSizes, Capacity]]) -> Table:
    columns: ColumnsOf[tuple[ModelSizes, Capacity]] = [
        ("model", lambda plan: plan[0].name),
        ("memory", lambda plan: _memory(plan[1])),
        ("as", lambda plan: _as(plan[1])),
        ("positions", lambda plan: count_cell(plan[1].positions, badge=Badge.THEORETICAL)),
        ("KV cache", lambda plan: bytes_cell(plan[1].kv_bytes_per_sample, Badge.THEORETICAL)),
        ("naive", lambda plan: count_cell(plan[1].naive, badge=Badge.THEORETICAL)),
        ("weights", lambda plan: bytes_cell(plan[1].weight_bytes, Badge.THEORETICAL)),
        ("activations a sample", lambda plan: bytes_cell(plan[1].activation_bytes_per_sample, Badge.THEORETICAL)),
        ("real", lambda plan: _real(plan[1])),
    ]
    caption = "Batches by the models' shapes, each model alone; positions as long as the suite's settings allow"
    return table_of(planned, columns, caption, text_columns=3)


def _memory(capacity: Capacity) -> str:
    kind = "a 24 GB card" if capacity.is_assumed else "free here at the start"
    return f"{kind}, {memory_text(capacity.memory_bytes)}"


def _as(capacity: Capacity) -> str:
    frames = counted(capacity.frames, "frame") if capacity.frames else ""
    return ", ".join(word for word in (capacity.dtype, capacity.quantization, frames) if word)


def _real(capacity: Capacity) -> Cell:
    return count_cell(capacity.real, badge=Badge.THEORETICAL, tone="" if capacity.real else "bad")


def _is_paired_7b(data: ReportData) -> list[bool]:
    """Whether a pair's weights together pass the card."""
    return [sum(both) > CARD_BYTES for both in _pair_weights(data)]


def _pair_weights(data: ReportData) -> list[tuple[int, int]]:
    found = []
    for pair in pairs_of(data):
        roles = {pair.base.runs[0].info.role, pair.other.runs[0].info.role}
        weights = weights_of(pair.base.runs[0]), weights_of(pair.other.runs[0])
        if roles == {DRAFT, TARGET} and weights[0] is not None and weights[1] is not None:
            found.append((weights[0], weights[1]))
    return found


def _both(data: ReportData) -> str:
    one, two = next(both for both in _pair_weights(data) if sum(both) > CARD_BYTES)
    return (
        f"Both models together take {memory_text(one + two)} for weights alone: they do not fit a 24 GB card at all, "
        "so nothing that needs both at once (speculation, parallel prefill) runs there without quantization."
    )
