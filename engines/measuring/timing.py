"""The instrumented clock: every stage and part is a span with host times at once and device times when they are known.

A span is written as a begin record and an end record with host nanoseconds, and as a settled record with the device's
times on the host's clock; `finish` may write that once more, corrected. Nothing here ever waits for a device but
`finish`. It knows no model and no stage's content.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import count
from types import TracebackType
from typing import Any, Self

from engines.measuring.device_timer import DeviceTimer
from evprof.core.protocols import Clock, Sink, monotonic_ns
from evprof.core.records import BEGIN, END, SETTLED, SpanRecord, TensorRecord
from evprof.core.run_info import ClockFacts

Annotation = Callable[[str], AbstractContextManager[Any]]
"""Makes a context for a span's name, such as `torch.profiler.record_function`."""


_FAILED_IN = "evprof_failed_in"


def failed_stage(problem: BaseException) -> tuple[str, str] | None:
    found: tuple[str, str] | None = problem.__dict__.get(_FAILED_IN)
    return found


class OpenSpan:
    """One interval being measured; also the context manager that begins and ends it."""

    __slots__ = (
        "_annotation",
        "_clock",
        "_first_mark",
        "_last_mark",
        "device_ns",
        "end_ns",
        "name",
        "parent_id",
        "role",
        "span_id",
        "start_ns",
        "timer",
    )

    def __init__(self, clock: StageClock, name: str, role: str, timer: DeviceTimer | None) -> None:
        self._clock = clock
        self.name = name
        self.role = role
        self.timer = timer
        self.span_id = -1
        self.parent_id = -1
        self.start_ns = -1
        self.end_ns = -1
        self.device_ns: tuple[int, int] | None = None
        self._first_mark: Any = None
        self._last_mark: Any = None
        self._annotation: AbstractContextManager[Any] | None = None

    @property
    def duration_ns(self) -> int:
        """Length in ns: the device's once it is known, the host's before that. Only after the span ended."""
        start_ns, end_ns = self.device_ns or (self.start_ns, self.end_ns)
        return end_ns - start_ns

    def input(self, name: str, value: Any) -> None:
        self._clock.note_tensor(self.span_id, "in", name, value)

    def output(self, name: str, value: Any) -> None:
        self._clock.note_tensor(self.span_id, "out", name, value)

    def __enter__(self) -> Self:
        self._clock.open(self)
        if self._clock.annotation is not None:
            self._annotation = self._clock.annotation(self.name)
            self._annotation.__enter__()
        self._first_mark = self.timer.mark() if self.timer is not None else None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self.parent_id < 0:
            error.__dict__.setdefault(_FAILED_IN, (self.role, self.name))
        # A device that has just failed takes no more marks: what the host saw then stands.
        if self.timer is not None and kind is None:
            self._last_mark = self.timer.mark()
        if self._annotation is not None:
            self._annotation.__exit__(kind, error, trace)
        self._clock.close(self)

    def settle(self) -> bool:
        """Reads the device's times if both marks were reached. Returns whether the span is settled now."""
        timer = self.timer
        if timer is None or self._first_mark is None or self._last_mark is None:
            self.device_ns = (self.start_ns, self.end_ns)
            return True
        if not timer.is_reached(self._last_mark):
            return False
        self.device_ns = (timer.time_ns(self._first_mark), timer.time_ns(self._last_mark))
        timer.release(self._first_mark)
        timer.release(self._last_mark)
        return True

    def correct(self) -> bool:
        """Corrects a device's times by what its timer knows at the end. Returns whether they were a device's."""
        timer, known = self.timer, self.device_ns
        if timer is None or known is None or self._last_mark is None:
            return False
        self.device_ns = timer.corrected_ns(known[0]), timer.corrected_ns(known[1])
        return True


