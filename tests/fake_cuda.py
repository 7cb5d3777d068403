"""What recording graphs needs of `torch.cuda`, on a CPU: pools with their use counts, streams, waits, and graphs that
do again what was done between their beginning and end."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


class FakeStream:
    """A stream, of which only its identity matters; `waited` are those it waited for."""

    def __init__(self, *_: Any, **options: Any) -> None:
        self.options = options
        self.waited: list[FakeStream] = []

    def wait_stream(self, other: FakeStream) -> None:
        self.waited.append(other)


class FakeGraph:
    """Operations with what they were given and gave."""

    def __init__(self, owner: FakeCuda) -> None:
        self.done: list[tuple[Any, Any, Any, Any]] = []
        self.replays = 0
        owner.graphs.add(self)

    def replay(self) -> None:
        self.replays += 1
        for function, given, named, made in self.done:
            again = function(*given, **named)
            for old, new in zip(tensors(made), tensors(again), strict=True):
                if old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class _Recording(TorchDispatchMode):
    def __init__(self, done: list[Any], fresh: list[StorageWeakRef]) -> None:
        super().__init__()
        self._done, self._fresh = done, fresh

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        given = {tensor.untyped_storage().data_ptr() for tensor in tensors([args, kwargs])}
        for tensor in tensors(made):
            if tensor.untyped_storage().data_ptr() not in given:
                self._fresh.append(StorageWeakRef(tensor.untyped_storage()))
        self._done.append((function, args, kwargs or {}, made))
        return made


class FakePool:
    """As the allocator keeps it: refused once its graphs are gone while memory of it is held."""

    def __init__(self) -> None:
        self.use_count = 0
        self.held: list[StorageWeakRef] = []

    @property
    def is_held(self) -> bool:
        return any(not held.expired() for held in self.held)


class FakeCuda:
    """Stands where `graph_recording.cuda` stands. `fails` raises in the next recording, as a driver would."""

    def __init__(self) -> None:
        self.pools: dict[Any, FakePool] = {}
        self.handles = 0
        self.streams: list[FakeStream] = []
        self.recorded_on: list[FakeStream] = []
        self.emptied = 0
        self.fails: str | None = None
        self.mode: Any = 0
        self.modes: list[Any] = []
        self.graphs: weakref.WeakSet[FakeGraph] = weakref.WeakSet()
        self._current = FakeStream()

    def CUDAGraph(self) -> FakeGraph:
        return FakeGraph(self)

    def Stream(self, *arguments: Any, **options: Any) -> FakeStream:
        # Handed out in turn, as torch does.
        if len(self.streams) < 32:
            self.streams.append(FakeStream(*arguments, **options))
            return self.streams[-1]
        self.streams.append(self.streams.pop(0))
        return self.streams[-1]

    def Event(self, **_: Any) -> Any:
        return FakeEvent()

    def current_stream(self, *_: Any) -> FakeStream:
        return self._current

    def device(self, *_: Any) -> Any:
        return nullcontext()

    def graph_pool_handle(self) -> Any:
        self.handles += 1
        return (0, self.handles)

    def empty_cache(self) -> None:
        self.emptied += 1
        for handle in [handle for handle, pool in self.pools.items() if pool.use_count == 0 and not pool.is_held]:
            del self.pools[handle]

    def get_sync_debug_mode(self) -> Any:
        return self.mode

    def set_sync_debug_mode(self, mode: Any) -> None:
        self.mode = mode
        self.modes.append(mode)

    def wait(self) -> None:
        if self.mode == "error":
            raise RuntimeError("called a synchronizing CUDA operation")

    @contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        before, self._current = self._current, stream
        try:
            yield
        finally:
            self._current = before

    @contextmanager
    def graph(self, graph: FakeGraph, *, pool: Any, stream: FakeStream, capture_error_mode: str) -> Iterator[None]:
        self.empty_cache()
        handle = pool or self.graph_pool_handle()
        kept = self.pools.setdefault(handle, FakePool())
        if kept.use_count == 0 and kept.held:
            raise RuntimeError("it->second->use_count > 0 INTERNAL ASSERT FAILED")
        kept.use_count += 1
        weakref.finalize(graph, _count_down, kept)
        self.recorded_on.append(stream)
        # Where a recording fails, torch leaves its stream in place.
        self._current = stream
        if self.fails is not None:
            raise RuntimeError(self.fails)
        with _Recording(graph.done, kept.held):
            yield


class FakeEvent:
    """An event between which and any other no time passes."""

    def record(self, *_: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, _: FakeEvent) -> float:
        return 0.0


def _count_down(pool: FakePool) -> None:
    pool.use_count -= 1


def tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors(part)
