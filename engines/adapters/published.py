"""EAGLE-1 and EAGLE-3 heads, trained here or by others: their arithmetic, their tensors' names, and whether they fit.

EAGLE-1 joins the target's normed state and a token in one product, has no norm before its layer, and chooses by the
target's head (Li et al., arXiv 2401.15077). EAGLE-3 makes its state of what enters several of the target's layers,
sets it beside the token before queries, keys and values, and has a norm and a head of its own, often over fewer
tokens (arXiv 2503.01840).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn

from engines.adapters.folder import HeadFiles, check_kind, size_of
from engines.adapters.following import Entered, FollowingHead
from engines.checkpoints.config import check_rotary
from engines.decoder.llama import LlamaDecoder, LlamaLayer, check_rope
from evprof.core.errors import UserError
from evprof.core.vocabulary.drafters import EAGLE
from evprof.loaders.adapters import AdapterInfo
from evprof.loaders.heads import LAYERS

if TYPE_CHECKING:
    from transformers import LlamaConfig

_TABLE = 1024
"""Rotary rows made at first; more follow when a draft goes further."""


class BareLayer(LlamaLayer):
    """A layer with no norm before its projections: what enters is normed already, or never."""

    def __init__(self, config: LlamaConfig, entering: int) -> None:
        from transformers.models.llama.modeling_llama import LlamaDecoderLayer

        super().__init__(LlamaDecoderLayer(config, 0), config)
        del self.input_norm
        self.qkv = nn.Linear(entering, self.qkv.out_features, bias=False)


@dataclass(frozen=True)
class Eagle3Form:
    """What EAGLE-3 heads differ in: `reads` as `FollowingHead`'s, the tokens they choose among, and their flags."""

    reads: tuple[int, ...]
    choices: int
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    feeds_normed: bool = False


