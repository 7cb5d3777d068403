"""The one timer between the recording and the views: each tick takes in all new rows and updates the views.

It owns no view. A slow window ticks less often and loses no row.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from PySide6.QtCore import QElapsedTimer, QObject, Qt, QTimer, Signal

from evprof.core.errors import UserError
from evprof.core.protocols import RunDescribed, RunEnded, RunStarted, monotonic_ns
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunBook, RunLog
from evprof.session.facts import LONGEST_NOTE, MOST_MARKS, Mark, marks_of
from evprof.view.columns import pair_for
from ui.state.selection import Selection, TimeRange


class MarkBook(QObject):
    """Marks in order of run and time.

    Signals:
        changed(): there are other marks than before, for whatever reason.
        edited(object): a person changed them; plain values for the session's facts.
        deleted(object): a Mark was deleted; `add` undoes it.
        refused(str): why a mark was not set, in a sentence.
    """

    changed = Signal()
    edited = Signal(object)
    deleted = Signal(object)
    refused = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.marks: list[Mark] = []

    def read(self, facts: Mapping[str, Any]) -> None:
        self.marks = marks_of(facts)
        self.changed.emit()

    def add(self, mark: Mark) -> None:
        """Sets a mark; one that is there already is not set twice."""
        if any(_place(mark) == _place(other) for other in self.marks):
            return
        if len(self.marks) >= MOST_MARKS:
            self.refused.emit(f"A session keeps {MOST_MARKS} marks; delete one first.")
            return
        self._put([*self.marks, mark])

    def delete(self, mark: Mark) -> None:
        if mark in self.marks:
            self._put([other for other in self.marks if other != mark])
            self.deleted.emit(mark)

    def write_note(self, mark: Mark, note: str) -> None:
        """Writes on a mark, in place of what stood there."""
        noted = replace(mark, note=" ".join(note.split())[:LONGEST_NOTE])
        if mark in self.marks and noted != mark:
            self._put([noted if other == mark else other for other in self.marks])

    def of_runs(self, run_ids: set[int]) -> list[Mark]:
        return [mark for mark in self.marks if mark.run_id in run_ids]

    def _put(self, marks: list[Mark]) -> None:
        self.marks = sorted(marks, key=_place)
        self.changed.emit()
        self.edited.emit([mark.to_json() for mark in self.marks])


def _place(mark: Mark) -> tuple[int, int, int]:
    return mark.run_id, mark.start_ns, mark.end_ns


def go_to(mark: Mark, runs: Mapping[int, RunLog], selection: Selection) -> None:
    """Shows a mark, and its run if need be; a stretch is selected. None of a run that was deleted."""
    if mark.run_id not in runs:
        return
    if mark.run_id not in selection.runs:
        selection.set_runs(*pair_for(runs, mark.run_id))
    a, b = selection.runs
    shift = selection.offset_ns if mark.run_id == b != a else 0
    when = TimeRange(mark.start_ns + shift, mark.end_ns + shift)
    view = selection.view_range
    if when.end_ns > when.start_ns:
        selection.select(when)
    elif view is not None and not view.start_ns <= when.start_ns <= view.end_ns:
        half = (view.end_ns - view.start_ns) // 2
        selection.set_view_range((when.start_ns - half, when.start_ns + half))


TICK_MS, FEW_CORES_TICK_MS, FEW_CORES = 33, 66, 4
"""Time between two ticks; on machines with fewer cores than `FEW_CORES` the engine needs them."""

FIGURES_MS = 250
"""Least time between two updates of figures while runs go on."""


class Host(Protocol):
    """What carries requests out, such as `evprof.run.processes.engine_host.EngineHost`."""

    @property
    def is_busy(self) -> bool:
        """Whether a request is being carried out."""

    def submit(self, request: RunRequest) -> None:
        """Takes a request; rows and messages appear in the recording."""

    def stop(self) -> None:
        """Asks the running request to end."""

    def attach(self, recording: RecordLog) -> None:
        """From now on fills another recording."""

    def close(self) -> None:
        """Ends the engine."""


Numbering = Callable[[RunRequest, int, int], RunRequest]
"""Gives a request its numbers; takes the first free run id and group id that the window knows of."""


@dataclass(frozen=True)
class WaitingRun:
    """A request in the queue; those of one `batch` were asked for together, and go only as long as none fails."""

    batch: int
    request: RunRequest


class RunController(QObject):
    """The runs of the window's session, the queue of requests, and the one way to start and stop runs.

    `keeping` is called before a run is described that may be in a file: that file is written again.
    `facts` are the facts of the session beside its runs, such as the ceilings of a suite.

    Signals:
        runs_changed(object): set of ids of runs that have news; at most once a tick.
        message(object): every lifecycle message (evprof.core.protocols), in order, after its rows are in the book.
        busy_changed(bool): a request began or ended.
        held_changed(bool): something else begins or ends that needs the machine for itself.
        figures_due(object): set of ids of runs with news since the last time; at most every `FIGURES_MS`, and at once
            when a run begins or ends.
        ticked(): the end of a tick, with news or without.
        session_replaced(): another recording took the place of the old one; forget every run.
        waiting_changed(): a request was put into the queue or left it.
        refused(str): why a request cannot be carried out; those of its batch are dropped.
    """

    runs_changed = Signal(object)
    message = Signal(object)
    busy_changed = Signal(bool)
    held_changed = Signal(bool)
    figures_due = Signal(object)
    ticked = Signal()
    session_replaced = Signal()
    waiting_changed = Signal()
    refused = Signal(str)

    def __init__(self, recording: RecordLog, host: Host | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._host = host
        self._is_busy = False
        self._is_held = False
        self.at_work: RunRequest | None = None
        """The request that is being carried out, where it was handed over here."""

        self._groups: dict[tuple[str, int], int] = {}
        """Group ids of the series of turns that are measured, by series and number of the request in it."""

        self._waiting: list[WaitingRun] = []
        self._batch = 0
        self._last_batch = 0
        self.numbering: Numbering = _numbered
        self.keeping: Callable[[], None] = lambda: None
        self.facts: Callable[[], Mapping[str, Any]] = dict
        self.recording = recording
        self.book = RunBook(recording)
        self.marks = MarkBook(self)
        """What people marked on the time axis of these runs."""

        self._moment_ns = monotonic_ns()
        self._stale: set[int] = set()
        """Runs whose news the figures do not show yet."""

        self._figures_age = QElapsedTimer()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(TICK_MS if _core_count() >= FEW_CORES else FEW_CORES_TICK_MS)
        self._timer.timeout.connect(self._tick)

    @property
    def runs(self) -> Mapping[int, RunLog]:
        return self.book.runs

    def run(self, run_id: int | None) -> RunLog | None:
        """The run of that id, or None."""
        return None if run_id is None else self.book.runs.get(run_id)

    @property
    def is_busy(self) -> bool:
        """Whether a request is being carried out, as of the last pull."""
        return self._is_busy

    @property
    def has_host(self) -> bool:
        return self._host is not None

    @property
    def next_run_id(self) -> int:
        return self.book.last_run_id + 1

    @property
    def next_group_id(self) -> int:
        return self.book.last_group_id + 1

    def moment(self) -> int:
        """When the last tick began, in ns of the engine's clock: every view draws a running stage up to there."""
        return self._moment_ns

    def start(self) -> None:
        self._timer.start()

    def attach_host(self, host: Host) -> None:
        self._host = host
        _let_engine_run_first()

    def replace_recording(self, recording: RecordLog) -> None:
        """Shows another session: everything known of the old one is forgotten. Raises UserError while a run goes on."""
        if self._host is not None:
            self._host.attach(recording)
        self._keep_waiting([])
        self._groups.clear()
        self.recording = recording
        self.book = RunBook(recording)
        self.session_replaced.emit()
        self.pull()

    def pull(self) -> None:
        """Takes in all new rows now and updates the views and all figures."""
        self._figures_age.invalidate()
        self._tick()

    def _tick(self) -> None:
        self._moment_ns = monotonic_ns()
        # Read first: an engine that rests now has posted all its runs, and the update below sees every one of them.
        is_busy = self._host is not None and self._host.is_busy
        messages, changed = self.book.update()
        if changed:
            self._stale |= changed
            self.runs_changed.emit(changed)
        for message in messages:
            if isinstance(message, RunEnded) and message.status != FINISHED:
                self._drop_batch()
            if isinstance(message, RunStarted | RunEnded):
                self._figures_age.invalidate()
            self.message.emit(message)
        self._note_busy(is_busy)
        self._begin_next()
        if self._stale and (not self._figures_age.isValid() or self._figures_age.hasExpired(FIGURES_MS)):
            self._figures_age.start()
            stale, self._stale = self._stale, set()
            self.figures_due.emit(stale)
        self.ticked.emit()

    def describe(self, facts: Mapping[int, Mapping[str, Any]]) -> None:
        """Says more of runs by their numbers (fields of RunInfo); it is kept with the session and seen at once."""
        self.keeping()  # first: what is said before the file is written again counts as in it
        for run_id, known in facts.items():
            self.recording.post(RunDescribed(run_id, dict(known)))
        self.pull()

    def submit(self, *requests: RunRequest) -> None:
        """Puts requests into the queue: they begin, one after another, when everything before them has ended.

        When one of them does not finish, the others of this call are dropped. Raises UserError when a request cannot be
        carried out.
        """
        for request in requests:
            request.validate()
        if self._host is None:
            raise UserError("The engine is still starting; try again in a moment.")
        self._last_batch += 1
        self._keep_waiting([*self._waiting, *(WaitingRun(self._last_batch, request) for request in requests)])
        self._begin_next()

    @property
    def waiting(self) -> Sequence[WaitingRun]:
        """The queue, the next one first."""
        return tuple(self._waiting)

    def remove_waiting(self, waiting: WaitingRun) -> None:
        """Takes a request out of the queue; none that is no longer in it."""
        self._keep_waiting([other for other in self._waiting if other is not waiting])

    def put_first(self, waiting: WaitingRun) -> None:
        """Makes a request the next one."""
        self._keep_waiting(sorted(self._waiting, key=lambda other: other is not waiting))

    def hold(self, is_held: bool) -> None:
        """While it is held nothing begins: something else needs the machine for itself."""
        is_other = is_held != self._is_held
        self._is_held = is_held
        if is_other:
            self.held_changed.emit(is_held)
        self._begin_next()

    def _keep_waiting(self, waiting: list[WaitingRun]) -> None:
        if waiting != self._waiting:
            self._waiting = waiting
            self.waiting_changed.emit()

    def _drop_batch(self) -> None:
        self._keep_waiting([other for other in self._waiting if other.batch != self._batch])

    def _begin_next(self) -> None:
        is_free = self._host is not None and not (self._is_held or self._is_busy or self._host.is_busy)
        if not self._waiting or not is_free:
            return
        first, *rest = self._waiting
        self._batch = first.batch
        self._keep_waiting(rest)
        self._hand_over(first.request)

    def _hand_over(self, request: RunRequest) -> None:
        if self._host is None:
            return
        free = max([self.next_group_id, *(group_id + 1 for group_id in self._groups.values())])
        try:
            numbered = self.numbering(request, self.next_run_id, free)
        except UserError as error:
            self._drop_batch()
            self.refused.emit(error.sentence)
            return
        if request.turn is not None:  # the runs of a configuration share the number, like those of one request
            key = request.turn.series, request.group_id
            numbered = replace(numbered, group_id=self._groups.setdefault(key, numbered.group_id))
        self.at_work = request
        self._host.submit(numbered)
        self._note_busy(self._host.is_busy)

    def stop(self) -> None:
        """Asks the running request to end; its runs become "cancelled". Those asked for with it are dropped."""
        if self._is_busy:
            self._drop_batch()
        if self._host is not None:
            self._host.stop()

    def close(self) -> None:
        self._timer.stop()
        if self._host is not None:
            self._host.close()
            self._host = None

    def _note_busy(self, is_busy: bool) -> None:
        if is_busy != self._is_busy:
            self._is_busy = is_busy
            if not is_busy:
                self.at_work = None
            self.busy_changed.emit(is_busy)


NICENESS = 10
"""Priority of the window's thread: a lower one than that of the engine's threads, which have 0."""


def _let_engine_run_first() -> None:
    """Lower the priority of this thread on Linux. Threads and processes of the host exist already and keep theirs."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def _core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _numbered(request: RunRequest, run_id: int, group_id: int) -> RunRequest:
    return replace(request, first_run_id=run_id, group_id=group_id)
