"""Model configurations: a CLIP tower and a Llama or Qwen2, checked before a network is built from them.

Each family decides which file describes what (`engines.families`). A config.json is untrusted input: a billion layers
or a width of zero are refused here. An EventGPT checkpoint names the CLIP folder that describes or lends its tower,
often by a bare name or the path on another machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from engines.checkpoints.shards import StoredTensor, read_headers
from evprof.core.errors import USAGE, UserError
from evprof.core.vocabulary.families import FAMILIES

if TYPE_CHECKING:
    from transformers import CLIPVisionConfig, LlamaConfig

CLIP_L14: dict[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "patch_size": 14,
    "hidden_act": "quick_gelu",
    "layer_norm_eps": 1e-5,
    "projection_dim": 768,
}

VICUNA_7B: dict[str, Any] = {
    "vocab_size": 32_000,
    "hidden_size": 4096,
    "intermediate_size": 11_008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
}
"""Llama-2-7B's shape, which Vicuna-7B v1.5 keeps."""

TEXT_KEYS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
    "rms_norm_eps",
    "hidden_act",
    "attention_bias",
    "bos_token_id",
    "eos_token_id",
    "tie_word_embeddings",
)
VISION_KEYS = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_channels",
    "image_size",
    "patch_size",
    "hidden_act",
    "layer_norm_eps",
    "projection_dim",
)


@dataclass(frozen=True)
class ModelConfig:
    """A model of any family. `assumptions` are sentences about what its files left open. `feature_layer` indexes the
    hidden states of the tower that are read (-1: the last). `has_adaptor`: one linear layer follows the projector.
    `tower_folder` describes the tower instead of config.json, which calls it `tower_name`; `tower_is_given`: by the
    user. `kept_layers` are the language model's used layers (empty: all)."""

    vision: CLIPVisionConfig
    text: LlamaConfig
    family: str = field(kw_only=True)
    feature_layer: int = field(default=-1, kw_only=True)
    projector_act: str = field(default="gelu", kw_only=True)
    has_adaptor: bool = field(default=False, kw_only=True)
    tower_folder: Path | None = field(default=None, kw_only=True)
    tower_is_given: bool = field(default=False, kw_only=True)
    tower_name: str | None = field(default=None, kw_only=True)
    assumptions: tuple[str, ...] = field(default=(), kw_only=True)
    kept_layers: tuple[int, ...] = field(default=(), kw_only=True)

    @property
    def model_type(self) -> str:
        return FAMILIES[self.family].model_type

    @property
    def tokens_per_frame(self) -> int:
        """Visual tokens of one frame before pooling over frames: by default the patches and the class token."""
        return patches(self.vision) + 1

    @property
    def projected_tokens(self) -> int:
        """Tokens of one frame that go through the projector: by default those there are after it."""
        return self.tokens_per_frame

    @property
    def patch_pooling(self) -> str:
        """How patches are pooled before or after the projector, in words; "" where they are not."""
        return ""


