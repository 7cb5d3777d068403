"""From the event model's last hidden state to the target's head: the draft then speaks in the target's vocabulary.

A residual bottleneck, and attention to the target's visual embeddings, which know what events do not show (colour,
daylight). It knows neither prompts nor rounds; how it is taught is `engines.training.hidden_trainee`'s.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import nn

from engines.adapters.folder import check_draft, check_kind, check_target, load_module, size_of
from engines.adapters.wrapped_decoder import WrappedDecoder
from engines.decoder.llama import LlamaDecoder
from evprof.core.errors import UserError
from evprof.core.vocabulary.drafters import HIDDEN
from evprof.loaders.adapters import DESCRIPTION, AdapterInfo


@dataclass(frozen=True)
class HiddenSizes:
    """`draft` and `target` are widths of hidden states, `bottleneck` that of the network between them.

    `heads` of `head_dim` attend to the target's visual embeddings; 0 heads: nothing does.
    """

    draft: int
    target: int
    bottleneck: int
    heads: int = 0
    head_dim: int = 0

    def config(self) -> dict[str, int]:
        """What `adapter.json` says of them beside both widths."""
        return {name: size for name, size in asdict(self).items() if name not in ("draft", "target")}


Seen = tuple[torch.Tensor, torch.Tensor]
"""Keys and values [B, heads, V, head_dim] of visual embeddings."""


class HiddenAdapter(nn.Module):
    """x = map(h); x += attention(norm(x), what the target sees); x += up(silu(down(norm(x)))).

    Untrained it is the map alone: the identity where both widths are equal.
    """

    def __init__(self, sizes: HiddenSizes) -> None:
        super().__init__()
        self.sizes = sizes
        width, attended = sizes.target, sizes.heads * sizes.head_dim
        self.map = nn.Linear(sizes.draft, width, bias=False)
        self.norm = nn.Parameter(torch.ones(width))
        self.down = nn.Linear(width, sizes.bottleneck, bias=False)
        self.up = nn.Linear(sizes.bottleneck, width, bias=False)
        if sizes.heads:
            self.asking_norm = nn.Parameter(torch.ones(width))
            self.seen_norm = nn.Parameter(torch.ones(width))
            self.queries = nn.Linear(width, attended, bias=False)
            self.keys_values = nn.Linear(width, 2 * attended, bias=False)
            self.out = nn.Linear(attended, width, bias=False)
            nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.up.weight)
        if sizes.draft == width:
            nn.init.eye_(self.map.weight)

    def look(self, visual: torch.Tensor) -> Seen | None:
        """The target's visual embeddings [B, V, target] -> what `forward` attends to, computed once for an answer."""
        if not self.sizes.heads:
            return None
        both = self.keys_values(_normed(visual, self.seen_norm))
        keys, values = self._split(both[..., : both.shape[-1] // 2]), self._split(both[..., both.shape[-1] // 2 :])
        return keys, values

    def forward(self, hidden: torch.Tensor, seen: Seen | None = None) -> torch.Tensor:
        """[B, S, draft] -> [B, S, target], as before the target's last norm; nothing is attended to without `seen`."""
        state: torch.Tensor = self.map(hidden)
        if seen is not None and self.sizes.heads:
            asked = self._split(self.queries(_normed(state, self.asking_norm)))
            found = F.scaled_dot_product_attention(asked, *seen)
            state = state + self.out(found.transpose(1, 2).flatten(2))
        result: torch.Tensor = state + self.up(F.silu(self.down(_normed(state, self.norm))))
        return result

    def _split(self, joined: torch.Tensor) -> torch.Tensor:
        """[B, N, heads * head_dim] -> [B, heads, N, head_dim]."""
        return joined.view(*joined.shape[:2], self.sizes.heads, self.sizes.head_dim).transpose(1, 2)


class AdaptedDecoder(WrappedDecoder):
    """The draft's layers, an adapter, then the target's last norm and head.

    It shares the weights of both, save that a target on another device lends the draft's a copy of norm and head.
    """

    def __init__(self, draft: LlamaDecoder, target: LlamaDecoder, adapter: HiddenAdapter) -> None:
        super().__init__(draft)
        weight = target.lm_head.weight
        self.adapter = adapter.to(draft.device, weight.dtype)
        self._norm = target.norm.to(draft.device)
        self._eps: float = target.config.rms_norm_eps
        self._head = weight.to(draft.device)
        bias = dict(target.lm_head.named_parameters()).get("bias")
        self._bias = None if bias is None else bias.to(draft.device)
        self._waiting: tuple[torch.Tensor, torch.cuda.Event | None] | None = None
        self._looked_at: torch.Tensor | None = None
        self._brought: torch.Tensor | None = None
        self._seen: Seen | None = None

    def look(self, visual: torch.Tensor) -> None:
        """Takes the target's visual embeddings [V, target] up with the next step; another thread may be in one now."""
        if visual is self._looked_at:
            return
        self._looked_at = visual
        # Moved here: from the draft's thread the copy would be queued behind all that the target has queued since.
        brought = visual.to(self._head.device, self._head.dtype, non_blocking=True)
        made, gpu = None, brought.device if brought.device.type == "cuda" else visual.device
        if gpu.type == "cuda":
            made = torch.cuda.Event()
            made.record(torch.cuda.current_stream(gpu))
        self._waiting = brought, made

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """The draft's hidden states [B, S, draft] -> logits [B, S, V] over the target's rows."""
        if self._waiting is not None:
            self._take_up(*self._waiting)
        state = self.adapter(hidden.to(self._head.dtype), self._seen)
        return F.linear(F.rms_norm(state, state.shape[-1:], self._norm, self._eps), self._head, self._bias)

    def _take_up(self, visual: torch.Tensor, made: torch.cuda.Event | None) -> None:
        """On the stream of whoever drafts, after the one that brought it."""
        self._waiting = None
        if made is not None and visual.device.type == "cuda":
            made.wait(torch.cuda.current_stream(visual.device))
        elif made is not None:
            made.synchronize()
        # Held: the allocator knows of the stream that brought it only, and would give its memory to others.
        self._brought = visual
        self._seen = self.adapter.look(visual[None])


def load_hidden(info: AdapterInfo, draft: LlamaDecoder, target: LlamaDecoder) -> AdaptedDecoder:
    """The draft with a trained adapter. Raises UserError for one of another kind or other models' sizes."""
    check_kind(info, HIDDEN)
    check_target(info, target)
    check_draft(info, draft)
    adapter = load_module(info, lambda: HiddenAdapter(hidden_sizes(info)), dtype=torch.float32)
    return AdaptedDecoder(draft, target, adapter)


def hidden_sizes(info: AdapterInfo) -> HiddenSizes:
    """Sizes as `adapter.json` says them. Raises UserError for what makes no adapter."""
    heads = size_of(info, "heads", least=0, most=256)
    head_dim = size_of(info, "head_dim", least=0, most=1024)
    if heads and not head_dim:
        raise UserError(f"{info.folder / DESCRIPTION}: config.head_dim must be at least 1 where there are heads.")
    return HiddenSizes(info.draft_hidden_size or 0, info.hidden_size, size_of(info, "bottleneck"), heads, head_dim)


def _normed(state: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(state, state.shape[-1:], weight, 1e-5)
