"""A language model's modules, as transformers makes them for a Llama, and as Qwen2 differs from one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.checkpoints.qwen2_text import is_qwen2

if TYPE_CHECKING:
    from transformers import LlamaConfig, LlamaForCausalLM


def make_language_model(text: LlamaConfig) -> LlamaForCausalLM:
    """The modules with the weights they begin with. What leaves the attention of a Qwen2 has no bias."""
    from transformers import LlamaForCausalLM

    model: LlamaForCausalLM = LlamaForCausalLM(text)
    if is_qwen2(text):
        for layer in model.model.layers:
            layer.self_attn.o_proj.register_parameter("bias", None)
    return model
