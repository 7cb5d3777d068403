"""All runs of a Recording by number, built up as it grows: what the window, the metrics and the exports begin with."""

from __future__ import annotations

from collections.abc import Mapping

from evprof.core.messages import Message, RunStarted, apply_to_info
from evprof.core.recording import RecordLog
from evprof.core.rows.listed_runs import ListedRuns
from evprof.core.rows.row_block import RowBlock, blocks_by_run
from evprof.core.run_log import RunLog


class RunBook:
    """All runs of a Recording, kept up to date by `update`. One reader's own copy: not shared between threads.

    `runs` are those that are there, in order of start; `deleted` those that somebody deleted.
    """

    def __init__(self, recording: RecordLog) -> None:
        self.recording = recording
        stored = recording.stored
        self._stored: Mapping[int, RunLog] = {} if stored is None else stored.runs
        self._own: dict[int, RunLog] = {}
        self._hidden: set[int] = set() if stored is None else set(stored.deleted)
        self.runs: Mapping[int, RunLog] = ListedRuns(self._stored, self._own, self._hidden)
        self._is_new = True
        self._cursor = recording.cursor()
        self._orphans: dict[int, list[RowBlock]] = {}

    def update(self) -> tuple[list[Message], set[int]]:
        """Reads what is new. Returns the new messages in order and the ids of runs that changed."""
        news = self._cursor.read()
        changed: set[int] = set(self._stored) if self._is_new else set()
        self._is_new = False
        for message in news.messages:
            if isinstance(message, RunStarted):
                self._start(message, changed)
        for name, (start, stop) in news.ranges.items():
            for run_id, block in blocks_by_run(self.recording.streams[name], start, stop):
                self._absorb(run_id, block, changed)
        for message in news.messages:
            self._apply(message, changed)
        return news.messages, changed

    def _start(self, message: RunStarted, changed: set[int]) -> None:
        # A copy: the log's info changes with every message, the message must not.
        run = self._own[message.run_id] = RunLog(message.info.copied())
        if run.info.is_deleted:
            self._hidden.add(message.run_id)
        changed.add(message.run_id)
        for block in self._orphans.pop(message.run_id, []):
            self._absorb(message.run_id, block, changed)

    def _absorb(self, run_id: int, block: RowBlock, changed: set[int]) -> None:
        run = self._own.get(run_id)
        if run is None:
            # Rows may be read a moment before the message that starts their run.
            self._orphans.setdefault(run_id, []).append(block)
            return
        run.take(*block)
        changed.add(run_id)

    def _apply(self, message: Message, changed: set[int]) -> None:
        run = self._any(getattr(message, "run_id", -1))
        if run is None:
            return
        if not apply_to_info(message, run.info):
            return
        run.version += 1
        changed.add(run.run_id)
        # A run that comes back stands where it stood.
        (self._hidden.add if run.info.is_deleted else self._hidden.discard)(run.run_id)

    def _any(self, run_id: int) -> RunLog | None:
        """A run, deleted or not."""
        found = self._own.get(run_id)
        return found if found is not None or run_id not in self._stored else self._stored[run_id]

    @property
    def deleted(self) -> dict[int, RunLog]:
        """Those that somebody deleted, by number."""
        return {run_id: run for run_id in sorted(self._hidden) if (run := self._any(run_id)) is not None}

    @property
    def last_run_id(self) -> int:
        """The highest number of a run, deleted or not; 0 without any."""
        stored = self.recording.stored
        return max(self._own, default=0 if stored is None else stored.last_run_id)

    @property
    def last_group_id(self) -> int:
        """The highest number of a request, whether its runs are there or not; 0 without any."""
        stored = self.recording.stored
        return max(
            (run.info.group_id for run in self._own.values()), default=0 if stored is None else stored.last_group_id
        )
