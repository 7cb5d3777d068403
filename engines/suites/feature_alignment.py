"""How alike what two models see of one scene is: their visual features compared position by position, and by CKA.

Features are those of stage vision: what the tower gives the projector ("encoder", the mean over frames), and what the
language model gets ("language model"). It knows no decoding and no vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.nn.functional import normalize

from engines.measuring.timing import NullClock, OpenSpan
from engines.stages.model import VisionLanguageModel
from engines.stages.vision_cache import OFF
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings

ENCODER, LANGUAGE_MODEL = "encoder", "language model"
SPACES = (ENCODER, LANGUAGE_MODEL)

DEFINITION = (
    "Row i of the draft's features is set against row i of the target's, up to the shorter; encoder features are the "
    "mean over frames, class token first, those of the language model lie as they enter its prompt. Linear CKA "
    "(Kornblith et al. 2019, arXiv 1905.00414) over these rows, its debiased form (Song et al. 2012), and the same "
    "with the target's rows in random order: what no alignment gives."
)

_SHUFFLES = 20
_LEAST_ROWS = 4
"""Below, the debiased estimate is not defined."""


def visual_features(
    model: VisionLanguageModel, sample: Sample, settings: GenerationSettings, kind: str | None = None
) -> dict[str, torch.Tensor]:
    """The features of a sample by space, each [positions, width] in float64 on the CPU.

    `kind` is the half of the sample that is read, by itself the one the model wants. Raises UserError for bad input.
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
        """A part whose outputs are kept."""
        return _KeptSpan(self, name)


class _KeptSpan(OpenSpan):
    __slots__ = ("_kept",)

    def __init__(self, tap: _Tap, name: str) -> None:
        super().__init__(tap, name, "", None)
        self._kept = tap.outputs

    def input(self, name: str, value: Any) -> None:
        """Of no interest."""

    def output(self, name: str, value: Any) -> None:
        """Kept."""
        self._kept[self.name, name] = value
