"""An EAGLE-style head: one decoder layer that follows a target's hidden states and guesses the next ones.

Place i takes the target's last hidden state f_i (before the last norm) and the embedding of token i + 1, and gives a
guess of f_(i+1), whose token is the target's own norm and head's to choose (Li et al., "EAGLE", arXiv 2401.15077).
Fed with its own guesses it drafts on. Positions count from the first one it was given. It knows neither prompts nor
rounds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn

from engines.adapters.folder import Shapes, check_kind, check_target, load_tensors, size_of
from engines.adapters.following import Entered, FollowingHead
from engines.decoder.llama import LlamaDecoder, LlamaLayer
from evprof.core.errors import UserError
from evprof.core.vocabulary.drafters import EAGLE
from evprof.loaders.adapters import AdapterInfo

if TYPE_CHECKING:
    from transformers import LlamaConfig

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
        return {name: value for name, value in asdict(self).items() if name != "hidden"}

    def tensors(self) -> Shapes:
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
        from transformers import LlamaConfig

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


class EagleHead(FollowingHead):
    """The weights and the pass that training takes; `HeadPass` drafts. A small loaded head keeps a `table` [V, H] of
    its products with all tokens."""

    def __init__(self, shape: EagleShape, *, device: torch.device | None = None, dtype: torch.dtype | None = None):
        from transformers.models.llama.modeling_llama import LlamaDecoderLayer

        place = device or torch.device("cpu")
        kind = dtype or torch.float32
        config = shape.llama()
        with place:
            layer = LlamaLayer(LlamaDecoderLayer(config, 0).to(kind), config)
        super().__init__(config, layer, place, kind)
        self.shape, self.window = shape, shape.window
        self.feature = nn.Linear(shape.hidden, shape.hidden, bias=False, device=place, dtype=kind)
        self.token = nn.Linear(shape.hidden, shape.hidden, bias=False, device=place, dtype=kind)
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

    def entered(self, states: torch.Tensor, embeddings: torch.Tensor) -> Entered:
        """Sums both parts at unit mean square: hidden states grow with depth, and only their direction counts."""
        told = self.token(unit(embeddings))
        joined = torch.addmm(told.flatten(0, -2), unit(states).flatten(0, -2), self.feature.weight.t())
        return self._normed(joined.view(told.shape))

    def entered_by(self, states: torch.Tensor, ids: torch.Tensor, target: LlamaDecoder) -> Entered:
        if self.table is None:
            return super().entered_by(states, ids, target)
        return self._normed(torch.addmm(self.table.index_select(0, ids), unit(states), self.feature.weight.t()))

    def _normed(self, fused: torch.Tensor) -> Entered:
        return F.rms_norm(fused, (self.layer.width,), self.layer.input_norm, self.layer.eps), fused

    def logits(self, guesses: torch.Tensor, target: LlamaDecoder) -> torch.Tensor:
        return target.head(guesses)


def unit(states: torch.Tensor) -> torch.Tensor:
    """[..., H] with mean square 1."""
    return F.rms_norm(states, (states.shape[-1],), None, _EPS)