class StageClock:
    """Writes one run's spans, for one thread; others get a `branch`. `timers` maps `str(torch.device)` to its timer;
    the host times devices without one, which is exact on a CPU. `annotation` wraps every span. `ids` numbers spans."""

    def __init__(
        self,
        sink: Sink,
        run_id: int,
        *,
        timers: dict[str, DeviceTimer] | None = None,
        now: Clock = monotonic_ns,
        annotation: Annotation | None = None,
        ids: Iterator[int] | None = None,
    ) -> None:
        self.run_id = run_id
        self.now = now
        self.annotation = annotation
        self._append = sink.append
        self._timers = timers or {}
        self._open: list[OpenSpan] = []
        self._pending: deque[OpenSpan] = deque()
        # What a device timed, kept so that it can be corrected when the clocks were compared at the end.
        self._settled: list[OpenSpan] = []
        self.device_clocks: dict[str, ClockFacts] = {}
        self._branches: list[StageClock] = []
        self._is_branch = False
        # One call into C, so that two threads never get the same number.
        self.ids = count() if ids is None else ids

    def branch(self, sink: Sink, timers: dict[str, DeviceTimer] | None = None) -> StageClock:
        """A clock for another thread of the same run, with its own timers; finish it before this one, which then
        compares its devices' clocks."""
        made = self.another(sink, timers)
        made._is_branch = True
        self._branches.append(made)
        return made

    def another(self, sink: Sink, timers: dict[str, DeviceTimer] | None) -> StageClock:
        """A clock of the same kind for the same run."""
        return StageClock(sink, self.run_id, timers=timers, now=self.now, ids=self.ids)

    @property
    def is_inside(self) -> bool:
        return bool(self._open)

    def stage(self, name: str, role: str, device: Any = None) -> OpenSpan:
        """A stage of `role`; `device` is where its work runs, None for host work."""
        return OpenSpan(self, name, role, None if device is None else self._timers.get(str(device)))

    def child(self, name: str, role: str | None = None) -> OpenSpan:
        """A part of the innermost open span, on the same device and, unless named, of the same role."""
        parent = self._open[-1]
        return OpenSpan(self, name, role or parent.role, parent.timer)

    def child_on(self, name: str, role: str, device: Any) -> OpenSpan:
        """A part of the innermost open span whose work runs on a device of its own."""
        return OpenSpan(self, name, role, self._timers.get(str(device)))

    def begin_step(self, kind: str = "token") -> None:
        """Called before each token or "round" of stage decode; traces mark their steps here."""

    def end_step(self) -> None:
        self.settle()

    def settle(self) -> None:
        """Settles what the devices have finished by now, without waiting; one look where that is nothing."""
        pending = self._pending
        while pending and pending[0].settle():
            self._settled.append(pending[0])
            self._write_settled(pending.popleft())

    def finish(self) -> int:
        """Waits for every device once and settles the rest. Returns the host's ns. Then compares the clocks in
        `device_clocks`, and writes drifted spans once more, corrected."""
        for timer in self._timers.values():
            timer.synchronize()
        done_ns = self.now()
        while self._pending:
            span = self._pending.popleft()
            span.settle()
            self._settled.append(span)
            self._write_settled(span)
        if not self._is_branch:
            for clock in (self, *self._branches):
                clock.compare()
        return done_ns

    def compare(self) -> None:
        for device, timer in self._timers.items():
            self.device_clocks[device] = facts = timer.conclude()
            for span in self._settled if facts.is_corrected else ():
                if span.timer is timer and span.correct():
                    self._write_settled(span)
        self._settled.clear()

    def open(self, span: OpenSpan) -> None:
        span.span_id = next(self.ids)
        if self._open:
            span.parent_id = self._open[-1].span_id
        self._open.append(span)
        span.start_ns = self.now()
        self._append(
            SpanRecord(self.run_id, span.span_id, span.parent_id, BEGIN, span.role, span.name, span.start_ns, -1)
        )

    def close(self, span: OpenSpan) -> None:
        span.end_ns = self.now()
        self._open.pop()
        self._append(
            SpanRecord(self.run_id, span.span_id, span.parent_id, END, span.role, span.name, span.start_ns, span.end_ns)
        )
        if span.timer is None:
            span.device_ns = (span.start_ns, span.end_ns)
            self._write_settled(span)
        else:
            self._pending.append(span)

    def note_tensor(self, span_id: int, direction: str, name: str, value: Any) -> None:
        """Writes shape, dtype and bytes of a span's input or output."""
        shape, dtype, nbytes = describe_tensor(value)
        self._append(TensorRecord(self.run_id, span_id, direction, name, shape, dtype, nbytes))

    def _write_settled(self, span: OpenSpan) -> None:
        start_ns, end_ns = span.device_ns or (span.start_ns, span.end_ns)
        self._append(
            SpanRecord(self.run_id, span.span_id, span.parent_id, SETTLED, span.role, span.name, start_ns, end_ns)
        )


def describe_tensor(value: Any) -> tuple[str, str, int]:
    """Shape text, dtype and bytes of a tensor, an array, a sequence of arrays, or anything with length and bytes. Equal
    arrays count as stacked: eight frames of 224x224 are "8,224,224,3"."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return ",".join(map(str, value.shape)), str(value.dtype).removeprefix("torch."), int(value.nbytes)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        nbytes = sum(int(getattr(part, "nbytes", 8)) for part in value)
        if not value or not hasattr(value[0], "shape"):
            return str(len(value)), type(value[0]).__name__ + "64" if value else "none", nbytes
        first = value[0]
        is_even = all(part.shape == first.shape for part in value)
        shape = ",".join(map(str, (len(value), *first.shape))) if is_even else str(len(value))
        return shape, str(first.dtype).removeprefix("torch."), nbytes
    nbytes = len(value.encode()) if isinstance(value, str) else getattr(value, "nbytes", len(value))
    return str(len(value)), type(value).__name__, int(nbytes)


class NullClock(StageClock):
    """The same calls with nothing behind them: the "off" of the overhead measurement."""

    def __init__(self) -> None:
        super().__init__(_Nowhere(), 0)
        self._span = _NullSpan(self, "", "", None)

    def stage(self, name: str, role: str, device: Any = None) -> OpenSpan:
        return self._span

    def child(self, name: str, role: str | None = None) -> OpenSpan:
        return self._span

    def child_on(self, name: str, role: str, device: Any) -> OpenSpan:
        return self._span

    def end_step(self) -> None:
        """Nothing to settle."""

    def settle(self) -> None:
        """Nothing to settle."""


class _NullSpan(OpenSpan):
    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def input(self, name: str, value: Any) -> None:
        pass

    def output(self, name: str, value: Any) -> None:
        pass


class _Nowhere:
    def append(self, record: Any) -> None:
        pass

    def post(self, message: Any) -> None:
        pass