class Eagle1Head(FollowingHead):
    """`bias` says whether the joining product has one."""

    def __init__(
        self, config: LlamaConfig, *, bias: bool, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> None:
        place, kind = device or torch.device("cpu"), dtype or torch.float32
        width = config.hidden_size
        with place:
            layer = BareLayer(config, width).to(kind)
        super().__init__(config, layer, place, kind)
        self.fc: nn.Module = nn.Linear(2 * width, width, bias=bias, device=place, dtype=kind)

    def taken(self, features: torch.Tensor, target: LlamaDecoder) -> torch.Tensor:
        return F.rms_norm(features, features.shape[-1:], target.norm, target.config.rms_norm_eps)

    def entered(self, states: torch.Tensor, embeddings: torch.Tensor) -> Entered:
        joined = self.fc(torch.cat([embeddings, states], dim=-1))
        return joined, joined

    def logits(self, guesses: torch.Tensor, target: LlamaDecoder) -> torch.Tensor:
        logits: torch.Tensor = target.lm_head(guesses)
        return logits


class Eagle3Head(FollowingHead):
    """`target_ids` [choices] are the target's ids of the tokens it chooses among; None: the first ones."""

    target_ids: torch.Tensor | None

    def __init__(
        self,
        config: LlamaConfig,
        form: Eagle3Form,
        *,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        place, kind = device or torch.device("cpu"), dtype or torch.float32
        width, read = config.hidden_size, len(form.reads) * config.hidden_size
        with place:
            layer = BareLayer(config, 2 * width).to(kind)
        super().__init__(config, layer, place, kind)
        self.form, self.reads, self.choices = form, form.reads, form.choices
        self.fc = nn.Linear(read, width, bias=False, device=place, dtype=kind)
        self.lm_head = nn.Linear(width, form.choices, bias=False, device=place, dtype=kind)

        def norm(size: int) -> nn.Parameter:
            return nn.Parameter(torch.ones(size, device=place, dtype=kind))

        self.token_norm = norm(width)
        self.state_norm = norm(width)
        self.norm = norm(width)
        self.read_norm = norm(read) if form.norm_before_fc or form.fc_norm else None
        self.target_ids = None

    def taken(self, features: torch.Tensor, target: LlamaDecoder) -> torch.Tensor:
        """One state of those of several layers [..., layers · H]."""
        if self.read_norm is not None:
            # All layers under one norm, or each under its own.
            parts = (-1, len(self.reads), self.layer.width) if self.form.fc_norm else tuple(features.shape)
            normed = F.rms_norm(features.view(parts), parts[-1:], None, self.layer.eps)
            features = normed.view(features.shape) * self.read_norm
        states: torch.Tensor = self.fc(features)
        return states

    def entered(self, states: torch.Tensor, embeddings: torch.Tensor) -> Entered:
        normed = self._normed(states, self.state_norm)
        entering = torch.cat([self._normed(embeddings, self.token_norm), normed], dim=-1)
        return entering, normed if self.form.norm_before_residual else states

    def left(self, hidden: torch.Tensor) -> torch.Tensor:
        return self._normed(hidden, self.norm) if self.form.feeds_normed else hidden

    def logits(self, guesses: torch.Tensor, target: LlamaDecoder) -> torch.Tensor:
        own: torch.Tensor = self.lm_head(guesses if self.form.feeds_normed else self._normed(guesses, self.norm))
        if self.target_ids is None and own.shape[-1] == target.rows:
            return own
        # The least number, not minus infinity, which would make nothing of nothing in an entropy.
        logits = own.new_full((*own.shape[:-1], target.rows), torch.finfo(own.dtype).min)
        if self.target_ids is None:
            logits[..., : own.shape[-1]] = own
            return logits
        return logits.index_copy_(-1, self.target_ids, own)

    def _normed(self, states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(states, (self.layer.width,), weight, self.layer.eps)


_LAYER = {
    "layer.qkv.weight": ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"),
    "layer.out.weight": ("self_attn.o_proj.weight",),
    "layer.gate_up.weight": ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
    "layer.down.weight": ("mlp.down_proj.weight",),
    "layer.post_norm": ("post_attention_layernorm.weight",),
}
"""Ours of a layer -> the published ones whose rows it holds, in order, without the layer's own name."""

_EAGLE3_LAYER = {"token_norm": ("input_layernorm.weight",), "state_norm": ("hidden_norm.weight",)}
_EAGLE3_TOP = {"fc.weight": ("fc.weight",), "norm": ("norm.weight",), "lm_head.weight": ("lm_head.weight",)}

_JOINING = {"speculators-eagle": "fusion_fc"}

_AUX_NORMS = ("aux_norm_low.weight", "aux_norm_mid.weight", "aux_norm_high.weight")
"""SGLang's names of `fc_norm.0` to `fc_norm.2`."""

_LAYER_NAMES = ("layers.0.", "midlayer.", "transformer.")
_WRITTEN_LAYER = {False: "layers.0.", True: "midlayer."}

_EMBEDDINGS, _MAP = "embed_tokens.weight", "d2t"

IGNORED = ("t2d", "rotary_emb.inv_freq", "verifier_norm.weight", "verifier_lm_head.weight")
"""Ends of names of what is in some files and says nothing new."""

_FOREIGN = {
    "imadpt": "ViSpec, which compresses pictures",
    "blocks.": "Medusa",
    "embedding_layernorm": "HASS with norms",
}
"""Parts of names that tell a layout whose arithmetic is another."""


def load_head(info: AdapterInfo, target: LlamaDecoder, name: str = "") -> FollowingHead:
    """The head on the target's device, in its dtype. Raises UserError for one that is damaged or does not fit."""
    check_kind(info, EAGLE)
    layout = info.layout
    if layout is None:
        raise UserError(f"Head {info.name} has a layout that evprof no longer reads; train it again.")
    files = HeadFiles(info)
    check_fit(info, target.config, target.rows, name)
    config = layer_config(info)
    head: FollowingHead
    with torch.device("meta"):
        if layout.reads == LAYERS:
            head = Eagle3Head(config, eagle3_form(info, len(target.ordered)), device=torch.device("meta"))
        else:
            bias = f"{_JOINING.get(layout.key, 'fc')}.bias" in files.names
            head = Eagle1Head(config, bias=bias, device=torch.device("meta"))
            head.sees_pictures = layout.sees_pictures
    head.window = size_of(info, "window", least=0) if "window" in info.config else None
    head.embedding = _own_embeddings(info, files, target)
    head.load_state_dict(_weights(info, files, head, target), assign=True)
    weight = target.embed_tokens.weight
    head.rotary = type(head.rotary)(config, weight.device, weight.dtype)
    if isinstance(head, Eagle3Head):
        head.target_ids = _target_ids(info, files, head.choices, target)
    elif "lm_head.weight" in files.names:
        files.note("lm_head.weight")
    files.refuse_rest(IGNORED, _FOREIGN)
    return head.requires_grad_(False).eval()


def check_fit(info: AdapterInfo, config: LlamaConfig, rows: int, name: str = "") -> None:
    """Raises UserError for a target of another width or vocabulary, or without the layers that the head reads."""
    model = f"the target {name}".rstrip()
    if info.hidden_size != config.hidden_size:
        raise UserError(
            f"Head {info.name} is for a target with hidden size {info.hidden_size}, and {model} has "
            f"{config.hidden_size}; choose the target it was made for or another head."
        )
    if not 0 <= rows - info.vocabulary <= MOST_PADDING:
        raise UserError(
            f"Head {info.name} is for a target with {info.vocabulary:,} tokens, and {model} has {rows:,}; choose the "
            "target it was made for or another head."
        )
    if info.layout is not None and info.layout.reads == LAYERS:
        eagle3_form(info, config.num_hidden_layers, model)


MOST_PADDING = 256
"""Rows of a target past those a head knows: added tokens and padding."""


def eagle3_form(info: AdapterInfo, layers: int, model: str = "its target") -> Eagle3Form:
    """Of a target with so many layers. Raises UserError where it lacks those that the head reads."""
    config = info.config
    asked = config["layers"]
    reads = tuple(asked) if asked is not None else (2, layers // 2, layers - 3)
    if sorted(set(reads)) != list(reads) or not 0 <= reads[0] <= reads[-1] <= layers:
        said = ", ".join(map(str, reads))
        raise UserError(f"Head {info.name} reads what enters layers {said}, and {model} has {layers} layers.")
    flags = ("norm_before_residual", "norm_before_fc", "fc_norm", "feeds_normed")
    return Eagle3Form(reads, config["draft_vocabulary"], **{flag: config[flag] for flag in flags})


def layer_config(info: AdapterInfo) -> LlamaConfig:
    """The head's one layer as a Llama's. Raises UserError for rotary positions that cannot be computed."""
    said = info.config
    try:
        config = _one_layer(
            info.hidden_size,
            said["intermediate"],
            said["heads"],
            said["kv_heads"],
            said["head_dim"],
            rms_norm_eps=said["eps"],
            max_position_embeddings=said["positions"],
            **said["rope"],
        )
        check_rope(config)
        check_rotary(config)
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - transformers raises its own types for every way a field can be wrong
        sentence = str(error).split("\n", 1)[0][:200]
        raise UserError(f"{info.described_in}: rotary positions cannot be computed ({sentence}).") from None
    if config.rope_parameters is not None:
        # Some scalings need the trained length; the length of the table does not depend on the file.
        config.rope_parameters.setdefault("original_max_position_embeddings", config.max_position_embeddings)
    config.max_position_embeddings = _TABLE
    return config


def layer_like(target: LlamaConfig) -> LlamaConfig:
    """One layer with the sizes of a target's layers, for a head that is trained here."""
    heads = target.num_attention_heads
    return _one_layer(
        target.hidden_size,
        target.intermediate_size,
        heads,
        target.num_key_value_heads or heads,
        target.head_dim or target.hidden_size // heads,
        rms_norm_eps=1e-6,
        max_position_embeddings=_TABLE,
    )


def _one_layer(hidden: int, intermediate: int, heads: int, kv_heads: int, head_dim: int, **others: Any) -> LlamaConfig:
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=1,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=1,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        **others,
    )


def _names(head: FollowingHead, layer: str, joining: str = "fc") -> dict[str, tuple[str, ...]]:
    """Ours -> the published names whose rows it holds, in order; `layer` is the layer's own name."""
    within: Mapping[str, tuple[str, ...]] = _LAYER
    top: dict[str, tuple[str, ...]] = {f"fc.{part}": (f"{joining}.{part}",) for part in ("weight", "bias")}
    if isinstance(head, Eagle3Head):
        within, top = {**_LAYER, **_EAGLE3_LAYER}, {**_EAGLE3_TOP}
        if head.form.norm_before_fc:
            top["read_norm"] = ("input_norm.weight",)
        elif head.form.fc_norm:
            top["read_norm"] = tuple(f"fc_norm.{number}.weight" for number in range(len(head.reads)))
    return {ours: tuple(layer + name for name in theirs) for ours, theirs in within.items()} | top


def _weights(info: AdapterInfo, files: HeadFiles, head: FollowingHead, target: LlamaDecoder) -> dict[str, torch.Tensor]:
    """Our names -> tensors, in the sizes of `head`."""
    like = target.embed_tokens.weight
    layer = next((name for name in _LAYER_NAMES if any(each.startswith(name) for each in files.names)), _LAYER_NAMES[0])
    names = _names(head, layer, _JOINING.get(info.config["layout"], "fc"))
    sizes = {name: tuple(tensor.shape) for name, tensor in head.state_dict().items()}
    rows, shared = _rows(head), _shared_head(info, files, head, target)
    if "aux_norm_low.weight" in files.names:
        names["read_norm"] = _AUX_NORMS
    return shared | {
        ours: files.joined(names[ours], rows.get(ours), shape, device=like.device, dtype=like.dtype)
        for ours, shape in sizes.items()
        if ours not in shared
    }


def _shared_head(
    info: AdapterInfo, files: HeadFiles, head: FollowingHead, target: LlamaDecoder
) -> dict[str, torch.Tensor]:
    """The weight of an EAGLE-3 head without one in its files: its own embeddings where they are tied, or the target's
    head where it chooses among all tokens. {} where the files hold it, or must."""
    if not isinstance(head, Eagle3Head) or "lm_head.weight" in files.names or head.choices != info.vocabulary:
        return {}
    embedding = target.embed_tokens.weight if head.embedding is None else head.embedding
    return {"lm_head.weight": (embedding if info.config.get("is_tied") else target.lm_head.weight)[: head.choices]}


def published_tensors(head: FollowingHead, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A head's weights under the names they are published by: EAGLE-1's, or EAGLE-3's as SpecForge saves it."""
    is_fused = isinstance(head, Eagle3Head)
    names, rows = _names(head, _WRITTEN_LAYER[is_fused]), _rows(head)
    found = {
        name: part
        for ours, weight in state.items()
        for name, part in zip(names[ours], weight.split(rows.get(ours, len(weight))), strict=True)
    }
    if is_fused:
        # It chooses among all tokens, each by its own number.
        choices = len(state["lm_head.weight"])
        found |= {_MAP: torch.zeros(choices, dtype=torch.long), "t2d": torch.ones(choices, dtype=torch.bool)}
    return found


def _rows(head: FollowingHead) -> dict[str, list[int]]:
    heads = head.llama.num_attention_heads
    head_dim = head.llama.head_dim or head.llama.hidden_size // heads
    own, shared = heads * head_dim, (head.llama.num_key_value_heads or heads) * head_dim
    found = {"layer.qkv.weight": [own, shared, shared], "layer.gate_up.weight": [head.llama.intermediate_size] * 2}
    if isinstance(head, Eagle3Head) and head.form.fc_norm:
        found["read_norm"] = [head.llama.hidden_size] * len(head.reads)
    return found


def _target_ids(info: AdapterInfo, files: HeadFiles, choices: int, target: LlamaDecoder) -> torch.Tensor | None:
    if _MAP not in files.names:
        if choices not in (info.vocabulary, target.rows):
            raise UserError(
                f"{info.folder} chooses among {choices:,} of {info.vocabulary:,} tokens, and lacks '{_MAP}', which "
                "says which; download the head again."
            )
        return None
    added = files.whole_numbers(_MAP, (choices,))
    ids = torch.arange(choices) + added
    # Held against the sum's bounds one by one: a huge number would wrap round.
    is_within = (added >= -torch.arange(choices)) & (added < target.rows - torch.arange(choices))
    if not bool(is_within.all()) or ids.unique().shape != ids.shape:
        raise UserError(f"{info.folder}: '{_MAP}' names tokens that the target does not have, or one twice.")
    if torch.equal(added, torch.zeros_like(added)):
        return None
    return ids.to(target.device)


def _own_embeddings(info: AdapterInfo, files: HeadFiles, target: LlamaDecoder) -> torch.Tensor | None:
    if _EMBEDDINGS not in files.names:
        return None
    theirs = target.embed_tokens.weight
    shape = (info.vocabulary, info.hidden_size)
    own = files.joined((_EMBEDDINGS,), None, shape, device=theirs.device, dtype=theirs.dtype)
    if torch.equal(own, theirs[: own.shape[0]]):
        return None
    return torch.cat([own, theirs[own.shape[0] :]])
