"""What the research documents ask of two models that no run tells: batches, cache layouts, alignment of features.

One model is loaded at a time; measured once, before a suite's first row. What is not available is named and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Event
from typing import Any

import torch

from engines.bench.batches import SIZES, LocalBatchEngine, batch_rows, generate_batch
from engines.loading.warm_models import Loader
from engines.loading.weights import load_model
from engines.stages.model import VisionLanguageModel
from engines.stages.pipeline import taken_cache
from engines.suites.feature_alignment import DEFINITION, compare_features, visual_features
from evprof.core.batches import BATCHES, BatchRow
from evprof.core.errors import UserError
from evprof.core.protocols import StopFlag
from evprof.core.records import DRAFT, TARGET
from evprof.core.request import RunRequest, input_of
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice

FEATURE_ALIGNMENT, CACHE_LAYOUT = "feature_alignment", "cache_layout"
"""The facts' names, beside BATCHES."""

MOST_SAMPLES = 4

Note = Callable[[str], None]
Features = Mapping[str, torch.Tensor]


def document_facts(
    draft: ModelChoice,
    target: ModelChoice,
    samples: Sequence[Sample],
    settings: GenerationSettings,
    note: Note,
    *,
    stop: StopFlag | None = None,
    loader: Loader = load_model,
) -> dict[str, Any]:
    """{"feature_alignment": […], "cache_layout": […], "batches": […]} of the first samples, as plain JSON.

    `note` is told what is missing and why. Raises Cancelled when stopped.
    """
    stop, shown = stop or Event(), list(samples[:MOST_SAMPLES])
    if not shown:
        return {}
    found: dict[str, Any] = {BATCHES: [], CACHE_LAYOUT: []}
    seen: dict[str, list[Features]] = {}
    with _Pair(draft, target, settings, stop, loader) as pair:
        for role in (DRAFT, TARGET):
            try:
                model = pair.load(role, shown[0])
                found[CACHE_LAYOUT].append(cache_layout(model, role, shown[0], settings, stop))
                seen[role] = [visual_features(model, one, settings, input_of(settings.input, role)) for one in shown]
                rows = batch_rows(model, role, shown, settings, stop, sizes=SIZES)
                found[BATCHES] += [row.to_json() for row in rows]
            except (UserError, RuntimeError, MemoryError) as error:
                note(f"No batches, cache layout and features of the {role}: {error}")
    if len(seen) == len((DRAFT, TARGET)):
        found[FEATURE_ALIGNMENT] = alignment_rows(draft.name, target.name, shown, seen)
    return {name: rows for name, rows in found.items() if rows}


def batch_facts(
    request: RunRequest, role: str, sizes: Sequence[int], stop: StopFlag, *, loader: Loader = load_model
) -> list[BatchRow]:
    """The request's model of `role` in batches about its sample. Raises UserError and Cancelled."""
    engine = LocalBatchEngine(loader=loader)
    try:
        engine.ready(request, role, stop)
        return batch_rows(engine.model, role, [request.sample], request.settings, stop, sizes=sizes)
    finally:
        engine.close()


def inspect_features(
    draft: ModelChoice,
    target: ModelChoice,
    sample: Sample,
    settings: GenerationSettings,
    *,
    stop: StopFlag | None = None,
    loader: Loader = load_model,
) -> dict[str, Any]:
    """The key "features" of `evprof inspect DRAFT --against TARGET --features`.

    Raises UserError when a model or the sample is not available, Cancelled when stopped.
    """
    seen: list[Features] = []
    with _Pair(draft, target, settings, stop or Event(), loader) as pair:
        for role in (DRAFT, TARGET):
            model = pair.load(role, sample)
            seen.append(visual_features(model, sample, settings, input_of(settings.input, role)))
    return {
        "target": target.name,
        "sample": sample.name,
        "definition": DEFINITION,
        "spaces": compare_features(seen[0], seen[1]),
    }


def alignment_rows(
    draft: str, target: str, samples: Sequence[Sample], seen: Mapping[str, Sequence[Features]]
) -> list[dict[str, Any]]:
    """A row for every sample, space and aligned position; the CKA figures are the same in all rows of a sample's
    space."""
    rows = []
    for sample, mine, theirs in zip(samples, seen[DRAFT], seen[TARGET], strict=True):
        for compared in compare_features(mine, theirs):
            shared = {
                "draft": draft,
                "target": target,
                "sample": sample.name,
                "space": compared["space"],
                "draft_tokens": compared["draft_shape"][0],
                "target_tokens": compared["target_shape"][0],
                **{key: compared[key] for key in ("mean_cosine_elsewhere", "cka", "cka_debiased", "cka_shuffled")},
            }
            cosines = compared["cosine"] or [None] * compared["positions"]
            rows += [{**shared, "position": place, "cosine": value} for place, value in enumerate(cosines)]
    return rows


def cache_layout(
    model: VisionLanguageModel, role: str, sample: Sample, settings: GenerationSettings, stop: StopFlag
) -> dict[str, Any]:
    """How the model's cache lies in memory after the prompt and one decoded token."""
    short = replace(settings, max_new_tokens=2, ignore_eos=True)
    weight = generate_batch(model, [(sample, sample.prompt)], short, stop=stop).cache
    layout = weight.layout
    if layout is None:
        raise UserError(f"The cache of {model.facts.name} holds nothing to look at.")
    facts = model.facts
    return {
        "model": facts.name,
        "role": role,
        "cache": taken_cache(settings.switches.cache),
        "layers": facts.layers,
        "kv_heads": facts.kv_heads,
        "head_dim": facts.head_dim,
        "positions": layout.shape[2] if len(layout.shape) == 4 else None,
        "element_bytes": facts.kv_element_bytes,
        "per_layer_bytes": weight.per_layer,
        **layout.to_json(),
        "reserved_bytes": weight.stored,
        "used_bytes": weight.logical,
    }


class _Pair:
    """Both models, of which one at a time is loaded. A context that frees them."""

    def __init__(
        self, draft: ModelChoice, target: ModelChoice, settings: GenerationSettings, stop: StopFlag, loader: Loader
    ) -> None:
        self._engine = LocalBatchEngine(loader=loader)
        self._draft, self._target, self._settings, self._stop = draft, target, settings, stop

    def load(self, role: str, sample: Sample) -> VisionLanguageModel:
        """The model of a role. Raises UserError and Cancelled."""
        request = RunRequest(role, sample, self._draft, self._target, self._settings)
        self._engine.ready(request, role, self._stop)
        return self._engine.model

    def __enter__(self) -> _Pair:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()
