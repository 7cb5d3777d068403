"""Small checkpoints with a Qwen2 inside, written as their own programs write them: EventGPT-Plus, and LLaVA's.

Names and shapes are spelled out here by their own rule, so that nothing of the program's naming vouches for itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch import nn
from transformers import CLIPVisionModel, Qwen2Config, Qwen2ForCausalLM

from small_models import small_vision

TOWER = "model.event_tower.vision_tower.vision_model."
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Qwen2's tokenizer.json cuts a text."""

TEXT = (
    "A bus is coming closer. What is in the scene? A red car drives through the street, and two people wait at the "
    "corner; the picture shows a truck that moves away to the left. I can't say more. 12 cars, 345 lights.\n"
)


Tower = tuple[int, int, int, int, int]
"""A CLIP tower's layers, width, inner width, patch in pixels, and patches."""


def tower_shapes(prefix: str, tower: Tower) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor of a CLIP tower."""
    depth, narrow, wide, patch, patches = tower
    yield f"{prefix}embeddings.class_embedding", (narrow,)
    yield f"{prefix}embeddings.patch_embedding.weight", (narrow, 3, patch, patch)
    yield f"{prefix}embeddings.position_embedding.weight", (patches + 1, narrow)
    norms = ["pre_layrnorm", "post_layernorm"]
    for layer in range(depth):
        inside = f"encoder.layers.{layer}."
        norms += [f"{inside}layer_norm1", f"{inside}layer_norm2"]
        maps = [(f"self_attn.{name}_proj", narrow, narrow) for name in ("q", "k", "v", "out")]
        for name, rows, columns in (*maps, ("mlp.fc1", wide, narrow), ("mlp.fc2", narrow, wide)):
            yield f"{prefix}{inside}{name}.weight", (rows, columns)
            yield f"{prefix}{inside}{name}.bias", (rows,)
    for name in norms:
        yield f"{prefix}{name}.weight", (narrow,)
        yield f"{prefix}{name}.bias", (narrow,)


def shapes_of(config: Qwen2Config, tower: Tower) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor of an EventGPT-Plus."""
    width, inner = config.hidden_size, config.intermediate_size
    shared = width // config.num_attention_heads * (config.num_key_value_heads or 1)
    yield "model.embed_tokens.weight", (config.vocab_size, width)
    yield "model.norm.weight", (width,)
    if not config.tie_word_embeddings:
        yield "lm_head.weight", (config.vocab_size, width)
    for layer in range(config.num_hidden_layers):
        inside = f"model.layers.{layer}."
        for name, rows in (("q", width), ("k", shared), ("v", shared)):
            yield f"{inside}self_attn.{name}_proj.weight", (rows, width)
            yield f"{inside}self_attn.{name}_proj.bias", (rows,)
        yield f"{inside}self_attn.o_proj.weight", (width, width)
        for name, shape in (("gate", (inner, width)), ("up", (inner, width)), ("down", (width, inner))):
            yield f"{inside}mlp.{name}_proj.weight", shape
        yield f"{inside}input_layernorm.weight", (width,)
        yield f"{inside}post_attention_layernorm.weight", (width,)
    for number, columns in ((0, tower[1]), (2, width)):
        yield f"model.event_projector.{number}.weight", (width, columns)
        yield f"model.event_projector.{number}.bias", (width,)
    yield from tower_shapes(TOWER, tower)


def tokenizer(pieces: int = 400) -> Tokenizer:
    """A vocabulary of bytes as Qwen2's, taught a few words, with ChatML's tokens above it."""
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(
        [TEXT, "€ 漢字"] * 9,
        trainers.BpeTrainer(vocab_size=pieces, initial_alphabet=alphabet, show_progress=False, min_frequency=2),
    )
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    return made


def write_tokenizer(folder: Path, made: Tokenizer, *, is_slow: bool = False) -> None:
    if not is_slow:
        made.save(str(folder / "tokenizer.json"))
        return
    made.model.save(str(folder))
    added = {
        str(made.token_to_id(name)): {"content": name, "special": True, "normalized": False, "lstrip": False}
        for name in SPECIAL
    }
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))


def qwen2(rows: int, *, layers: int = 2, seed: int = 0, width: int = 48, is_tied: bool = True) -> Any:
    """A small Qwen2 whose text does not settle; biases are as large as what they are added to."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=rows,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=is_tied,
        bos_token_id=None,
        eos_token_id=None,
    )
    model: Any = Qwen2ForCausalLM(config)
    model.eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "norm" not in name:
            nn.init.normal_(parameter, std=0.5 if name.endswith("bias") else 0.2)
    return model


@dataclass
class EventGptPlusParts:
    """What the published program puts together, as modules of torch and transformers."""

    tower: Any
    projector: nn.Sequential
    language: Any

    @classmethod
    def small(cls, rows: int, **changes: Any) -> EventGptPlusParts:
        """Pictures of 4 x 4 patches."""
        language = qwen2(rows, **changes)
        vision = small_vision()
        width = language.config.hidden_size
        projector = nn.Sequential(nn.Linear(32, width), nn.GELU(), nn.Linear(width, width))
        tower: Any = CLIPVisionModel(vision)
        for part in (tower, projector):
            part.eval().requires_grad_(False)
        return cls(tower, projector, language)

    def visual(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """[T, 3, H, W] -> [T · N, width]: the last layer's patches, projected, then averaged two by two."""
        features = self.projector(self.tower(pixel_values).last_hidden_state[:, 1:])
        frames, patches, width = features.shape
        side = round(patches**0.5)
        pooled: torch.Tensor = features.view(frames, side // 2, 2, side // 2, 2, width).mean(dim=(2, 4))
        return pooled.reshape(-1, width)

    def tensors(self) -> dict[str, torch.Tensor]:
        """By their published names; a tied head is not stored."""
        found = {f"model.event_projector.{name}": value for name, value in self.projector.state_dict().items()}
        found |= {
            TOWER + name.removeprefix("vision_model."): value
            for name, value in self.tower.state_dict().items()
            if "position_ids" not in name
        }
        tied = self.language.config.tie_word_embeddings
        own = self.language.state_dict().items()
        return found | {name: value for name, value in own if not (tied and name == "lm_head.weight")}

    def config_json(self) -> dict[str, Any]:
        keys = ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"]
        keys += ["num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings", "hidden_act"]
        config = self.language.config
        return {
            "architectures": ["EventGPTPlusQwenCausalLM"],
            "model_type": "eventgpt_plus_qwen",
            **{key: getattr(config, key) for key in keys},
            "rope_theta": config.rope_parameters["rope_theta"],
            "use_sliding_window": False,
            "sliding_window": None,
            "max_window_layers": 28,
            "event_tower": "event_tower",
            "event_tower_type": "CLIP",
            "event_tower_hidden_size": 32,
        }

    def write(self, folder: Path, made: Tokenizer | None = None, *, is_slow: bool = False) -> Path:
        """The whole checkpoint, with the folder that describes its tower."""
        inside = folder / "event_tower"
        inside.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(self.config_json()))
        (inside / "config.json").write_text(json.dumps(self.tower.config.to_dict()))
        save_file({name: value.contiguous() for name, value in self.tensors().items()}, folder / "model.safetensors")
        write_tokenizer(folder, made or tokenizer(), is_slow=is_slow)
        return folder
