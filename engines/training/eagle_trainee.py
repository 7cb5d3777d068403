"""Teaches an EAGLE-style head to guess a target's next hidden states, from its own guesses as well as from true ones.

Draft step 1 starts from true hidden states; in step s the last s - 1 places hold the head's own guesses, and those
are what it will draft from. All places of an answer are taught at once: in step s a query sees true keys up to s - 1
places back and, for each earlier step, the one key that lies on its own draft (Li et al., "EAGLE-3", arXiv
2503.01840, there called training-time test).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn

from engines.adapters.following import FollowingHead
from engines.adapters.published import Eagle1Head, Eagle3Form, Eagle3Head, layer_like, published_tensors
from engines.decoder.llama import LlamaDecoder
from engines.training.example import Example
from engines.training.loop import Figures, ModuleTrainee, TraineeSide
from evprof.core.errors import UserError
from evprof.loaders.heads import LAYOUT

if TYPE_CHECKING:
    from transformers import LlamaConfig

NOISE = 0.1
"""Of true hidden states of mean square 1, standard deviation: no draft starts from exactly what was trained on."""

_FADE = 0.8
"""Weight of a step relative to the one before it: a later token counts only when all before it stand."""

_FEATURE_WEIGHT = 1.0

_EAGLE1, _EAGLE3 = "eagle", "eagle3"


class EagleTrainee(ModuleTrainee):
    """A head for `target`, drawn from `seed`, trained to draft `steps` tokens. Its `layout` is "eagle", or "eagle3",
    which reads what enters `layers`."""

    def __init__(
        self,
        target: LlamaDecoder,
        *,
        window: int = 16,
        steps: int = 3,
        seed: int = 0,
        layout: str = _EAGLE1,
        layers: tuple[int, ...] = (),
    ) -> None:
        self._target = target
        self._steps, self._layout, self._window = steps, layout, window
        config = layer_like(target.config)
        self.head: FollowingHead
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if layout == _EAGLE3:
                self.head = _eagle3(target, config, layers)
            else:
                self.head = Eagle1Head(config, bias=False)
                size = float(target.embed_tokens.weight.detach().float().pow(2).mean().sqrt())
                self.head.fc = _Joining(config.hidden_size, 1.0 / max(size, 1e-6))
            self.head.window = window
            self.head.to(target.device)
        super().__init__(self.head)
        for name, weight in self.head.named_parameters():
            weight.requires_grad_(True)
            if name.endswith(("out.weight", "down.weight")):
                nn.init.zeros_(weight)
        with torch.no_grad():
            # The guess begins as the state before it (of several the last), and what the layer adds is learned.
            self._feature_weight().copy_(torch.eye(config.hidden_size))
        self._noise = torch.Generator(device=target.device).manual_seed(seed)

    def loss(self, examples: Sequence[Example]) -> torch.Tensor:
        """Over all steps: cross-entropy to the target's law and token; where a state is guessed, smooth L1 to it."""
        batch = self._batch(examples)
        total = batch.features.new_zeros(())
        weight = 1.0
        for step, guesses in enumerate(self._drafts(batch, self._steps, noise=NOISE if self._guesses_states else 0.0)):
            total = total + weight * self._step_loss(batch, guesses, step)
            weight *= _FADE
        return total

    def figures(self, examples: Sequence[Example]) -> Figures:
        with torch.no_grad():
            batch = self._batch(examples)
            (guesses,) = self._drafts(batch, 1)
            counts = batch.counts(0)
            if not counts.any():
                raise UserError("The examples held back have no token after their first; collect longer answers.")
            right = (self.head.logits(guesses, self._target).argmax(-1) == batch.tokens) & counts
            match = right.sum() / counts.sum()
            return Figures(float(self._step_loss(batch, guesses, 0)), float(match))

    def tensors(self) -> dict[str, torch.Tensor]:
        weights = {name: tensor.detach() for name, tensor in self.head.state_dict().items()}
        if isinstance(self.head, Eagle1Head):
            weights = {name: tensor for name, tensor in weights.items() if not name.startswith("fc.")}
            weights["fc.weight"] = _joining(self.head).weight.detach()
        told = published_tensors(self.head, weights)
        return {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in told.items()}

    def config(self) -> dict[str, Any]:
        llama = self.head.llama
        rope = {"rope_theta": (llama.rope_parameters or {}).get("rope_theta", 10_000.0)}
        told: dict[str, Any] = {
            "heads": llama.num_attention_heads,
            "kv_heads": llama.num_key_value_heads,
            "head_dim": llama.head_dim,
            "intermediate": llama.intermediate_size,
            "window": self._window,
            "trained_steps": self._steps,
            LAYOUT: self._layout,
            "eps": llama.rms_norm_eps,
            "positions": self._target.config.max_position_embeddings,
            "rope": rope,
        }
        if self.head.reads:
            told |= {"layers": list(self.head.reads), "draft_vocabulary": self.head.choices}
        return told

    @property
    def _guesses_states(self) -> bool:
        """Whether guesses stand for the target's last hidden states; EAGLE-3's are what its own head makes most of."""
        return not self.head.reads

    def _feature_weight(self) -> torch.Tensor:
        """[H, H]: what is made of the (last) state, before a token joins it."""
        if isinstance(self.head, Eagle3Head):
            return self.head.fc.weight[:, -self._target.config.hidden_size :]
        return _joining(self.head).feature.weight

    def _batch(self, examples: Sequence[Example]) -> _Batch:
        return _Batch.of(examples, self._target, self._window, reads_layers=bool(self.head.reads))

    def _seen(self, features: torch.Tensor) -> torch.Tensor:
        return self.head.taken(features, self._target)

    def _step_loss(self, batch: _Batch, guesses: torch.Tensor, step: int) -> torch.Tensor:
        counts = batch.counts(step)
        logits = self.head.logits(guesses, self._target)[counts]
        law = batch.laws[counts]
        told = F.cross_entropy(logits, batch.tokens[counts]) + F.cross_entropy(logits, law)
        if not self._guesses_states:
            return 0.5 * told
        apart = F.smooth_l1_loss(_unit(guesses)[counts], _unit(self._seen(batch.following))[counts], beta=1.0)
        return 0.5 * told + _FEATURE_WEIGHT * apart

    def _drafts(self, batch: _Batch, steps: int, *, noise: float = 0.0) -> list[torch.Tensor]:
        """Guesses [B, M, H] of each draft step at every place of the answers; those of step s count from place s on."""
        head, width = self.head, batch.width
        features = self._seen(batch.features)
        if noise:
            drawn = torch.empty_like(features).normal_(0.0, noise, generator=self._noise)
            features = features + drawn
        cos, sin = head.rotary.rows(0, batch.embeddings.shape[1])
        prompt = batch.embeddings.shape[1] - width
        entering, _ = head.entered(features[:, :prompt], batch.embeddings[:, :prompt])
        turned, told = head.projected(entering, cos[:prompt], sin[:prompt])
        rows = _Rows(turned[:, head.layer.heads :], told, batch.hidden, width)
        embeddings, guesses = batch.embeddings[:, prompt:], features[:, prompt:]
        made: list[torch.Tensor] = []
        for _ in range(steps):
            made.append(head(head.entered(guesses, embeddings), cos[prompt:], sin[prompt:], rows.attend))
            # Each place goes on from what was guessed at the place before; the first has none and counts no more.
            guesses = made[-1].roll(1, 1)
        return made


