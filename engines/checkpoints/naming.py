"""How a tensor is called in a published checkpoint and how it is called in the module that takes it.

transformers changes its own names between releases (since 5.17 it drops `vision_model.` from CLIP when it saves), so
both directions are spelled out here and nowhere else. It knows names only, neither shapes nor files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

EVENTGPT, LLAVA, VIDEO_LLAVA, LLAVA_NEXT_VIDEO = "eventgpt", "llava", "video_llava", "llava_next_video"
"""The families of models."""


@dataclass(frozen=True)
class Naming:
    """One family's names: `prefixes` pairs of (module prefix, published prefix), longest match first."""

    family: str
    prefixes: tuple[tuple[str, str], ...]

    def published(self, module_name: str) -> str:
        """The published name of a parameter of the module."""
        for module, published in self.prefixes:
            if module_name.startswith(module):
                return published + module_name.removeprefix(module)
        raise KeyError(f"{self.family} has no published name for {module_name}")

    def module(self, published_name: str) -> str | None:
        """The module's name of a published tensor, or None when the family has no such part."""
        for module, published in self.prefixes:
            if published_name.startswith(published):
                return module + published_name.removeprefix(published)
        return None


_NAMINGS = {
    EVENTGPT: Naming(
        EVENTGPT,
        (
            ("visual_tower.", "model.visual_tower.visual_tower.vision_model."),
            ("visual_projector.", "model.visual_projector."),
            ("feature_adaptor.", "model.feature_adaptor."),
            ("language_model.lm_head.", "lm_head."),
            ("language_model.model.", "model."),
        ),
    ),
    LLAVA: Naming(
        LLAVA,
        (
            ("vision_tower.", "vision_tower.vision_model."),
            ("multi_modal_projector.", "multi_modal_projector."),
            ("language_model.", "language_model."),
        ),
    ),
    VIDEO_LLAVA: Naming(
        VIDEO_LLAVA,
        (
            ("image_tower.", "image_tower.vision_model."),
            ("video_tower.", "video_tower.vision_model."),
            ("multi_modal_projector.", "multi_modal_projector."),
            ("language_model.", "language_model."),
        ),
    ),
    LLAVA_NEXT_VIDEO: Naming(
        LLAVA_NEXT_VIDEO,
        (
            ("vision_tower.", "vision_tower.vision_model."),
            ("multi_modal_projector.", "multi_modal_projector."),
            ("image_newline", "image_newline"),
            ("language_model.", "language_model."),
        ),
    ),
}

_TOWER = re.compile(r"^(?P<tower>(?:image|video|vision)_tower\.)(?!vision_model\.)")
_HEAD = "lm_head."
_BUFFERS = re.compile(r"(rotary_emb\.inv_freq|embeddings\.position_ids)$")


def naming(family: str) -> Naming:
    """The names of a family."""
    return _NAMINGS[family]


def is_old_buffer(name: str) -> bool:
    """Whether a stored tensor is a table older transformers wrote and every release can compute: safe to skip."""
    return _BUFFERS.search(name) is not None


def canonical(family: str, stored_name: str) -> str:
    """The published name of a tensor that a newer transformers stored under its later names.

    From 4.52 on LLaVA-style models are saved as `model.language_model.*` and `lm_head.*`, from 5.17 on the towers
    without `vision_model.`; names already in the published form, and all of EventGPT's, come back unchanged but for
    the tower's missing `vision_model.`.
    """
    if family == EVENTGPT:
        return re.sub(r"^(model\.visual_tower\.visual_tower\.)(?!vision_model\.)", r"\1vision_model.", stored_name)
    name = stored_name
    if name.startswith("model."):
        name = name.removeprefix("model.")
        if name.startswith("language_model.") and not name.startswith("language_model.model."):
            name = "language_model.model." + name.removeprefix("language_model.")
    if name.startswith(_HEAD):
        name = "language_model." + name
    return _TOWER.sub(r"\g<tower>vision_model.", name)
