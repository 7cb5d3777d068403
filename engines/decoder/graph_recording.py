"""CUDA graphs of one model's passes: recorded on one stream of the model's own, in one pool of memory.

All of `torch.cuda` that recording needs is reached through `cuda`, so that a test can put something else there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

import torch

from engines.decoder.llama import LlamaDecoder

cuda: Any = torch.cuda

_STREAMS_A_DEVICE = 32
"""Streams that torch hands out in turn, before it hands out the first again."""

_PRIORITY = -1
"""A graph's kernels keep the priority of the stream they were recorded on. A step is short, prefill beside it long."""

_streams: WeakKeyDictionary[LlamaDecoder, Any] = WeakKeyDictionary()


class GraphRecorder:
    """Records graphs of one decoder. Those it recorded share a pool, until `start_over`."""

    def __init__(self, decoder: LlamaDecoder) -> None:
        self._decoder = decoder
        self._pool: Any = None

    def record(self, body: Callable[[], Any], *, warm_ups: int = 2, is_kept: bool = True, checks: bool = False) -> Any:
        """A graph of `body` and what it returned, after some calls in which libraries load and kernels are chosen.

        With `checks` one of them raises RuntimeError where `body` waits for the device, because a recording that fails
        does harm; for that moment no other thread may wait either. One that is not kept lies outside the pool.
        """
        device, stream, graph = self._decoder.device, capture_stream(self._decoder), cuda.CUDAGraph()
        pool = (self._pool if is_kept else None) or cuda.graph_pool_handle()
        if is_kept:
            self._pool = pool
        with cuda.device(device):
            before = cuda.current_stream(device)
            stream.wait_stream(before)
            try:
                # Around the recording too: torch's own way back to the stream before is left out when one fails.
                with cuda.stream(stream):
                    for _ in range(warm_ups):
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

    def replay_ms(self, graph: Any) -> float:
        """How long the device takes for a graph's second replay. Waits for it."""
        with cuda.device(self._decoder.device):
            first, last = (cuda.Event(enable_timing=True) for _ in range(2))
            graph.replay()
            first.record()
            graph.replay()
            last.record()
            last.synchronize()
            return float(first.elapsed_time(last))

    def start_over(self) -> None:
        """The next recording gets a new pool: torch refuses one whose graphs are all gone while a tensor of it lives.

        What the old one holds goes back with its last graph and tensor.
        """
        self._pool = None

    def _clean_up(self, pool: Any) -> None:
        """After a recording that failed: before 2.12, torch counts it as under way for good, and frees nothing then."""
        with suppress(RuntimeError, AttributeError):
            cuda.memory._cuda_endAllocateToPool(self._decoder.device.index or 0, pool)
        self.start_over()
        cuda.empty_cache()


def capture_stream(decoder: LlamaDecoder) -> Any:
    """The one stream that a decoder's graphs are recorded on, and no other decoder's.

    A stream brings cuBLAS's workspace (32 MiB on sm90), which graphs keep using wherever they are replayed: one stream
    for each graph adds up, and one for two models that run at once lets them overwrite each other's numbers.
    """
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
