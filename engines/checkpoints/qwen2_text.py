"""Qwen2 as a language model: a Llama with biases on queries, keys and values, and on nothing else.

So all that knows Llama's configuration and passes knows this one; `engines.families.language_model` makes its modules.
What config.json leaves out has transformers' own values for Qwen2, which differ from Llama's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.checkpoints.config import TEXT_KEYS, text_config
from evprof.core.errors import UserError

if TYPE_CHECKING:
    from transformers import LlamaConfig

QWEN2 = "qwen2"
"""What config.json calls the language model."""

QWEN2_1_5B: dict[str, Any] = {
    "vocab_size": 151_936,
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32_768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
}
"""Qwen2.5-1.5B-Instruct's shape."""

_SLIDING = "sliding_attention"


def is_qwen2(text: LlamaConfig) -> bool:
    """Whether the language model is a Qwen2."""
    return text.model_type == QWEN2


def qwen2_text(values: Mapping[str, Any], source: Path) -> LlamaConfig:
    """The language model of a file's values.

    Raises UserError naming `source` where layers look at a sliding window.
    """
    if _slides(values):
        raise UserError(
            f"{source}: the language model looks at a sliding window (use_sliding_window); evprof runs Qwen2 models "
            "whose layers look at all positions."
        )
    from transformers import Qwen2Config

    usual = Qwen2Config()
    filled = {key: getattr(usual, key) for key in TEXT_KEYS if hasattr(usual, key)}
    text = text_config({**filled, **values, "attention_bias": True})
    text.model_type = QWEN2  # type: ignore[misc]  # a class variable to transformers, which only reads it
    return text


def _slides(values: Mapping[str, Any]) -> bool:
    kinds = values.get("layer_types")
    return bool(values.get("use_sliding_window")) or (isinstance(kinds, list) and _SLIDING in kinds)
