"""The thread in which a draft runs while its target prefills: its own stages first, then tokens until it is to end."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass

import torch

from engines.decoder.decoding import make_reader
from engines.drafters.drafter import Drafted
from engines.drafters.model_drafter import ModelDrafter
from engines.measuring.timing import StageClock
from engines.modes.concurrency import DraftWorker, LinkedStop
from engines.tokens.answer import Answer
from evprof.core.errors import Cancelled
from evprof.core.records import DRAFT


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
    tokens, one of `eos_ids` (chains only), `close` or `stop`. A failure releases `beside`. `worker` is the thread."""

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
    worker: DraftWorker
    is_tree: bool = False

    def __post_init__(self) -> None:
        self._begun = threading.Event()
        # Guards all below; the engine's thread waits on it only if it has nothing else to do.
        self._changed = threading.Condition()
        self._chosen: list[Drafted] = []
        self._ids: list[int] = []
        self._start_ns = self._last_ns = 0
        self._is_closed = self._is_prefilled = self._is_over = False
        self._error: BaseException | None = None
        self._done: threading.Event | None = None

    def start(self) -> None:
        """Takes the thread, which then waits for `begin`: before the run's zero."""
        self._done = self.worker.do(self._run)

    def begin(self) -> None:
        self._begun.set()

    @property
    def is_over(self) -> bool:
        return self._is_over

    def close(self) -> FreeDrafts:
        """Ends drafting at once and gives what is there. Raises what the thread failed with."""
        with self._changed:
            self._is_closed = True
            return self._taken()

    def complete(self) -> FreeDrafts:
        """Waits until drafting has ended by itself. Raises what the thread failed with, or Cancelled."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over)
            self._is_closed = True
            return self._taken()

    def wait_until_prefilled(self) -> None:
        """Waits for the end of the draft's own prefill. Raises what the thread failed with, or Cancelled."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_prefilled or self._is_over)
            self._taken()

    def join(self) -> None:
        """Waits for the step under way. Raises what the thread failed with, or Cancelled."""
        with self._changed:
            self._is_closed = True
        self._begun.set()
        self._wait()
        with self._changed:
            self._taken()

    def release(self) -> None:
        """Nobody needs it any more: it ends between two layers or tokens; nobody waits."""
        self.stop.release()
        self._begun.set()

    def abandon(self) -> None:
        """Ends this work, between two layers if need be, and waits for it. Raises nothing; again has no effect."""
        self.release()
        self._wait()

    def _wait(self) -> None:
        if self._done is not None:
            self._done.wait()

    @property
    def failure(self) -> BaseException | None:
        return None if isinstance(self._error, Cancelled) else self._error

    def _taken(self) -> FreeDrafts:
        if self._error is not None:
            raise self._error
        spent_ns = self._last_ns - self._start_ns if self._ids else 0
        return FreeDrafts(tuple(self._chosen), tuple(self._ids), self._start_ns, spent_ns)

    # From here on the draft's thread.

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._begun.wait()
            if self.stop.is_set():
                raise Cancelled
            with self.side:
                logits = self.prepare()
                with self._changed:
                    self._is_prefilled = True
                    self._changed.notify_all()
                if self.most and not self._is_closed:
                    self._draft(logits)
        except BaseException as problem:  # noqa: BLE001 - raised again by the thread that waits for this one
            error = problem
        with self._changed:
            self._error = error
            self._is_over = True
            self._changed.notify_all()
        if self.failure is not None:
            self.beside.release()

    def _draft(self, logits: torch.Tensor) -> None:
        """Token after token. On a GPU one step is under way while the one before it is read, never more."""
        device, reader = self.drafter.device, make_reader(self.drafter.device)
        waiting: deque[Drafted] = deque()
        with self.clock.stage("decode", DRAFT, device) as span:
            self._start_ns = span.start_ns
            try:
                for count, one in enumerate(self._source(logits), 1):
                    waiting.append(one)
                    self._take(reader.push(one.token), waiting)
                    self.clock.settle()
                    self.drafter.note_length(self.answer)
                    if count == self.most or self._ends():
                        break
                self._take(reader.flush(), waiting)
            finally:
                span.output("token ids", self._ids)

    def _source(self, logits: torch.Tensor) -> Iterator[Drafted]:
        return self.drafter.grown(logits) if self.is_tree else self.drafter.drafted(logits)

    @property
    def _has_ended(self) -> bool:
        return not self.is_tree and bool(self._ids) and self._ids[-1] in self.eos_ids

    def _take(self, ids: list[int], waiting: deque[Drafted]) -> None:
        with self._changed:
            if self._is_closed or self._has_ended:
                return
            for token_id in ids:
                self._ids.append(token_id)
                self._chosen.append(waiting.popleft())
                self._last_ns = self.clock.now()

    def _ends(self) -> bool:
        if self.stop.is_set():
            raise Cancelled
        return self._is_closed or self._has_ended
