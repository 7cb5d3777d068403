"""What tells the model of a choice from any other by its content: the checkpoint's, and its quantization."""

from __future__ import annotations

from engines.checkpoints.folder_content import folder_content
from engines.loading.weights import find_checkpoint
from evprof.core.vocabulary.generation import ModelChoice


def content_identity(choice: ModelChoice) -> str:
    """The content of its folder (see `folder_content`), its quantization in front; random weights are their own name.

    Raises UserError when there is no such checkpoint or it cannot be read.
    """
    quantized = f"{choice.quantization}:" if choice.quantization else ""
    checkpoint = find_checkpoint(choice.name, choice.clip)
    if checkpoint.folder is None:
        return f"{quantized}{choice.name}"
    return f"{quantized}{folder_content(checkpoint.folder, checkpoint.config.kept_layers)}"
