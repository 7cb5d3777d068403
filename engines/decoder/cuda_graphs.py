"""The decode step and the verified block as CUDA graphs: one launch instead of hundreds.

A graph is captured for a number of tokens, over buffers at fixed addresses: the cache is kept from run to run. A pass
that reads a bucket of the cache (`engines.decoder.bucket_pass`) has a graph for each bucket. A pass that reads the
length on the device has one graph. Only a capture waits for the device. Recording reaches `torch.cuda` through
`cuda`, which tests replace.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

import torch

from engines.decoder.bucket_pass import STRIDE, Bucket, bucket_of, bucket_states
from engines.decoder.compiled_step import first_line, is_compilers
from engines.decoder.decoding import DecodeStep
from engines.decoder.kv_cache import KvCache, StaticKv
from engines.decoder.llama import BlockShape, LlamaDecoder
from evprof.core.protocols import monotonic_ns
from evprof.core.units import ms_from_ns

cuda: Any = torch.cuda

_STREAMS_A_DEVICE = 32
"""Streams that torch hands out in turn, before it hands out the first again."""

_WARM_UPS = 2
"""Passes before a recording."""

_PRIORITY = -1
"""A graph's kernels keep the priority of the stream they were recorded on. A step is short, prefill beside it long."""

_streams: WeakKeyDictionary[LlamaDecoder, Any] = WeakKeyDictionary()


class GraphRecorder:
    """Records graphs of one decoder. Those it recorded share a pool, until `start_over`."""

    def __init__(self, decoder: LlamaDecoder) -> None:
        self._decoder = decoder
        self._pool: Any = None

    def record(self, body: Callable[[], Any], *, checks: bool = False) -> Any:
        """A graph of `body` and its result, after warm-ups. With `checks`, raises RuntimeError if `body` waits for the
        device; other threads must not wait meanwhile."""
        device, stream, graph = self._decoder.device, capture_stream(self._decoder), cuda.CUDAGraph()
        pool = self._pool = self._pool or cuda.graph_pool_handle()
        with cuda.device(device):
            before = cuda.current_stream(device)
            stream.wait_stream(before)
            try:
                # Around the recording too: torch's own way back to the stream before is left out when one fails.
                with cuda.stream(stream):
                    for _ in range(_WARM_UPS):
                        body()
                    if checks:
                        with _no_waiting():
                            body()
                    with cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
                        made = body()
            except BaseException:
                del graph
                self._clean_up(pool)
                raise
            finally:
                before.wait_stream(stream)
        return graph, made

    def start_over(self) -> None:
        """Gives the next recording a new pool: torch refuses a pool whose graphs are gone while a tensor of it
        lives."""
        self._pool = None

    def _clean_up(self, pool: Any) -> None:
        """After a recording that failed: before 2.12, torch counts it as under way for good, and frees nothing then."""
        with suppress(RuntimeError, AttributeError):
            cuda.memory._cuda_endAllocateToPool(self._decoder.device.index or 0, pool)
        self.start_over()
        cuda.empty_cache()


def capture_stream(decoder: LlamaDecoder) -> Any:
    """The one stream for a decoder's graphs. A stream brings a cuBLAS workspace (32 MiB on sm90): one for each graph
    adds up, and a shared one lets two models overwrite each other's numbers."""
    if decoder not in _streams:
        taken = list(_streams.values())
        offered = (cuda.Stream(decoder.device, priority=_PRIORITY) for _ in range(_STREAMS_A_DEVICE))
        free = islice((stream for stream in offered if stream not in taken), 1)
        _streams[decoder] = next(free, None) or cuda.Stream(decoder.device, priority=_PRIORITY)
    return _streams[decoder]


@contextmanager
def _no_waiting() -> Iterator[None]:
    """Makes torch raise where the host would wait, in every thread of the process, and puts back what was set."""
    before = cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        # torch says once that not every wait is known to it.
        warnings.filterwarnings("ignore", message="Synchronization debug mode")
        cuda.set_sync_debug_mode("error")
    try:
        yield
    except RuntimeError as error:
        if "synchronizing" not in str(error):
            raise
        raise RuntimeError("its pass waits for the device, which no graph can hold") from error
    finally:
        cuda.set_sync_debug_mode(before)


BucketBody = Callable[..., tuple[torch.Tensor, torch.Tensor]]


