"""What others call the tensors of our models, and the LLaVA families."""

from __future__ import annotations

from engines.checkpoints.config import ModelConfig
from engines.families.networks import build_empty, engine_family, parameter_shapes

LLAVA, VIDEO_LLAVA, LLAVA_NEXT_VIDEO = "llava", "video_llava", "llava_next_video"


def tensor_names(config: ModelConfig) -> list[str]:
    """The published names of all tensors a checkpoint of this configuration holds."""
    names = engine_family(config.family).names
    return [names.published(name) for name in parameter_shapes(build_empty(config))]


def vendor_name(module_name: str) -> str:
    """The name transformers' own classes of the LLaVA families (5.17 and later) use for a parameter of ours."""
    if module_name.startswith("language_model.lm_head."):
        return module_name.removeprefix("language_model.")
    return "model." + module_name.replace("language_model.model.", "language_model.", 1)
