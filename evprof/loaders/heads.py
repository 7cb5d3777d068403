"""Published draft heads as folders: the layout of a config.json and its checked values. The engine reads tensors.

Layouts are those of SafeAILab/EAGLE, SpecForge, speculators, MSD and Medusa. Their differences are data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.vocabulary.drafters import EAGLE, MEDUSA
from evprof.loaders.paths import opened_file

CONFIG = "config.json"
MEDUSA_FILE = "medusa_lm_head.pt"
LAYOUT = "layout"
"""The key of a head's `config` that names its layout; adapters of evprof's first format lack it."""

FINAL, LAYERS = "final", "layers"
"""What a head takes of its target: the last hidden state after the last norm, or what enters some of its layers."""

_LAYER_IDS = "eagle_aux_hidden_state_layer_ids"

_MOST_BYTES = 16 << 20
_MOST_WIDTH, _MOST_ROWS, _MOST_LAYERS = 1 << 20, 10_000_000, 1000

_LLAMA: dict[str, Any] = {
    "vocab_size": 32_000,
    "hidden_size": 4096,
    "intermediate_size": 11_008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}
"""Defaults of transformers for a Llama."""


@dataclass(frozen=True)
class HeadLayout:
    """A layout of published heads: its name `word`, its drafter `kind`, and `is_this`, which recognizes a config.json.

    `layer` is the key of the decoder layer ("": the top), `reads` the states of the target that it takes. `layer_step`
    is added to a layer's number where the layout counts outputs, not inputs. `sees_pictures`: a visual embedding
    enters the layer as it is.
    """

    key: str
    kind: str
    word: str
    is_this: Callable[[Mapping[str, Any]], bool]
    layer: str = ""
    reads: str = FINAL
    layer_step: int = 0
    sees_pictures: bool = False


def _is_speculators(name: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda config: config.get("speculators_model_type") == name


def _is_eagle3(config: Mapping[str, Any]) -> bool:
    return "draft_vocab_size" in config or any("eagle3" in name.lower() for name in _architectures(config))


def _is_medusa(config: Mapping[str, Any]) -> bool:
    return "medusa_num_heads" in config or "medusa_num_layers" in config


_ALL = (
    HeadLayout(
        "speculators-eagle3",
        EAGLE,
        "EAGLE-3 (speculators)",
        _is_speculators("eagle3"),
        "transformer_layer_config",
        LAYERS,
    ),
    HeadLayout(
        "speculators-eagle", EAGLE, "EAGLE-1 (speculators)", _is_speculators("eagle"), "transformer_layer_config"
    ),
    HeadLayout("eagle3", EAGLE, "EAGLE-3", _is_eagle3, reads=LAYERS, layer_step=1),
    HeadLayout("medusa", MEDUSA, "Medusa", _is_medusa),
    HeadLayout("msd", EAGLE, "MSD", lambda config: config.get("model_type") == "llava", sees_pictures=True),
    HeadLayout("eagle", EAGLE, "EAGLE-1", lambda config: config.get("model_type", "llama") in ("llama", "eagle")),
)
LAYOUTS: dict[str, HeadLayout] = {layout.key: layout for layout in _ALL}
"""By key; the first that knows a configuration is its layout."""


@dataclass(frozen=True)
class FoundHead:
    """A folder's head: its layout, the model it says it is for ("" where it says none), and sizes."""

    layout: HeadLayout
    target: str
    hidden_size: int
    vocabulary: int
    config: dict[str, Any]


def written_config(hidden_size: int, vocabulary: int, config: Mapping[str, Any]) -> dict[str, Any]:
    """The config.json by which others load a head of these sizes, EAGLE-1's or EAGLE-3's; `config` as `FoundHead`'s."""
    layout = LAYOUTS[config[LAYOUT]]
    fusion: dict[str, Any] = {}
    if layout.reads == LAYERS:
        layers = [layer - layout.layer_step for layer in config["layers"]]
        fusion = {
            "draft_vocab_size": config["draft_vocabulary"],
            "eagle_config": {_LAYER_IDS: layers, "use_aux_hidden_state": True},
        }
    return {
        "architectures": ["LlamaForCausalLMEagle3" if fusion else "LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden_size,
        "vocab_size": vocabulary,
        "num_hidden_layers": 1,
        "num_attention_heads": config["heads"],
        "num_key_value_heads": config["kv_heads"],
        "head_dim": config["head_dim"],
        "intermediate_size": config["intermediate"],
        "hidden_act": "silu",
        "rms_norm_eps": config["eps"],
        "max_position_embeddings": config["positions"],
        "bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        **config["rope"],
        **fusion,
    }


def is_head_folder(folder: Path) -> bool:
    return (folder / CONFIG).is_file()


def read_head(folder: Path) -> FoundHead:
    """The values of a published head's config.json. Raises UserError for an unknown layout or senseless sizes."""
    path = folder / CONFIG
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UserError(f"{path} is too large for a description of a head.")
        with opened_file(path) as file:
            values = json.loads(file.read())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}; download the head again.") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} does not describe a draft head.")
    layout = next((layout for layout in _ALL if layout.is_this(values)), None)
    if layout is None:
        named = values.get("speculators_model_type") or values.get("model_type")
        known = ", ".join(each.word for each in _ALL)
        raise UserError(f"{path} describes a '{str(named)[:40]}', which is no draft head evprof knows: {known}.")
    if layout.kind == MEDUSA:
        hidden, rows = (_whole(path, values, name, most, 0) for name, most in _SIZES.items())
        return FoundHead(layout, _text(values.get("base_model_name_or_path")), hidden, rows, {LAYOUT: layout.key})
    layer = values.get(layout.layer) if layout.layer else values
    if not isinstance(layer, dict):
        raise UserError(f"{path} lacks '{layout.layer}', which describes the head's layer; download the head again.")
    hidden, rows = (_whole(path, layer, name, most, _LLAMA[name]) for name, most in _SIZES.items())
    config = {LAYOUT: layout.key, **_layer(path, layer, hidden)}
    if layout.reads == LAYERS:
        config |= _fusion(layout, path, values, rows, hidden)
    for name in ("layernorms", "add_para_norm"):  # variants with other arithmetic
        if values.get(name):
            raise UserError(f"{path}: {name} is set; of {layout.word} heads evprof knows those without more norms.")
    return FoundHead(layout, _target_of(values), hidden, rows, config)


