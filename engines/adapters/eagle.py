"""An EAGLE-style head: one decoder layer that follows a target's hidden states and guesses the next ones.

Place i takes the target's last hidden state f_i (before the last norm) and the embedding of token i + 1, and gives a
guess of f_(i+1), whose token is the target's own norm and head's to choose (Li et al., "EAGLE", arXiv 2401.15077). Fed
with its own guesses it drafts on. Positions count from the first one it was given. It knows neither prompts nor rounds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from engines.adapters.folder import Shapes, check_kind, check_target, load_tensors, size_of
from engines.decoder.kv_cache import StaticKv
from engines.decoder.llama import Attend, LlamaDecoder, LlamaLayer, RotaryTable
from evprof.core.errors import UserError
from evprof.core.vocabulary.drafters import EAGLE
from evprof.loaders.adapters import AdapterInfo

_EPS = 1e-6
_POSITIONS = 1024
"""Rotary rows made at first; more follow when a draft goes further."""

_MOST_TABLE = 64 << 20
"""Bytes of embeddings up to which what the head makes of them is kept."""

_LAYER = "layer."


@dataclass(frozen=True)
class EagleShape:
    """Sizes of a head: `hidden` is the target's; `window` how many of a prompt's last positions it looks back at."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    window: int

    @classmethod
    def like(cls, config: LlamaConfig, *, window: int) -> EagleShape:
        """One layer as the target's own are."""
        return cls(
            config.hidden_size,
            config.num_attention_heads,
            config.num_key_value_heads or config.num_attention_heads,
            config.head_dim or config.hidden_size // config.num_attention_heads,
            config.intermediate_size,
            window,
        )

    @classmethod
    def read(cls, info: AdapterInfo) -> EagleShape:
        """From `adapter.json`. Raises UserError for numbers that make no layer."""
        shape = cls(
            info.hidden_size,
            size_of(info, "heads", most=1024),
            size_of(info, "kv_heads", most=1024),
            size_of(info, "head_dim", least=2, most=4096),
            size_of(info, "intermediate"),
            size_of(info, "window", least=0),
        )
        if shape.heads % shape.kv_heads or shape.head_dim % 2:
            raise UserError(
                f"{info.folder}: {shape.heads} heads of {shape.head_dim} over {shape.kv_heads} make no attention; "
                "train the adapter again."
            )
        return shape

    def config(self) -> dict[str, Any]:
        """What `adapter.json` holds of it; the hidden size stands there already."""
        return {name: value for name, value in asdict(self).items() if name != "hidden"}

    def tensors(self) -> Shapes:
        """Name -> shape of all weights."""
        hidden, inner = self.hidden, self.intermediate
        return {
            "feature.weight": (hidden, hidden),
            "token.weight": (hidden, hidden),
            f"{_LAYER}qkv.weight": ((self.heads + 2 * self.kv_heads) * self.head_dim, hidden),
            f"{_LAYER}out.weight": (hidden, self.heads * self.head_dim),
            f"{_LAYER}gate_up.weight": (2 * inner, hidden),
            f"{_LAYER}down.weight": (hidden, inner),
            f"{_LAYER}input_norm": (hidden,),
            f"{_LAYER}post_norm": (hidden,),
        }

    def llama(self) -> LlamaConfig:
        """The one layer as a Llama's."""
        return LlamaConfig(
            vocab_size=1,
            hidden_size=self.hidden,
            intermediate_size=self.intermediate,
            num_hidden_layers=1,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            head_dim=self.head_dim,
            max_position_embeddings=_POSITIONS,
            rms_norm_eps=_EPS,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
        )