class LengthFreeBody(Protocol):
    """A pass over the whole cache that reads its length from `start` [1] on the device. Returns logits [1, S, V] and
    last hidden states [1, S, hidden] in its own buffers; writes into the cache but does not count."""

    most_positions: int

    def __call__(
        self, decoder: LlamaDecoder, ids: torch.Tensor, start: torch.Tensor, cache: StaticKv
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids [1, S] from position `start` [1] onward, S up to `most_positions`."""

    def arrange(self, shape: BlockShape | None) -> None:
        """Before each replay: how the block's positions hang together; None: one after the other. Never waits."""

    def release(self) -> None:
        """Gives buffers back; no graph needs them any more."""


@dataclass
class _Captured:
    graph: Any
    ids: torch.Tensor
    start: torch.Tensor
    logits: torch.Tensor
    hidden: torch.Tensor
    held: tuple[Any, ...]


class GraphStep(DecodeStep):
    """The steps of one decoder as graphs, captured on demand, for CUDA and one prompt. Logits and `features` are
    buffers of the graph, valid until the next step of the same kind on the stream. `problem` says why it fell back to
    the decoder's own pass, until `release`. While `captures` is False, uncaptured steps take the decoder's own pass: a
    capture stops the device for all threads. `body` is a `BucketBody`, or a `LengthFreeBody` without buckets, which
    also `takes_shapes`."""

    def __init__(
        self,
        decoder: LlamaDecoder,
        *,
        body: BucketBody | LengthFreeBody = bucket_states,
        kind: str = "graphs",
        has_buckets: bool = True,
    ) -> None:
        super().__init__(decoder)
        self.kind = kind
        self.captures = True
        self.takes_shapes = not has_buckets
        self._body = cast(BucketBody, body)
        self._length_free = None if has_buckets else cast(LengthFreeBody, body)
        self._blocks: tuple[int, ...] = (1,)
        self._cache: StaticKv | None = None
        self._graphs: dict[tuple[int, Bucket | None, str], _Captured] = {}
        self._checked: set[tuple[int, str]] = set()
        self._recorder = GraphRecorder(decoder)

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
        """Captures these numbers of tokens from `start` to `capacity`. Returns the ms, None if nothing was captured.
        Raises RuntimeError."""
        began_ns, before = monotonic_ns(), len(self._graphs)
        most = self._length_free.most_positions if self._length_free else capacity
        self._blocks = tuple(sorted(block for block in {*blocks} if block <= most))
        cache = self.open_cache(capacity)
        for block in self._blocks:
            for begin in range(start // STRIDE * STRIDE, capacity - block, STRIDE):
                self._captured(block, cache, max(begin, 1))
        cache.clear()
        return ms_from_ns(monotonic_ns() - began_ns) if len(self._graphs) > before else None

    def __call__(self, ids: torch.Tensor, cache: KvCache, keep: int, shape: BlockShape | None = None) -> torch.Tensor:
        """Token ids [1, S] -> logits [1, keep, V]; the cache grows by S. A `shape` places them as a tree."""
        start, new = cache.length, ids.shape[1]
        captured = self._captured_for(new, cache, shape)
        if captured is None:
            return self.plain(ids, cache, keep, shape)
        if self._length_free:
            self._length_free.arrange(shape)
        # A shorter block is filled up with what follows nothing: those positions are not counted.
        captured.ids[:, :new].copy_(ids, non_blocking=True)
        captured.start.fill_(start)
        captured.graph.replay()
        cache.advance(new)
        self.features = captured.hidden[:, :new]
        return captured.logits[:, new - keep : new]

    def _captured_for(self, new: int, cache: KvCache, shape: BlockShape | None) -> _Captured | None:
        block = next((block for block in self._blocks if block >= new), None)
        is_placed = shape is not None and not self.takes_shapes
        if self.problem is not None or block is None or is_placed or cache is not self._cache or self._cache is None:
            return None
        if cache.length + block > self._cache.capacity:
            return None
        try:
            return self._captured(block, self._cache, cache.length)
        except torch.OutOfMemoryError:
            raise
        except Exception as problem:
            if not isinstance(problem, RuntimeError) and not is_compilers(problem):
                raise
            self.problem = first_line(problem)
            return None

    def _captured(self, block: int, cache: StaticKv, start: int) -> _Captured | None:
        bucket = None if self._length_free else bucket_of(start, block, cache.capacity)
        key = (block, bucket, "" if self._length_free else self._decoder.attention)
        found = self._graphs.get(key)
        if found is None and self.captures:
            found = self._graphs[key] = self._capture(block, cache, bucket, start)
        return found

    @torch.inference_mode()
    def _capture(self, block: int, cache: StaticKv, bucket: Bucket | None, start: int) -> _Captured:
        decoder, device = self._decoder, self._decoder.device
        decoder.rotary.reach(cache.capacity)
        ids = torch.zeros(1, block, device=device, dtype=torch.long)
        begin = torch.full((1,), start, device=device, dtype=torch.long)

        def body() -> tuple[torch.Tensor, torch.Tensor]:
            if self._length_free:
                return self._length_free(decoder, ids, begin, cache)
            return self._body(decoder, ids, begin, cache, bucket)

        # What a pass waits for does not depend on the bucket: in setup, where no other thread is at work, it is found.
        checked = (block, decoder.attention)
        # What the passes write at `start` onward is overwritten by the step that asked, or not counted.
        graph, (logits, hidden) = self._recorder.record(body, checks=checked not in self._checked)
        self._checked.add(checked)
        held = (decoder.rotary.cos, decoder.rotary.sin, cache, self._body)
        return _Captured(graph, ids, begin, logits, hidden, held)

    def release(self) -> None:
        self.features = self.problem = self._cache = None
        self._graphs.clear()
        self._checked.clear()
        self._recorder.start_over()
        if self._length_free:
            self._length_free.release()
