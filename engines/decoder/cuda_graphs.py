"""The decode step and the verified block as CUDA graphs: one launch where there were hundreds.

A graph is captured for a number of tokens and a bucket of the cache (`engines.decoder.bucket_pass`), over buffers that
stay where they are: the cache is kept from run to run. Nothing here waits for the device except a capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from engines.decoder.attention import FLASH, SDPA
from engines.decoder.bucket_pass import JOINED, MASKED, STRIDE, Bucket, attention_alone, bucket_of, bucket_states
from engines.decoder.kv_cache import KvCache, StaticKv
from engines.decoder.llama import BlockShape, LlamaDecoder
from evprof.core.clock import monotonic_ns
from evprof.core.units import ms_from_ns

Body = Callable[..., tuple[torch.Tensor, torch.Tensor]]
"""`bucket_states`, or the same compiled."""

_WARM_UPS = 3
_TIMED = 20


@dataclass
class _Captured:
    """A graph with the buffers it reads and writes; `held` keeps alive what it points to besides."""

    graph: Any
    ids: torch.Tensor
    start: torch.Tensor
    logits: torch.Tensor
    hidden: torch.Tensor
    held: tuple[Any, ...]


class GraphStep:
    """The steps of one decoder as graphs, each captured when first needed. Only for CUDA, rows of one prompt.

    The logits it returns and `features` are buffers of the graph's: good until the next step of the same kind is
    launched on the stream. `problem` says why it fell back to the decoder's own pass, once that happened. While
    `captures` is False what is not captured yet goes the decoder's own way: a capture stops the device for all threads.
    """

    gives_features = True
    takes_shapes = False
    """Whether trees are captured, too, instead of going the decoder's own way."""

    def __init__(self, decoder: LlamaDecoder, *, body: Body = bucket_states, kind: str = "graphs") -> None:
        self.kind = kind
        self.problem: str | None = None
        self.captures = True
        self.features: torch.Tensor | None = None
        self._decoder = decoder
        self._body = body
        self._blocks: tuple[int, ...] = (1,)
        self._cache: StaticKv | None = None
        self._graphs: dict[tuple[int, Bucket, str], _Captured] = {}
        self._ways: dict[Bucket, str] = {}
        self._pool: Any = None

    def open_cache(self, capacity: int) -> StaticKv:
        """The kept cache, emptied, if it has so much room; else a new one, with which all graphs begin anew."""
        if self._cache is None or self._cache.capacity < capacity:
            self.release()
            rounded = -(-capacity // STRIDE) * STRIDE
            decoder = self._decoder
            dtype = decoder.embed_tokens.weight.dtype
            # In inference mode like the runs it serves: what is compiled for its tensors tells the two apart.
            with torch.inference_mode():
                self._cache = StaticKv(decoder.config, rounded, device=decoder.device, dtype=dtype)
        self._cache.clear()
        return self._cache

    def capture_for(self, blocks: Iterable[int], start: int, capacity: int) -> float | None:
        """Captures steps of so many tokens each for positions from `start` up to `capacity`.

        Returns the ms it took, None where everything was there. Raises RuntimeError when it cannot be captured.
        """
        began_ns, before = monotonic_ns(), len(self._graphs)
        self._blocks = tuple(sorted({*blocks}))
        cache = self.open_cache(capacity)
        for block in self._blocks:
            for begin in range(start // STRIDE * STRIDE, capacity - block, STRIDE):
                self._captured(block, cache, max(begin, 1))
        cache.clear()
        return ms_from_ns(monotonic_ns() - began_ns) if len(self._graphs) > before else None

    def __call__(self, ids: torch.Tensor, cache: KvCache, keep: int, shape: BlockShape | None = None) -> torch.Tensor:
        """Token ids [1, S] -> logits [1, keep, V]; the cache grows by S."""
        start, new = cache.length, ids.shape[1]
        block = next((block for block in self._blocks if block >= new), None)
        can = self.problem is None and (shape is None or self.takes_shapes)
        if can and block is not None and cache is self._cache and start + block <= cache.capacity:
            try:
                captured = self._captured(block, cache, start)
            except RuntimeError as problem:
                if isinstance(problem, torch.OutOfMemoryError):
                    raise
                self.problem = str(problem).strip().splitlines()[0].rstrip(". ")
                captured = None
            if captured is not None:
                # A shorter block is filled up with what follows nothing: those positions are not counted.
                captured.ids[:, :new].copy_(ids, non_blocking=True)
                captured.start.fill_(start)
                captured.graph.replay()
                cache.advance(new)
                self.features = captured.hidden[:, :new]
                return captured.logits[:, new - keep : new]
        self.features = hidden = self._decoder.trunk(self._decoder.embed(ids), cache, shape=shape)
        return self._decoder.head(hidden[:, -keep:])

    def _captured(self, block: int, cache: StaticKv, start: int) -> _Captured | None:
        bucket = self._bucket(start, block, cache.capacity)
        key = (block, bucket, self._decoder.attention)
        found = self._graphs.get(key)
        if found is None and self.captures:
            found = self._graphs[key] = self._capture(block, cache, bucket, start)
        return found

    def _bucket(self, start: int, block: int, capacity: int) -> Bucket:
        return bucket_of(start, block, capacity)

    @torch.inference_mode()
    def _capture(self, block: int, cache: StaticKv, bucket: Bucket, start: int) -> _Captured:
        decoder, device = self._decoder, self._decoder.device
        decoder.rotary.reach(cache.capacity)
        ids = torch.zeros(1, block, device=device, dtype=torch.long)
        begin = torch.full((1,), start, device=device, dtype=torch.long)
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        way = self._way(block, cache, bucket, begin)
        # What the passes write at `start` onward is overwritten by the step that asked, or not counted.
        graph, (logits, hidden) = _recorded(
            device, self._pool, lambda: self._body(decoder, ids, begin, cache, bucket, way=way), warm_ups=_WARM_UPS
        )
        return _Captured(graph, ids, begin, logits, hidden, (decoder.rotary.cos, decoder.rotary.sin, cache))

    def _way(self, block: int, cache: StaticKv, bucket: Bucket, begin: torch.Tensor) -> str:
        """The faster of the two ways to attend over a bucket, measured once on this device."""
        if self._decoder.attention != SDPA:
            return JOINED if self._decoder.attention == FLASH else MASKED
        if bucket not in self._ways:
            self._ways[bucket] = min((JOINED, MASKED), key=lambda way: self._time(way, block, cache, bucket, begin))
        return self._ways[bucket]

    def _time(self, way: str, block: int, cache: StaticKv, bucket: Bucket, begin: torch.Tensor) -> float:
        """Ms of some layers' attention, captured as it will run: launches one by one would measure the host."""
        device, heads = self._decoder.device, self._decoder.config.num_attention_heads
        held = cache.keys[0]
        queries = torch.zeros(1, heads, block, held.shape[-1], device=device, dtype=held.dtype)
        places = begin + torch.arange(block, device=device)

        def layers() -> list[torch.Tensor]:
            return [attention_alone(queries, cache, places, bucket, way) for _ in range(_TIMED)]

        graph, _ = _recorded(device, self._pool, layers, warm_ups=1)
        with torch.cuda.device(device):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            graph.replay()
            first.record()
            graph.replay()
            last.record()
            last.synchronize()
            return float(first.elapsed_time(last))

    def release(self) -> None:
        """Gives the cache and all graphs back."""
        self._graphs.clear()
        self._ways.clear()
        self._cache = None


def _recorded(device: torch.device, pool: Any, body: Callable[[], Any], *, warm_ups: int) -> tuple[Any, Any]:
    """A graph of `body`, run some times before so that libraries are loaded and kernels chosen, and what it returns."""
    with torch.cuda.device(device):
        side, graph = torch.cuda.Stream(device), torch.cuda.CUDAGraph()
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(warm_ups):
                body()
        torch.cuda.current_stream(device).wait_stream(side)
        # A stream named: the one torch would take belongs to the first device that ever captured.
        with torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local"):
            made = body()
    return graph, made