class EagleHead(nn.Module):
    """The weights, and the pass over them that training takes; drafting's is `EaglePass`.

    A loaded one has a `table` [V, H] of what it makes of each token, unless that took much memory: one product less in
    every pass.
    """

    def __init__(self, shape: EagleShape, *, device: torch.device | None = None, dtype: torch.dtype | None = None):
        super().__init__()
        self.shape = shape
        config = self.llama = shape.llama()
        place = device or torch.device("cpu")
        kind = dtype or torch.float32
        self.feature = nn.Linear(shape.hidden, shape.hidden, bias=False, device=place, dtype=kind)
        self.token = nn.Linear(shape.hidden, shape.hidden, bias=False, device=place, dtype=kind)
        with place:
            self.layer = LlamaLayer(LlamaDecoderLayer(config, 0).to(kind), config)
        self.rotary = RotaryTable(config, place, kind)
        self._rows: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.table: torch.Tensor | None = None

    @classmethod
    def load(cls, info: AdapterInfo, target: LlamaDecoder, name: str = "") -> EagleHead:
        """The head of a folder on the target's device and in its dtype. Raises UserError for one that does not fit."""
        check_kind(info, EAGLE)
        check_target(info, target, name)
        shape = EagleShape.read(info)
        weight = target.embed_tokens.weight
        tensors = load_tensors(info, shape.tensors(), device=weight.device, dtype=weight.dtype)
        head = cls(shape, device=weight.device, dtype=weight.dtype)
        head.load_state_dict(tensors)
        head.requires_grad_(False).eval()
        if weight.nbytes <= _MOST_TABLE:
            head.table = head.token(unit(weight))
        return head

    def fused(self, features: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
        """Hidden states and embeddings of the tokens after them, [..., H] each -> what the layer takes, [..., H].

        Both are brought to unit mean square first: hidden states grow with depth, and only their direction counts.
        """
        joined: torch.Tensor = self.feature(unit(features)) + self.token(unit(embeddings))
        return joined

    def row(self, place: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and signed sines [1, D] of one place: cut once, for a pass takes little longer than cutting."""
        if place >= len(self._rows):
            self.rotary.reach(place + 1)
            self._rows = list(zip(self.rotary.cos.split(1), self.rotary.sin.split(1), strict=True))
        return self._rows[place]

    def forward(self, fused: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, attend: Attend) -> torch.Tensor:
        """[B, S, H] -> guesses [B, S, H]; how keys and values are kept and seen is up to `attend`."""
        guesses: torch.Tensor = self.layer(fused, cos, sin, attend, 0)
        return guesses


class EaglePass:
    """A head at work on one answer: few calls per pass, one row per place, keys and values set aside beforehand.

    Between passes `length` places are known; what was guessed is cut off with `crop`.
    """

    def __init__(self, head: EagleHead, target: LlamaDecoder, capacity: int) -> None:
        self._head = head
        self._target = target
        layer, weight = head.layer, target.embed_tokens.weight
        self.cache = StaticKv(head.llama, capacity, device=weight.device, dtype=weight.dtype)
        self._heads, self._both = layer.heads, layer.heads + layer.kv_heads
        self._states = (-1, layer.heads + 2 * layer.kv_heads, layer.head_dim)
        self._half, self._width, self._eps = layer.head_dim // 2, (layer.width,), layer.eps
        self._qkv, self._gate_up = layer.qkv.weight, layer.gate_up.weight
        self._feature = head.feature.weight.t()
        self._out, self._down = layer.out.weight.t(), layer.down.weight.t()
        self._is_grouped = layer.heads != layer.kv_heads
        self._table = head.table

    @property
    def length(self) -> int:
        """Places held."""
        return self.cache.length

    def crop(self, length: int) -> None:
        """Forgets places from `length` on."""
        self.cache.crop(length)

    def look_back(self, features: torch.Tensor, embeddings: torch.Tensor) -> None:
        """Takes places [S, H] in that no guess is wanted of: of one layer that is keys and values alone."""
        if not features.shape[0]:
            return
        fused = torch.addmm(self._head.token(unit(embeddings)), unit(features), self._feature)
        self._keep(*self._project(fused, *self._head.rotary.rows(self.length, features.shape[0])))

    def follow(self, features: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """True or guessed hidden states [S, H] and the tokens after them [S] -> the guess after the last, [1, H]."""
        count, start = ids.shape[0], self.cache.length
        fused = self._fused(features, ids)
        rows = self._head.rotary.rows(start, count) if count > 1 else self._head.row(start)
        turned, told = self._project(fused, *rows)
        keys, values = self._keep(turned, told)
        if count > 1:
            # Of one layer only the last place's output is ever looked at.
            fused, turned = fused[-1:], turned[:, -1:]
        return self._finish(fused, turned, keys, values, None)

    def spread(self, features: torch.Tensor, ids: torch.Tensor, place: int, mask: torch.Tensor | None) -> torch.Tensor:
        """One level of a tree, all of it at one place: hidden states [S, H], tokens [S] -> guesses [S, H].

        `mask` [S, places + S] is True where one may look; None: all may see all.
        """
        fused = self._fused(features, ids)
        turned, told = self._project(fused, *self._head.row(place))
        keys, values = self._keep(turned, told)
        return self._finish(fused, turned, keys, values, mask)

    def logits(self, guesses: torch.Tensor) -> torch.Tensor:
        """Guesses [S, H] -> logits [S, V], by the target's own norm and head."""
        return self._target.head(guesses)

    def _fused(self, features: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        if self._table is None:
            tokens = self._head.token(unit(self._target.embed(ids)))
        else:
            tokens = self._table.index_select(0, ids)
        return torch.addmm(tokens, F.rms_norm(features, self._width, None, _EPS), self._feature)

    def _project(self, fused: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[S, H] -> rotated queries and keys [heads + kv_heads, S, D] in one tensor, and values [kv_heads, S, D]."""
        normed = F.rms_norm(fused, self._width, self._head.layer.input_norm, self._eps)
        states = F.linear(normed, self._qkv).view(self._states).transpose(0, 1)
        turned = states[: self._both]
        return torch.addcmul(turned * cos, turned.roll(self._half, -1), sin), states[self._both :]

    def _keep(self, turned: torch.Tensor, told: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        held = self.cache.append(0, turned[None, self._heads :], told[None])
        self.cache.length += told.shape[1]
        return held

    def _finish(
        self,
        fused: torch.Tensor,
        turned: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        seen = F.scaled_dot_product_attention(
            turned[None, : self._heads], keys, values, attn_mask=mask, enable_gqa=self._is_grouped
        )
        hidden = torch.addmm(fused, seen[0].transpose(0, 1).reshape(fused.shape[0], -1), self._out)
        normed = F.rms_norm(hidden, self._width, self._head.layer.post_norm, self._eps)
        gate, up = F.linear(normed, self._gate_up).chunk(2, -1)
        return torch.addmm(hidden, F.silu(gate).mul_(up), self._down)


def unit(states: torch.Tensor) -> torch.Tensor:
    """[..., H] with mean square 1."""
    return F.rms_norm(states, (states.shape[-1],), None, _EPS)
