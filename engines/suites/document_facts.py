"""What the research documents ask of two models that no run tells: batches, cache layouts, alignment of features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Event
from typing import Any

import torch
from torch.nn.functional import normalize

from engines.bench.batches import SIZES, BatchModels, batch_rows, generate_batch
from engines.loading.warm_models import Loader
from engines.loading.weights import load_model
from engines.measuring.timing import NullClock, OpenSpan
from engines.stages.model import VisionLanguageModel
from engines.stages.pipeline import taken_cache
from engines.stages.reading import OFF
from evprof.core.errors import UserError
from evprof.core.protocols import StopFlag
from evprof.core.records import BATCHES, DRAFT, TARGET, BatchRow
from evprof.core.request import RunRequest, input_of
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice

FEATURE_ALIGNMENT, CACHE_LAYOUT = "feature_alignment", "cache_layout"

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
    with BatchModels(loader) as models:
        for role in (DRAFT, TARGET):
            try:
                model = models.load(RunRequest(role, shown[0], draft, target, settings), role, stop)
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
    with BatchModels(loader) as models:
        model = models.load(request, role, stop)
        return batch_rows(model, role, [request.sample], request.settings, stop, sizes=sizes)


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


ENCODER, LANGUAGE_MODEL = "encoder", "language model"
SPACES = (ENCODER, LANGUAGE_MODEL)

_SHUFFLES = 20
_LEAST_ROWS = 4
"""Below, the debiased estimate is not defined."""


def visual_features(
    model: VisionLanguageModel, sample: Sample, settings: GenerationSettings, kind: str | None = None
) -> dict[str, torch.Tensor]:
    """The features of a sample by space, each [positions, width] in float64 on the CPU.

    `kind` is the half of the sample that is read, by default the one the model reads. Raises UserError for bad input.
    """
    tap = _Tap()
    # Kept embeddings would leave nothing to see of the tower.
    settings = replace(settings, switches=replace(settings.switches, vision_cache=OFF))
    with torch.inference_mode():
        inputs = model.preprocess(model.load(sample, settings, tap, kind=kind), sample.prompt, settings, tap)
        visual = model.encode_vision(inputs, tap)
        read = tap.outputs.get(("pooling", "features"), tap.outputs["tower", "features"])
        tower = read.mean(dim=0)
    return {space: found.double().cpu().clone() for space, found in ((ENCODER, tower), (LANGUAGE_MODEL, visual))}


def compare_features(draft: Mapping[str, torch.Tensor], target: Mapping[str, torch.Tensor]) -> list[dict[str, Any]]:
    """For every space what two models' features [N, a] and [M, b] have in common, as plain JSON.

    `cosine` lists that of every aligned position and `mean_cosine` their mean; `mean_cosine_elsewhere` is that of rows
    at different positions. All three are None where the widths differ. The CKA figures are None where undefined.
    """
    return [{"space": space, **_compare(draft[space], target[space])} for space in SPACES]


def _compare(draft: torch.Tensor, target: torch.Tensor) -> dict[str, Any]:
    count = min(len(draft), len(target))
    mine, theirs = draft[:count], target[:count]
    cosine, elsewhere = _cosines(mine, theirs)
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(count, generator=generator) for _ in range(_SHUFFLES)]
    shuffled = [value for order in orders if (value := linear_cka(mine, theirs[order])) is not None]
    return {
        "draft_shape": list(draft.shape),
        "target_shape": list(target.shape),
        "positions": count,
        "cosine": cosine,
        "mean_cosine": sum(cosine) / count if cosine else None,
        "mean_cosine_elsewhere": elsewhere,
        "cka": linear_cka(mine, theirs),
        "cka_debiased": debiased_cka(mine, theirs),
        "cka_shuffled": sum(shuffled) / len(shuffled) if shuffled else None,
    }


def _cosines(mine: torch.Tensor, theirs: torch.Tensor) -> tuple[list[float] | None, float | None]:
    """Cosine by position, and the mean cosine of rows at different positions; None for different widths."""
    count = len(mine)
    if mine.shape[1] != theirs.shape[1] or not count:
        return None, None
    table = normalize(mine, dim=1) @ normalize(theirs, dim=1).T
    same = table.diagonal()
    elsewhere = float((table.sum() - same.sum()) / (count * (count - 1))) if count > 1 else None
    return [float(value) for value in same], elsewhere


def linear_cka(one: torch.Tensor, other: torch.Tensor) -> float | None:
    """Linear CKA of features [n, a] and [n, b] of the same n things: |B'A|² / (|A'A| |B'B|), columns centred.

    arXiv 1905.00414, equation 5. In 0 to 1; features of fewer rows than columns come out high whatever they are. None
    where either does not vary.
    """
    one, other = one - one.mean(dim=0), other - other.mean(dim=0)
    # Of the two ways to the same norms, by rows and by columns, the smaller matrices.
    mine, theirs = one @ one.T, other @ other.T
    scale = float(mine.norm() * theirs.norm())
    return float((mine * theirs).sum()) / scale if scale > 0 else None


def debiased_cka(one: torch.Tensor, other: torch.Tensor) -> float | None:
    """The same from unbiased HSIC: about 0 for unrelated features of any width, and below 0 at times.

    Song et al. 2012 (JMLR 13), equation 5, as Nguyen et al. use it (arXiv 2010.15327). None below four rows.
    """
    if len(one) < _LEAST_ROWS:
        return None
    mine, theirs = (features @ features.T for features in (one, other))
    for gram in (mine, theirs):
        gram.fill_diagonal_(0)
    scale = _hsic(mine, mine) * _hsic(theirs, theirs)
    return _hsic(mine, theirs) / scale**0.5 if scale > 0 else None


def _hsic(mine: torch.Tensor, theirs: torch.Tensor) -> float:
    """Unbiased HSIC of two Gram matrices with empty diagonals."""
    n = len(mine)
    traced = (mine * theirs).sum()
    apart = mine.sum() * theirs.sum() / ((n - 1) * (n - 2))
    crossed = 2 / (n - 2) * (mine.sum(dim=0) * theirs.sum(dim=0)).sum()
    return float((traced + apart - crossed) / (n * (n - 3)))


class _Tap(NullClock):
    """Measures nothing and keeps what parts of stages give: (part, name) -> tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: dict[tuple[str, str], Any] = {}

    def child(self, name: str, role: str | None = None) -> OpenSpan:
        return _KeptSpan(self, name)


class _KeptSpan(OpenSpan):
    __slots__ = ("_kept",)

    def __init__(self, tap: _Tap, name: str) -> None:
        super().__init__(tap, name, "", None)
        self._kept = tap.outputs

    def input(self, name: str, value: Any) -> None:
        """Of no interest."""

    def output(self, name: str, value: Any) -> None:
        self._kept[self.name, name] = value
