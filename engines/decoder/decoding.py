"""Our own decode loop: one forward pass per token over a cache, greedy or sampled.

Greedy output equals transformers' `generate` token for token in fp32. On CUDA token ids reach the host one step late
through a pinned copy, so the host never keeps the device waiting. It knows language models only: pictures have become
embeddings before this begins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from engines.decoder.kv_cache import STATIC, KvCache
from engines.decoder.llama import BlockShape, LlamaDecoder, TakesStates
from engines.decoder.quantized_kv import make_cache
from engines.decoder.sampling import Sampler
from engines.measuring.timing import StageClock
from engines.tokens.answer import Answer
from evprof.core.errors import Cancelled
from evprof.core.protocols import StopFlag

if TYPE_CHECKING:
    from transformers import LlamaConfig


class Decoder(Protocol):
    config: LlamaConfig

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """[B, S] -> [B, S, hidden]."""

    def __call__(
        self, hidden: torch.Tensor, cache: KvCache, *, keep: int = 1, stop: StopFlag | None = None
    ) -> torch.Tensor:
        """[B, S, hidden] -> logits [B, keep, V]; the cache grows by S."""

    def trunk(
        self, hidden: torch.Tensor, cache: KvCache, *, stop: StopFlag | None = None, shape: BlockShape | None = None
    ) -> torch.Tensor:
        """[B, S, hidden] -> [B, S, hidden] before the last norm; the cache grows by S."""

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """[B, S, hidden] -> logits [B, S, V]."""


class DecodeStep(ABC):
    """A way to compute decode steps; `problem` is set when it fails. One that `gives_features` leaves the last hidden
    states [B, S, hidden], before the last norm, in `features` until the next call."""

    kind: str
    gives_features = True

    def __init__(self, decoder: LlamaDecoder) -> None:
        self._decoder = decoder
        self.problem: str | None = None
        self.features: torch.Tensor | None = None

    @abstractmethod
    def __call__(self, ids: torch.Tensor, cache: KvCache, keep: int, shape: BlockShape | None = None) -> torch.Tensor:
        """Token ids [B, S], as a tree where there is a `shape` -> logits [B, keep, V]; the cache grows by S."""

    def plain(self, ids: torch.Tensor, cache: KvCache, keep: int, shape: BlockShape | None) -> torch.Tensor:
        self.features = hidden = self._decoder.trunk(self._decoder.embed(ids), cache, shape=shape)
        return self._decoder.head(hidden[:, -keep:])


@dataclass
class CachedModel:
    """A language model and its cache, of which `prompt_length` positions are the prompt's. `rolled_back` counts cropped
    positions; `prefill_chunk` is the size of a prefill pass (0: all). `own_step` computes what follows the prompt. With
    `keeps_features`, `features` are the last hidden states [1, S, hidden] of the latest pass, before the last norm, and
    `prompt_embeddings` [1, S, hidden] the prompt's; with `reads`, the inputs of those layers side by side, without
    `own_step`."""

    decoder: Decoder
    role: str
    device: torch.device
    vocabulary_size: int
    bytes_per_position: int = 0
    cache: KvCache | None = None
    prompt_length: int = 0
    rolled_back: int = 0
    prefill_chunk: int = 0
    own_step: DecodeStep | None = None
    prompt_embeddings: torch.Tensor | None = None
    features: torch.Tensor | None = None
    keeps_features: bool = False
    reads: tuple[int, ...] = ()

    @classmethod
    def over(cls, decoder: LlamaDecoder, role: str, *, kind: str = STATIC, bytes_per_position: int = 0) -> CachedModel:
        """A decoder with an empty cache of a kind, for when no run decides about it."""
        device, dtype = decoder.device, decoder.embed_tokens.weight.dtype
        cache = make_cache(kind, decoder.config, capacity=256, device=device, dtype=dtype)
        return cls(decoder, role, device, decoder.rows, bytes_per_position, cache)

    @property
    def length(self) -> int:
        return self.cache.length if self.cache is not None else 0

    @property
    def opened(self) -> KvCache:
        """The cache. Raises RuntimeError before `open`."""
        if self.cache is None:
            raise RuntimeError("a cached model is opened before it is used")
        return self.cache

    def prefill(self, embeddings: torch.Tensor, stop: StopFlag) -> torch.Tensor:
        """[B, S, hidden] -> logits [B, V] of the next token. Raises Cancelled when stopped between two layers."""
        size = self.prefill_chunk or embeddings.shape[1]
        kept: list[torch.Tensor] = []
        last = embeddings
        for chunk in embeddings.split(size, dim=1):
            last = self._through(chunk, kept, stop=stop)
        self.prompt_length = self.length
        if self.keeps_features:
            self.prompt_embeddings, self.features = embeddings, torch.cat(kept, dim=1)
        return self.decoder.head(last[:, -1:])[:, -1]

    def step(self, ids: torch.Tensor, keep: int = 1) -> torch.Tensor:
        """Token ids [B, k] -> logits [B, keep, V] of the last `keep` positions; the cache grows by k."""
        return self._fed(ids, keep, None)

    def block(self, ids: torch.Tensor, shape: BlockShape | None = None) -> torch.Tensor:
        """Token ids [1, S] -> logits [1, S, V]. The cache grows by S, all nodes of a tree; `keep_path` then leaves one
        branch."""
        return self._fed(ids, ids.shape[1], shape)

    def _fed(self, ids: torch.Tensor, keep: int, shape: BlockShape | None) -> torch.Tensor:
        step = self.own_step
        if step is not None and (not self.keeps_features or (step.gives_features and not self.reads)):
            logits = step(ids, self.opened, keep, shape)
            if self.keeps_features:
                self.features = step.features
            return logits
        kept: list[torch.Tensor] = []
        hidden = self._through(self.decoder.embed(ids), kept, shape=shape)
        if self.keeps_features:
            (self.features,) = kept
        return self.decoder.head(hidden[:, -keep:])

    def trunk(
        self,
        hidden: torch.Tensor,
        *,
        stop: StopFlag | None = None,
        shape: BlockShape | None = None,
        inputs: TakesStates | None = None,
    ) -> torch.Tensor:
        if isinstance(self.decoder, LlamaDecoder):
            long_pass = getattr(self.own_step, "long_pass", None)
            return self.decoder.trunk(hidden, self.opened, stop=stop, shape=shape, inputs=inputs, long_pass=long_pass)
        if inputs is not None:
            raise TypeError("only a Llama gives what enters its layers")
        return self.decoder.trunk(hidden, self.opened, stop=stop, shape=shape)

    def _through(
        self,
        hidden: torch.Tensor,
        kept: list[torch.Tensor],
        *,
        stop: StopFlag | None = None,
        shape: BlockShape | None = None,
    ) -> torch.Tensor:
        """The decoder's own pass [B, S, hidden] -> [B, S, hidden]; `kept` is given what features are made of it."""
        if not self.keeps_features or not self.reads:
            left = self.trunk(hidden, stop=stop, shape=shape)
            if self.keeps_features:
                kept.append(left)
            return left
        inside = _Chosen(self.reads)
        left = self.trunk(hidden, stop=stop, shape=shape, inputs=inside)
        inside.append(left)
        kept.append(torch.cat(inside.states, dim=-1))
        return left

    def keep_path(self, size: int, path: Sequence[int]) -> None:
        """Of the last `size` positions leaves those of `path`, in its order, as if nothing else had been fed."""
        start = self.length - size
        if list(path) != list(range(len(path))):
            self.opened.gather(start, path)
        self.crop(start + len(path))

    def crop(self, length: int) -> int:
        """Cuts the cache to `length` positions if it is longer. Returns how many went."""
        surplus = self.length - length
        if surplus <= 0:
            return 0
        self.opened.crop(length)
        return surplus

    def crop_to(self, answer: Answer) -> int:
        return self.crop(self.prompt_length + len(answer.ids) - 1)

    def note_length(self, answer: Answer, length: int | None = None) -> None:
        count = self.length if length is None else length
        answer.note_cache(self.role, count, count * self.bytes_per_position)


