"""Measures the rows of a suite into a session that can be continued after any of them.

It asks each place for one row at a time and reads what became of it. What is measured in which order is `plan`,
what is kept about it `record`; who watches is told through a `SuiteWatcher`.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from evprof.core.errors import UserError
from evprof.core.protocols import Engine
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FAILED, RowKey
from evprof.core.run_log import RunBook, RunLog
from evprof.run.places.place import Ended, OnePlace
from evprof.run.processes.interrupts import first_interrupt
from evprof.run.processes.open_runs import OpenRuns
from evprof.run.processes.runner import LocalRunner, ProcessRunner
from evprof.run.session_writer import SessionWriter
from evprof.run.suites.plan import INTERLEAVED, RowDeck, SuitePlan, SuiteRow, WarmUps
from evprof.run.suites.ready import VideoTrials
from evprof.run.suites.record import SUITE, RowOutcomes

if TYPE_CHECKING:
    from evprof.run.places.ray_places import RayPlaces

ROWS_IN_MEMORY = 100
"""Rows after which what was recorded is freed: it is in the file."""

FLUSH_S = 30.0

MOST_LOSSES = 3
"""Places that may be lost at one row before the row is taken to be the reason."""


class SuiteWatcher(Protocol):
    def begin(self, row: SuiteRow, warmup: int) -> None:
        """A row is measured next, after the warm-ups of so many rows of its turn."""

    def look(self, book: RunBook) -> None:
        """Called about twenty times a second while it is."""

    def end(self, row: SuiteRow, runs: list[RunLog]) -> None:
        """It is over, however."""

    def lose(self, row: SuiteRow, sentence: str) -> None:
        """Its place was lost on the way; it is measured again, which the sentence says."""

    def say(self, sentence: str) -> None:
        """Something a person should know."""

    def stopping(self) -> None:
        """A stop was heard."""


@dataclass
class SuiteEnd:
    measured: int = 0
    failed: int = 0
    is_stopped: bool = False


@dataclass
class Seat:
    """What is known of a place: the row it is at, and the warm-ups that come first."""

    warm_ups: WarmUps
    process: int = 0
    row: SuiteRow | None = None
    warming: deque[tuple[SuiteRow, int]] = field(default_factory=deque)
    """Rows of the turn with the warm-ups that they need, as far as these have not ended."""

    def take(self, rows: Sequence[SuiteRow]) -> None:
        """Takes the first of these rows, which follow each other in a turn."""
        self.row = rows[0]
        self.warming = deque((row, count) for row in rows if (count := self.warm_ups.before(row)))


class SuiteDriver:
    """Measures what is left of a plan. One call of `run` per driver."""

    def __init__(
        self,
        plan: SuitePlan,
        path: Path,
        make_engine: Callable[[], Engine],
        watcher: SuiteWatcher,
        *,
        progress: RowOutcomes | None = None,
        retry_failed: bool = False,
        rows_in_memory: int = ROWS_IN_MEMORY,
        processes: Sequence[str] = (),
        timeout_s: float | None = None,
        trials: VideoTrials | None = None,
        places: OnePlace | RayPlaces | None = None,
    ) -> None:
        """`progress` knows what the session at `path` holds already; `processes` is the argument list of an engine
        process, for a plan that wants several or a `timeout_s`, after which a row without progress is given up;
        `trials` try videos before rows read them. `places`: those of others; they are closed with the driver. Raises
        UserError when the session cannot be written.
        """
        self._plan = plan
        self._path = path
        self._watcher = watcher
        self._trials = trials
        self._progress = progress or RowOutcomes()
        self._retry_failed = retry_failed
        self._rows_in_memory = rows_in_memory
        self._seats: dict[int, Seat] = {}
        self._losses: dict[tuple[RowKey, ...], int] = {}
        self._stop = threading.Event()
        self._end = SuiteEnd()
        self._book_of(RecordLog())
        self._deck = RowDeck((), plan.order)
        self._places: OnePlace | RayPlaces = places or self._one_place(make_engine, processes, timeout_s)

    def _one_place(
        self, make_engine: Callable[[], Engine], processes: Sequence[str], timeout_s: float | None
    ) -> OnePlace:
        runner: LocalRunner | ProcessRunner
        if self._plan.spec.processes > 1 or timeout_s is not None:
            runner = ProcessRunner(processes, self._recording, timeout_s=timeout_s)
        else:
            runner = LocalRunner(make_engine, self._recording)
        return OnePlace(runner, self._stop, self._plan.spec.cooldown_s)

    def _cold_start(self) -> WarmUps:
        return WarmUps(self._plan.spec.warmup, stays_loaded=self._plan.order == INTERLEAVED)

    def left(self) -> list[SuiteRow]:
        return [row for row in self._plan.rows if not self._progress.is_done(row, retry_failed=self._retry_failed)]

    def note(self, key: str, value: Any) -> None:
        self._writer.note(key, value)

    def run(self, fact: dict[str, Any]) -> SuiteEnd:
        """Measures all that is left; `fact` is the "suite" fact.

        Raises UserError when the engine cannot be made or the session cannot be written, KeyboardInterrupt at a second
        Ctrl-C. Whatever happens, what was measured is in the session.
        """
        self._deck = RowDeck(self.left(), self._plan.order)
        self.note(SUITE, fact)
        is_broken_off = False
        try:
            with first_interrupt(self._stop.set):
                while self._hand_out():
                    ended = self._places.next_ended(self._look)
                    if ended is not None:
                        self._finish(ended)
        except KeyboardInterrupt:
            is_broken_off = True
            raise
        finally:
            self._places.close(is_broken_off=is_broken_off)
            self._close()
        return self._end

    def _close(self) -> None:
        """Closes the session. Raises UserError when something could not be written, unless another error is on its
        way, which then says it."""
        is_failing = sys.exc_info()[0] is not None
        try:
            self._writer.close()
        except UserError:
            if not is_failing:
                raise

    def _book_of(self, recording: RecordLog) -> None:
        self._recording = recording
        self._book = RunBook(recording)
        self._writer = SessionWriter(recording, self._path)
        self._next_run_id = self._writer.next_run_id
        self._next_group_id = self._writer.next_group_id

    def _keep_short(self) -> None:
        """A new Recording every so many rows: memory must not grow with their number."""
        if self._end.measured % self._rows_in_memory == 0:
            self._writer.close()
            self._book_of(RecordLog())
            self._places.record_into(self._recording)

    def _hand_out(self) -> bool:
        is_left = bool(self._deck) and not self._end.is_stopped
        if is_left and self._stop.is_set():
            self._note_stop()
            is_left = False
        for place in self._places.free() if is_left else ():
            row = self._deck.next_for(place, self._places.machine(place))
            if row is not None:
                self._begin(place, row)
        is_left = is_left and bool(self._deck)
        return is_left or any(seat.row is not None for seat in self._seats.values())

    def _begin(self, place: int, row: SuiteRow) -> None:
        seat = self._seats.setdefault(place, Seat(self._cold_start()))
        is_fresh = row.process != seat.process
        if is_fresh:
            self._enter_process(seat, row)
        if self._trials is not None:
            self._trials.try_video(row.sample)
        seat.take([row, *self._deck.ahead(place)])
        self._watcher.begin(row, len(seat.warming))
        self._go_on(place, seat, row, is_fresh=is_fresh)

    def _go_on(self, place: int, seat: Seat, row: SuiteRow, *, is_fresh: bool = False) -> None:
        """Begins the next warm-up, or the row."""
        request = self._request(*seat.warming[0]) if seat.warming else self._request(row, 0)
        self._places.begin(place, request, is_fresh=is_fresh)

    def _enter_process(self, seat: Seat, row: SuiteRow) -> None:
        if all(row.process > other.process for other in self._seats.values()):
            self._watcher.say(f"process {row.process + 1} of {self._plan.spec.processes}")
        seat.process = row.process
        seat.warm_ups = self._cold_start()

    def _request(self, row: SuiteRow, warmup: int) -> RunRequest:
        request = replace(row.request(warmup), first_run_id=self._next_run_id, group_id=self._group_of(row))
        return replace(request, repeat=0) if warmup else request

    def _group_of(self, row: SuiteRow) -> int:
        return self._progress.group_of(row) or self._next_group_id

    def _look(self) -> None:
        self._book.update()
        self._watcher.look(self._book)
        if self._stop.is_set() and not self._places.is_stopping:
            self._places.stop()
        if self._places.is_stopping:
            self._watcher.stopping()

    def _note_stop(self) -> None:
        self._watcher.stopping()
        self._end.is_stopped = True

    def _finish(self, ended: Ended) -> None:
        seat = self._seats[ended.place]
        row, seat.row = seat.row, None
        if row is None:
            raise RuntimeError("a place ended what it was not given")
        if not ended.is_begun:
            self._note_stop()
            return
        if ended.is_cold:
            seat.warm_ups = self._cold_start()
        if ended.lost is not None and self._is_given_back(ended, row):
            return
        runs = self._take_in(ended, row)
        if seat.warming and ended.lost is None and self._places.lost is None:
            seat.warming.popleft()
            if not self._end.is_stopped:
                seat.row = row
                self._go_on(ended.place, seat, row)
            return
        self._end.measured += 1
        self._end.failed += any(run.info.status == FAILED for run in runs)
        self._progress.note(run.info for run in runs)
        self._watcher.end(row, runs)
        # Nothing is written while the next row is measured here, and this one is safe.
        self._save(row)
        if self._places.lost is not None:
            raise UserError(
                f"The suite stopped at {row.cell.label}: {self._places.lost} Go on with --resume; that row is measured "
                "again."
            )
        self._keep_short()

    def _take_in(self, ended: Ended, row: SuiteRow) -> list[RunLog]:
        first, group_id = self._next_run_id, self._group_of(row)
        if ended.lost is not None:
            self._record_loss(row, ended.lost)
        elif ended.arrival is not None:
            ended.arrival.put_into(self._recording, first, group_id)
        self._book.update()
        made = [run for run_id, run in self._book.runs.items() if run_id >= first]
        self._next_run_id = max([first - 1, *(run.run_id for run in made)]) + 1
        self._next_group_id = max(self._next_group_id, group_id + 1)
        if self._places.is_stopping or any(run.info.status == CANCELLED for run in made):
            self._end.is_stopped = True
        return [run for run in made if not run.info.warmup]

    def _is_given_back(self, ended: Ended, row: SuiteRow) -> bool:
        """Whether a row that was lost is to be tried at another place: it may be what ends whoever tries it."""
        if self._stop.is_set():
            self._note_stop()
            return True
        self._losses[row.keys] = self._losses.get(row.keys, 0) + 1
        if self._losses[row.keys] >= MOST_LOSSES:
            return False
        machine = self._places.machine(ended.place)
        is_gone = ended.place not in self._places.free()
        self._deck.give_back(ended.place, row, machine_is_gone=machine if is_gone else "")
        named = f"{row.cell.label} · {row.sample.name} · {row.repeat + 1}"
        self._watcher.lose(row, f"{named} is measured again, as on {machine or 'this machine'}: {ended.lost}")
        return True

    def _record_loss(self, row: SuiteRow, reason: str) -> None:
        """Of a row that everybody lost there is a run all the same, which says why."""
        lost = OpenRuns()
        lost.begin(self._request(row, 0))
        for message in lost.close(FAILED, f"Lost {MOST_LOSSES} times: {reason}"):
            self._recording.post(message)

    def _save(self, row: SuiteRow) -> None:
        """Raises UserError when a row that was measured cannot be saved: what follows could not be, either."""
        was_heard = self._writer.flush(FLUSH_S)
        reason = self._writer.refusal if was_heard else f"{self._path} took longer than {FLUSH_S:.0f} s to write to."
        if reason:
            raise UserError(
                f"The suite stopped, because a row could not be saved ({row.cell.label}): {reason} What was measured "
                "before it is kept; free some space, and go on with --resume."
            )