_SIZES = {"hidden_size": _MOST_WIDTH, "vocab_size": _MOST_ROWS}


def _whole(path: Path, values: Mapping[str, Any], name: str, most: int, default: int, *, least: int = 1) -> int:
    value = values.get(name)
    value = default if value is None else value
    if value == default == 0:
        return 0
    if type(value) is not int or not least <= value <= most:
        raise UserError(f"{path}: {name} is {str(value)[:40]}, and a head needs a whole number from {least} to {most}.")
    return value


def _layer(path: Path, values: Mapping[str, Any], hidden: int) -> dict[str, Any]:
    def whole(name: str, most: int, default: int | None = None, *, least: int = 1) -> int:
        return _whole(path, values, name, most, _LLAMA[name] if default is None else default, least=least)

    layers = whole("num_hidden_layers", _MOST_LAYERS)
    if layers != 1:
        raise UserError(f"{path} describes {layers} layers; evprof drafts with heads of one, and a model is no head.")
    heads = whole("num_attention_heads", 4096)
    kv_heads = whole("num_key_value_heads", 4096, heads)
    head_dim = whole("head_dim", 4096, max(1, hidden // heads), least=2)
    if heads % kv_heads or head_dim % 2:
        raise UserError(f"{path}: {heads} heads of {head_dim} over {kv_heads} make no attention.")
    if values.get("hidden_act", "silu") != "silu":
        raise UserError(f"{path}: the activation '{str(values['hidden_act'])[:40]}' is none that a Llama's head has.")
    for name in ("attention_bias", "mlp_bias", "qkv_bias"):
        if values.get(name):
            raise UserError(f"{path}: {name} is set; evprof drafts for Llamas, whose heads have no such bias.")
    eps = values.get("rms_norm_eps", 1e-6)
    if not isinstance(eps, int | float) or isinstance(eps, bool) or not 0 <= eps <= 1:
        raise UserError(f"{path}: rms_norm_eps is {str(eps)[:40]}, and must lie from 0 to 1.")
    return {
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate": whole("intermediate_size", _MOST_WIDTH),
        "eps": float(eps),
        "positions": whole("max_position_embeddings", _MOST_ROWS),
        "rope": {name: values[name] for name in ("rope_theta", "rope_scaling", "rope_parameters") if values.get(name)},
    }


def _fusion(layout: HeadLayout, path: Path, values: Mapping[str, Any], rows: int, hidden: int) -> dict[str, Any]:
    described = values.get("eagle_config")
    eagle: Mapping[str, Any] = described if isinstance(described, dict) else {}
    if eagle.get("use_aux_hidden_state") is False:
        raise UserError(f"{path}: use_aux_hidden_state is off; evprof knows EAGLE-3 heads that read inside the target.")
    if _whole(path, values, "target_hidden_size", _MOST_WIDTH, hidden) != hidden:
        raise UserError(
            f"{path}: the head is {hidden} wide and its target {values['target_hidden_size']}; evprof drafts with "
            "heads as wide as their target."
        )
    layers = eagle.get(_LAYER_IDS, values.get(_LAYER_IDS))
    if layers is not None and not _are_layers(layers):
        raise UserError(f"{path}: {_LAYER_IDS} must be one to eight different layers, not {str(layers)[:60]}.")
    flags = {flag: eagle.get(flag, values.get(flag)) for flag in _FLAGS}
    for flag, value in flags.items():
        if not isinstance(value, bool | None):
            raise UserError(f"{path}: {flag} is {str(value)[:40]}, and must be true or false.")
    return {
        "draft_vocabulary": _whole(path, values, "draft_vocab_size", _MOST_ROWS, 32_000 if layout.layer else rows),
        "layers": None if layers is None else sorted(layer + layout.layer_step for layer in layers),
        "norm_before_residual": bool(flags["norm_before_residual"]),
        "norm_before_fc": bool(flags["norm_before_fc"]),
        "fc_norm": bool(flags["fc_norm"] or flags["use_aux_norm"]),
        "feeds_normed": bool(flags["norm_output"]),
        "is_tied": bool(flags["tie_word_embeddings"]),
    }


_FLAGS = (
    *("norm_before_residual", "norm_before_fc", "fc_norm", "use_aux_norm", "norm_output"),
    "tie_word_embeddings",
)
"""SGLang and vLLM: the head is always normed, and `norm_output` says that drafts go on from the normed states.
`use_aux_norm` is SGLang's name of `fc_norm`."""


def _are_layers(layers: Any) -> bool:
    return (
        isinstance(layers, list)
        and 1 <= len(layers) == len(set(map(str, layers))) <= 8
        and all(type(layer) is int and 0 <= layer <= _MOST_LAYERS for layer in layers)
    )


def _architectures(config: Mapping[str, Any]) -> list[str]:
    found = config.get("architectures")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _target_of(values: Mapping[str, Any]) -> str:
    told = values.get("speculators_config")
    verifier = told.get("verifier") if isinstance(told, dict) else None
    return _text(verifier.get("name_or_path")) if isinstance(verifier, dict) else ""


def _text(value: Any) -> str:
    return value[:200] if isinstance(value, str) else ""
