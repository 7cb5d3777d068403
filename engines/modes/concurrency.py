"""Two threads of one run: the draft's thread, and what both threads share or own.

They share the sink. Each has its own clock, stop flag, CPU threads and CUDA stream. One draft thread serves all runs
of an engine: a new thread for each run brings an OpenMP pool and a memory arena, and grew a process by 0.8 MB a run.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import torch

from engines.hardware.device import split_threads
from engines.measuring.device_timer import make_timers
from engines.measuring.timing import StageClock
from evprof.core.protocols import Message, Sink, StopFlag
from evprof.core.records import Record

THREAD_NAME = "evprof-draft"


class DraftWorker:
    """One thread, begun on first use, that does one piece of work after the other; it ends with its owner."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: threading.Event | None = None
        # Whoever drops an engine without closing it leaves no thread behind.
        self._ends = weakref.finalize(self, self._work.put, None)

    @property
    def is_idle(self) -> bool:
        return self._last is None or self._last.is_set()

    def do(self, work: Callable[[], None]) -> threading.Event:
        """Has `work`, which raises nothing, done after all that was asked for before; the event is set when it is."""
        if self._thread is None:
            self._thread = threading.Thread(target=_work_off, args=(self._work,), name=THREAD_NAME, daemon=True)
            self._thread.start()
        done = self._last = threading.Event()

        def finished() -> None:
            try:
                work()
            finally:
                done.set()

        self._work.put(finished)
        return done

    def close(self) -> None:
        """Ends the thread after what it was given; another piece of work begins a new one."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._work.put(None)
            thread.join()


def _work_off(work: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    # Not a method: the thread must not keep its owner alive.
    while (piece := work.get()) is not None:
        piece()
        del piece  # what a run held is not kept until the next one


THREADS, STREAMS, DEVICES = "threads", "streams", "devices"
"""Both on the CPU, each with threads of its own; both on one GPU, each with a stream of its own; apart."""


class SharedSink:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._lock = threading.Lock()

    def append(self, record: Record) -> None:
        with self._lock:
            self._sink.append(record)

    def post(self, message: Message) -> None:
        with self._lock:
            self._sink.post(message)


class LinkedStop:
    def __init__(self, stop: StopFlag) -> None:
        self._stop = stop
        self.is_released = False

    def release(self) -> None:
        self.is_released = True

    def is_set(self) -> bool:
        """Whether a person or the other side asked to stop."""
        return self.is_released or self._stop.is_set()


class Concurrency:
    """How a draft computes beside its target. Made in setup: making a stream and its timer waits for the device."""

    def __init__(self, draft: torch.device, target: torch.device, pools: dict[str, list[Any]]) -> None:
        self.kind = THREADS if draft.type == target.type == "cpu" else STREAMS if draft == target else DEVICES
        self._draft = draft
        self._total = torch.get_num_threads()
        self.draft_threads: int | None = None
        self.target_threads: int | None = None
        if self.kind == THREADS:
            self.draft_threads, self.target_threads = split_threads(self._total)
        # A timer's events go back into a pool when they were read, by the thread that reads them.
        self._timers = make_timers([draft], pools)
        self._stream = _stream_of(str(draft)) if draft.type == "cuda" else None
        self._ready: torch.cuda.Event | None = None

    def branch(self, clock: StageClock, sink: Sink) -> StageClock:
        return clock.branch(sink, self._timers)

    def note_ready(self) -> None:
        """All the draft needs of other streams is queued: it waits for that, not for what is queued from now on."""
        if self._stream is not None:
            self._ready = torch.cuda.Event()
            self._ready.record(torch.cuda.current_stream(self._draft))

    @contextmanager
    def draft_side(self) -> Iterator[None]:
        """Surrounds everything the draft's thread computes: gradients, threads and streams are a thread's own."""
        if self.draft_threads is not None:
            torch.set_num_threads(self.draft_threads)
        placed = torch.cuda.device(self._draft) if self._draft.type == "cuda" else nullcontext()
        streamed = nullcontext() if self._stream is None else torch.cuda.stream(self._stream)
        with placed, streamed, torch.inference_mode():
            if self._stream is not None and self._ready is not None:
                self._stream.wait_event(self._ready)
            yield

    def enter_target(self) -> None:
        if self.target_threads is not None:
            torch.set_num_threads(self.target_threads)

    def leave_target(self) -> None:
        if self.target_threads is not None:
            torch.set_num_threads(self._total)

    def join_streams(self) -> None:
        if self._stream is not None:
            torch.cuda.current_stream(self._draft).wait_stream(self._stream)


@cache
def _stream_of(device: str) -> torch.cuda.Stream:
    """One for all runs, because the allocator keeps memory by stream. It has priority over the target's prefill."""
    return torch.cuda.Stream(device, priority=-1)


def wait_for(tensor: torch.Tensor) -> None:
    """Returns when a tensor's value is there; at once on a CPU. Other threads go on meanwhile."""
    if tensor.device.type == "cuda":
        done = torch.cuda.Event()
        done.record(torch.cuda.current_stream(tensor.device))
        done.synchronize()
