"""Two threads of one run: what both share or own, and the thread in which a draft runs while its target prefills.

They share the sink. Each has its own clock, stop flag, CPU threads and CUDA stream. One draft thread serves all runs
of an engine: a new thread for each run brings an OpenMP pool and a memory arena, and grew a process by 0.8 MB a run.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any

import torch

from engines.decoder.decoding import make_reader
from engines.drafters.drafter import Drafted
from engines.drafters.model_drafter import ModelDrafter
from engines.hardware.device import split_threads
from engines.measuring.device_timer import make_timers
from engines.measuring.timing import StageClock
from engines.tokens.answer import Answer
from evprof.core.errors import Cancelled
from evprof.core.protocols import Message, Sink, StopFlag
from evprof.core.records import DRAFT, Record

THREADS, STREAMS, DEVICES = "threads", "streams", "devices"
"""Both on the CPU, each with threads of its own; both on one GPU, each with a stream of its own; apart."""


def make_draft_worker() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="evprof-draft")


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


@dataclass(frozen=True, eq=False)
class FreeDrafts:
    """What was drafted: `chosen` on the draft's device, `ids` on the host, in how much time from `start_ns` on."""

    chosen: tuple[Drafted, ...] = ()
    ids: tuple[int, ...] = ()
    start_ns: int = 0
    spent_ns: int = 0

    @property
    def firsts(self) -> dict[int, int]:
        """The tokens that may begin the answer, with their numbers."""
        above = (place - 1 if one.parent is None else one.parent for place, one in enumerate(self.chosen))
        pairs = zip(self.ids, above, strict=True)
        return {token: place for place, (token, parent) in enumerate(pairs) if parent < 0}

    @property
    def size(self) -> int:
        return len(self.ids)


@dataclass(eq=False)
class DraftThread:
    """Runs `prepare`, which prefills the draft and returns the logits [1, V] after its prompt, then drafts until `most`
    tokens, one of `eos_ids` (chains only), `close` or `stop`. A failure releases `beside`. `worker` has one thread."""

    prepare: Callable[[], torch.Tensor]
    drafter: ModelDrafter
    _: KW_ONLY
    most: int
    eos_ids: frozenset[int]
    clock: StageClock
    stop: LinkedStop
    beside: LinkedStop
    side: AbstractContextManager[None]
    answer: Answer
    worker: ThreadPoolExecutor
    is_tree: bool = False

    def __post_init__(self) -> None:
        self._begun, self._prefilled = threading.Event(), threading.Event()
        # Guards what was drafted.
        self._lock = threading.Lock()
        self._chosen: list[Drafted] = []
        self._ids: list[int] = []
        self._start_ns = self._last_ns = 0
        self._is_closed = False
        self._error: BaseException | None = None
        self._done: Future[None] | None = None

    def start(self) -> None:
        """Takes the thread, which then waits for `begin`: before the run's zero."""
        self._done = self.worker.submit(self._run)

    def begin(self) -> None:
        self._begun.set()

    @property
    def is_over(self) -> bool:
        return self._done is not None and self._done.done()

    def close(self) -> FreeDrafts:
        """Ends drafting at once and gives what is there. Raises what the thread failed with."""
        with self._lock:
            self._is_closed = True
            if self._error is not None:
                raise self._error
            spent_ns = self._last_ns - self._start_ns if self._ids else 0
            return FreeDrafts(tuple(self._chosen), tuple(self._ids), self._start_ns, spent_ns)

    def complete(self) -> FreeDrafts:
        """Waits until drafting has ended by itself. Raises what the thread failed with, or Cancelled."""
        self._wait()
        return self.close()

    def wait_until_prefilled(self) -> None:
        """Waits for the end of the draft's own prefill. Raises what the thread failed with, or Cancelled."""
        self._prefilled.wait()
        if self._error is not None:
            raise self._error

    def join(self) -> None:
        """Waits for the step under way. Raises what the thread failed with, or Cancelled."""
        with self._lock:
            self._is_closed = True
        self._begun.set()
        self.complete()

    def release(self) -> None:
        """Ends the work between two layers or tokens. Does not wait."""
        self.stop.release()
        self._begun.set()

    def abandon(self) -> None:
        """Ends this work, between two layers if need be, and waits for it. Raises nothing; again has no effect."""
        self.release()
        self._wait()

    def _wait(self) -> None:
        if self._done is not None:
            wait([self._done])

    @property
    def failure(self) -> BaseException | None:
        return None if isinstance(self._error, Cancelled) else self._error

    # From here on the draft's thread.

    def _run(self) -> None:
        try:
            self._begun.wait()
            if self.stop.is_set():
                raise Cancelled
            with self.side:
                logits = self.prepare()
                self._prefilled.set()
                if self.most and not self._is_closed:
                    self._draft(logits)
        except BaseException as problem:  # noqa: BLE001 - raised again by the thread that waits for this one
            self._error = problem
            if self.failure is not None:
                self.beside.release()
        finally:
            self._prefilled.set()

    def _draft(self, logits: torch.Tensor) -> None:
        """Token after token. On a GPU one step is under way while the one before it is read, never more."""
        device, reader = self.drafter.device, make_reader(self.drafter.device)
        waiting: deque[Drafted] = deque()
        source = self.drafter.grown(logits) if self.is_tree else self.drafter.drafted(logits)
        with self.clock.stage("decode", DRAFT, device) as span:
            self._start_ns = span.start_ns
            try:
                for count, one in enumerate(source, 1):
                    waiting.append(one)
                    self._take(reader.push(one.token), waiting)
                    self.clock.settle()
                    self.drafter.note_length(self.answer)
                    if self.stop.is_set():
                        raise Cancelled
                    if count == self.most or self._is_closed or self._has_ended:
                        break
                self._take(reader.flush(), waiting)
            finally:
                span.output("token ids", self._ids)

    @property
    def _has_ended(self) -> bool:
        return not self.is_tree and bool(self._ids) and self._ids[-1] in self.eos_ids

    def _take(self, ids: list[int], waiting: deque[Drafted]) -> None:
        with self._lock:
            if self._is_closed or self._has_ended:
                return
            for token_id in ids:
                self._ids.append(token_id)
                self._chosen.append(waiting.popleft())
                self._last_ns = self.clock.now()