def patches(vision: CLIPVisionConfig) -> int:
    """Patches of one frame: (edge // patch)², for the square frames every family uses."""
    return (edge(vision) // number(vision.patch_size)) ** 2


def edge(vision: CLIPVisionConfig) -> int:
    return number(vision.image_size)


def number(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{value!r} where one whole number is needed")
    return value


def text_config(values: Mapping[str, Any]) -> LlamaConfig:
    """The language model of a file's values, without padding: torch refuses a padding token outside the vocabulary."""
    from transformers import LlamaConfig

    found = {key: values[key] for key in TEXT_KEYS if key in values}
    found["tie_word_embeddings"] = bool(found.get("tie_word_embeddings", False))
    for name in ("rope_theta", "rope_scaling", "rope_parameters"):
        if values.get(name) is not None:
            found[name] = values[name]
    return LlamaConfig(**found)


def vision_config(values: Mapping[str, Any]) -> CLIPVisionConfig:
    from transformers import CLIPVisionConfig

    return CLIPVisionConfig(**{key: values[key] for key in VISION_KEYS if key in values})


QWEN2 = "qwen2"

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
    return text.model_type == QWEN2


def qwen2_text(values: Mapping[str, Any], source: Path) -> LlamaConfig:
    """The language model of a file's values. Raises UserError naming `source` for a sliding window."""
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


_MOST_LAYERS, _MOST_WIDTH, _MOST_ROWS = 1_000, 1_000_000, 10_000_000
"""Far above any model there is, far below what could not be laid out."""

_SHARED_LIMITS = dict.fromkeys(("hidden_size", "intermediate_size", "num_attention_heads"), _MOST_WIDTH)
_TEXT_LIMITS = {
    **_SHARED_LIMITS,
    "vocab_size": _MOST_ROWS,
    "num_hidden_layers": _MOST_LAYERS,
    "num_key_value_heads": _MOST_WIDTH,
    "max_position_embeddings": _MOST_ROWS,
}
_VISION_LIMITS = {
    **_SHARED_LIMITS,
    "num_hidden_layers": _MOST_LAYERS,
    **dict.fromkeys(("num_channels", "image_size", "patch_size"), _MOST_WIDTH),
}


def check_shape(vision: CLIPVisionConfig, text: LlamaConfig) -> None:
    """Raises ValueError, naming the field, unless tower and language model can be laid out."""
    tower = _numbers("the vision tower's", vision, _VISION_LIMITS)
    language = _numbers("the language model's", text, _TEXT_LIMITS)
    for part, sizes in (("the vision tower's", tower), ("the language model's", language)):
        width, heads = sizes["hidden_size"], sizes["num_attention_heads"]
        if width % heads:
            raise ValueError(f"{part} hidden_size {width} cannot be divided among {heads} heads")
    heads, shared = language["num_attention_heads"], language["num_key_value_heads"]
    if heads % shared:
        raise ValueError(f"{heads} heads cannot share {shared} key-value heads evenly")
    if tower["patch_size"] > tower["image_size"]:
        raise ValueError(f"patch_size {tower['patch_size']} is larger than image_size {tower['image_size']}")
    check_activation("the vision tower's", vision.hidden_act)
    check_activation("the language model's", text.hidden_act)
    check_rotary(text)


def check_rotary(text: LlamaConfig) -> None:
    """Raises ValueError unless transformers can compute the rotary frequencies that are described."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    try:
        LlamaRotaryEmbedding(config=text)
    except Exception as error:  # noqa: BLE001 - every scaling fails in its own way, down to division by zero
        raise ValueError(f"its rotary positions {text.rope_parameters} cannot be computed: {error}") from None


def check_layer(layer: int, vision: CLIPVisionConfig) -> None:
    """Raises ValueError unless the tower has hidden states of that index (its input counts as one)."""
    states = _numbers("the vision tower's", vision, _VISION_LIMITS)["num_hidden_layers"] + 1
    if not -states <= layer < states:
        raise ValueError(f"vision_feature_layer {layer} is outside a tower of {vision.num_hidden_layers} layers")


def check_pooling(pooling: str | None, stride: object, vision: CLIPVisionConfig) -> None:
    """Raises ValueError unless patches can be pooled that way; `pooling` None is no pooling."""
    if pooling is None:
        return
    if pooling not in ("average", "max"):
        raise ValueError(f"spatial_pool_mode '{pooling}'; average and max are supported")
    sizes = _numbers("the vision tower's", vision, _VISION_LIMITS)
    side = sizes["image_size"] // sizes["patch_size"]
    if not isinstance(stride, int) or isinstance(stride, bool) or not 1 <= stride <= side:
        raise ValueError(f"spatial_pool_stride is {stride!r}, not a whole number from 1 to {side}")


def check_activation(part: str, name: object) -> None:
    """Raises ValueError unless transformers knows the activation function."""
    from transformers.activations import ACT2FN

    if name not in ACT2FN:
        raise ValueError(f"{part} activation '{name}' is unknown")


def _numbers(part: str, config: CLIPVisionConfig | LlamaConfig, limits: Mapping[str, int]) -> dict[str, int]:
    """The fields of `limits`. Raises ValueError for one that is no whole number or out of bounds."""
    found: dict[str, int] = {}
    for name, most in limits.items():
        value = getattr(config, name)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise ValueError(f"{part} {name} is {value!r}, not a whole number from 1 to {most}")
        found[name] = value
    return found


_PUBLISHER = "openai/"
PUBLISHED = f"{_PUBLISHER}clip-vit-large-patch14-336"

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\Z")
_PARTS = ("embeddings.", "encoder.", "pre_layrnorm.", "post_layernorm.")
_INSIDE = "vision_model."


def given_folder(clip: str) -> Path:
    """The folder a user named. Raises UserError (exit code 2) when it is no CLIP folder."""
    folder = Path(os.path.expanduser(clip))
    if not (folder / "config.json").is_file():
        raise UserError(f"--clip {clip} is no CLIP folder: it holds no config.json.", exit_code=USAGE)
    return folder


def named_folder(checkpoint: Path, value: object) -> Path | None:
    """The folder that `mm_visual_tower` names: in the checkpoint, beside it, anywhere, or in the Hugging Face cache."""
    if not isinstance(value, str) or not value:
        return None
    beside = checkpoint.resolve().parent / PurePosixPath(value).name
    places = [checkpoint / value, Path(os.path.expanduser(value)), beside]
    found = next((place for place in places if _is_described(place)), None)
    if found is not None:
        return found
    return next((place for hub_id in _hub_ids(value) if _is_described(place := _cached(hub_id))), None)


def tower_tensors(folder: Path) -> dict[str, StoredTensor]:
    stored = read_headers(folder)
    inside = {name.removeprefix(_INSIDE): each for name, each in stored.items() if name.startswith(_INSIDE)}
    return inside or {name: each for name, each in stored.items() if name.startswith(_PARTS)}


def _hub_ids(value: str) -> list[str]:
    last = PurePosixPath(value.replace("\\", "/")).name
    named = [value] if _HUB_ID.match(value) else []
    return [*named, f"{_PUBLISHER}{last}"] if last.startswith("clip-") and f"{_PUBLISHER}{last}" not in named else named


def _is_described(place: Path | None) -> bool:
    try:
        return place is not None and (place / "config.json").is_file()
    except OSError:
        return False


def _cached(hub_id: str) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(hub_id, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None