class _Joining(nn.Module):
    def __init__(self, width: int, scale: float) -> None:
        super().__init__()
        self.token, self.feature = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self._scale = scale

    @property
    def weight(self) -> torch.Tensor:
        """Of one product [H, 2H], the token's half first."""
        return torch.cat([self.token.weight * self._scale, self.feature.weight], dim=1)

    def forward(self, joined: torch.Tensor) -> torch.Tensor:
        """[..., 2H] -> [..., H]."""
        token, feature = joined.chunk(2, dim=-1)
        made: torch.Tensor = self.token(token * self._scale) + self.feature(feature)
        return made


def _eagle3(target: LlamaDecoder, config: LlamaConfig, layers: tuple[int, ...]) -> Eagle3Head:
    head = Eagle3Head(config, Eagle3Form(layers, target.rows))
    with torch.no_grad():
        head.fc.weight.zero_()
        head.norm.copy_(target.norm)
        head.lm_head.weight.copy_(target.lm_head.weight)
    return head


def _joining(head: FollowingHead) -> _Joining:
    if not isinstance(head, Eagle1Head) or not isinstance(head.fc, _Joining):
        raise TypeError("a head that is taught joins its halves apart")
    return head.fc


class _Rows:
    """Keys and values of the steps so far, and attention as it will be when drafting."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, hidden: torch.Tensor, width: int) -> None:
        self._prompt = keys, values
        self._hidden = hidden
        self._true: tuple[torch.Tensor, torch.Tensor] | None = None
        self._own: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._behind = torch.ones(width, width, dtype=torch.bool, device=keys.device)

    def attend(self, index: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """[B, heads, M, D] over the prompt's last places, true places and this draft's own -> [B, heads, M, D]."""
        groups = queries.shape[1] // keys.shape[1]
        if self._true is None:
            self._true = keys, values
        else:
            self._own.append((keys, values))
        step = len(self._own)
        scale = queries.shape[-1] ** -0.5
        before = torch.cat([self._prompt[0], self._true[0]], dim=2).repeat_interleave(groups, 1)
        scores = queries @ before.transpose(-1, -2) * scale
        seen = self._behind.tril(-step)
        hidden = torch.cat(
            [self._hidden[:, None, :].expand(-1, seen.shape[0], -1), ~seen.expand(scores.shape[0], -1, -1)], dim=-1
        )
        parts = [scores.masked_fill(hidden[:, None], -torch.inf)]
        own = [
            tuple(tensor.roll(step - number, 2).repeat_interleave(groups, 1) for tensor in pair)
            for number, pair in enumerate(self._own, 1)
        ]
        parts += [(queries * held).sum(-1, keepdim=True) * scale for held, _ in own]
        shares = torch.cat(parts, dim=-1).softmax(-1)
        told = torch.cat([self._prompt[1], self._true[1]], dim=2).repeat_interleave(groups, 1)
        mixed: torch.Tensor = shares[..., : told.shape[2]] @ told
        for number, (_, held) in enumerate(own):
            place = told.shape[2] + number
            mixed = mixed + shares[..., place : place + 1] * held
        return mixed


@dataclass(frozen=True, eq=False)
class _Batch:
    """Examples as rows: W prompt places on the left (`hidden` [B, W] True if empty), M answer places. `features` [B, W
    + M, H or several] and `embeddings` are a place's state and the next token's embedding; `following` [B, M, H] the
    next state, `laws` [B, M, V] and `tokens` [B, M] the target's; `lengths` [B]."""

    features: torch.Tensor
    embeddings: torch.Tensor
    hidden: torch.Tensor
    following: torch.Tensor
    laws: torch.Tensor
    tokens: torch.Tensor
    lengths: torch.Tensor

    @property
    def width(self) -> int:
        return self.tokens.shape[1]

    def counts(self, step: int) -> torch.Tensor:
        """[B, M] True where draft step `step`, from 0, has something to learn."""
        places = torch.arange(self.width, device=self.tokens.device)
        return (places >= step) & (places < self.lengths[:, None])

    @classmethod
    def of(
        cls, examples: Sequence[Example], target: LlamaDecoder, window: int, *, reads_layers: bool = False
    ) -> _Batch:
        """Pads; an answer of n tokens has n - 1 places, the prompt's last among them."""
        device, hidden = target.device, target.config.hidden_size
        lengths = [len(example.answer_ids) - 1 for example in examples]
        width = max(1, *lengths)
        prompt = min(window, max(example.target_prompt for example in examples) - 1)
        shape = (len(examples), prompt + width)
        taken = [example.layers if reads_layers else example.target_features for example in examples]
        features = torch.zeros(*shape, taken[0].shape[-1], device=device)
        embeddings = torch.zeros(*shape, hidden, device=device)
        following = torch.zeros(len(examples), width, hidden, device=device)
        tokens = torch.zeros(len(examples), width, dtype=torch.long, device=device)
        unseen = torch.ones(len(examples), prompt, dtype=torch.bool, device=device)
        with torch.no_grad():
            for row, (example, count) in enumerate(zip(examples, lengths, strict=True)):
                last = example.target_prompt - 1
                first = max(0, last - prompt)
                start, end = prompt - (last - first), prompt + count
                answer = example.answer_ids.to(device)
                states = example.target_features.to(device, torch.float32)
                behind = example.target_embeddings[first + 1 : last + 1].to(device, torch.float32)
                features[row, start:end] = taken[row][first : last + count].to(device, torch.float32)
                embeddings[row, start:prompt] = behind
                embeddings[row, prompt:end] = target.embed(answer[:count]).float()
                following[row, :count] = states[last + 1 : last + 1 + count]
                tokens[row, :count] = answer[1 : count + 1]
                unseen[row, start:] = False
            laws = target.head(following).float().softmax(-1)
        return cls(features, embeddings, unseen, following, laws, tokens, torch.tensor(lengths, device=device))


def _unit(states: torch.Tensor) -> torch.Tensor:
    """[..., H] with mean square 1."""
    return F.rms_norm(states, (states.shape[-1],), None, 1e-6)


def make(side: TraineeSide) -> EagleTrainee:
    """Under the target alone. Raises UserError for an EAGLE-3 head where no layers were kept."""
    layout = _EAGLE3 if side.size("published", 1) == 3 else _EAGLE1
    if layout == _EAGLE3 and not side.layers:
        raise UserError(
            "An EAGLE-3 head reads inside the target, and the examples hold no layers of it; collect them again with "
            "--keep-layers auto."
        )
    return EagleTrainee(
        side.target.language_model,
        window=side.size("window", 16),
        steps=side.size("steps", 3),
        seed=side.seed,
        layout=layout,
        layers=side.layers if layout == _EAGLE3 else (),
    )
