"""What others call the tensors of our models."""

from __future__ import annotations

from engines.checkpoints.config import ModelConfig
from engines.checkpoints.naming import EVENTGPT, naming
from engines.families.networks import build_empty, parameter_shapes


def tensor_names(config: ModelConfig) -> list[str]:
    """The published names of all tensors a checkpoint of this configuration holds."""
    names = naming(config.family)
    return [names.published(name) for name in parameter_shapes(build_empty(config))]


def vendor_name(family: str, module_name: str) -> str:
    """The name transformers' own classes of the LLaVA families (5.17 and later) use for a parameter of ours."""
    if family == EVENTGPT:
        raise KeyError("transformers has no EventGPT class")
    if module_name.startswith("language_model.lm_head."):
        return module_name.removeprefix("language_model.")
    return "model." + module_name.replace("language_model.model.", "language_model.", 1)