class _Chosen:
    def __init__(self, layers: Sequence[int]) -> None:
        self.states: list[torch.Tensor] = []
        self._layers = frozenset(layers)
        self._next = 0

    def append(self, hidden: torch.Tensor, /) -> None:
        if self._next in self._layers:
            self.states.append(hidden)
        self._next += 1


@dataclass(frozen=True)
class Limits:
    max_new_tokens: int
    eos_ids: frozenset[int] = frozenset()

    def is_over(self, answer: Answer) -> bool:
        ids = answer.ids
        return len(ids) >= self.max_new_tokens or (bool(ids) and ids[-1] in self.eos_ids)


class TokenReader:
    """Brings chosen token ids to the host; on a CPU at once."""

    def push(self, token: torch.Tensor) -> list[int]:
        """Takes the ids [B, 1] just chosen; returns those of one step that are on the host by now, or none."""
        ids: list[int] = token.flatten().tolist()
        return ids

    def flush(self) -> list[int]:
        return []


class LateReader(TokenReader):
    """For CUDA: copies into pinned memory and reads one step later, while the device works on the next token."""

    def __init__(self, device: torch.device, rows: int = 1) -> None:
        self._device = device
        self._slots = [
            (torch.empty((rows, 1), dtype=torch.int64, pin_memory=True), torch.cuda.Event()) for _ in range(2)
        ]
        self._turn = 0
        self._waiting: tuple[torch.Tensor, torch.cuda.Event] | None = None

    def push(self, token: torch.Tensor) -> list[int]:
        slot, arrived = self._slots[self._turn]
        self._turn = 1 - self._turn
        slot.copy_(token, non_blocking=True)
        arrived.record(torch.cuda.current_stream(self._device))
        ready = self.flush()
        self._waiting = (slot, arrived)
        return ready

    def flush(self) -> list[int]:
        if self._waiting is None:
            return []
        slot, arrived = self._waiting
        arrived.synchronize()
        self._waiting = None
        ids: list[int] = slot.flatten().tolist()
        return ids


def make_reader(device: torch.device, rows: int = 1) -> TokenReader:
    return LateReader(device, rows) if device.type == "cuda" else TokenReader()


def decode(
    model: CachedModel,
    first: torch.Tensor,
    answer: Answer,
    limits: Limits,
    *,
    sampler: Sampler,
    clock: StageClock,
    stop: StopFlag,
    reader: TokenReader | None = None,
) -> None:
    """Tokens 2…n into `answer`; `first` is its first token [1, 1] on the device. Leaves prompt + answer - 1 positions
    in the cache. Raises Cancelled when stopped, after taking finished tokens."""
    reader = reader or make_reader(model.device)
    token, chosen = first, len(answer.ids)
    while chosen < limits.max_new_tokens and not limits.is_over(answer) and not stop.is_set():
        clock.begin_step()
        token = sampler(model.step(token)[:, -1])
        chosen += 1
        _take(reader.push(token), model, answer, limits)
        clock.end_step()
    _take(reader.flush(), model, answer, limits)
    model.crop_to(answer)
    if stop.is_set() and not limits.is_over(answer):
        raise Cancelled


def _take(ids: list[int], model: CachedModel, answer: Answer, limits: Limits) -> None:
    for token_id in ids:
        if limits.is_over(answer):
            return
        answer.add(token_id)
        model.note_length(answer, model.prompt_length + len(answer.ids) - 1)
