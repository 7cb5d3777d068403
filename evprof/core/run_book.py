"""All runs of a Recording by number, built up as it grows: what the window, the metrics and the exports begin with."""

from __future__ import annotations

from evprof.core.messages import Message, RunStarted, apply_to_info
from evprof.core.recording import RecordLog
from evprof.core.rows.row_block import RowBlock, blocks_by_run
from evprof.core.run_log import RunLog


class RunBook:
    """All runs of a Recording, kept up to date by `update`. One reader's own copy: not shared between threads.

    `runs` are those that are there, in order of start; `deleted` those that somebody deleted.
    """

    def __init__(self, recording: RecordLog) -> None:
        self.recording = recording
        self.runs: dict[int, RunLog] = {}
        self.deleted: dict[int, RunLog] = {}
        self._all: dict[int, RunLog] = {}
        self._cursor = recording.cursor()
        self._orphans: dict[int, list[RowBlock]] = {}

    def update(self) -> tuple[list[Message], set[int]]:
        """Reads what is new. Returns the new messages in order and the ids of runs that changed."""
        news = self._cursor.read()
        changed: set[int] = set()
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
        run = self._all[message.run_id] = RunLog(message.info.copied())
        (self.deleted if run.info.is_deleted else self.runs)[message.run_id] = run
        changed.add(message.run_id)
        for block in self._orphans.pop(message.run_id, []):
            self._absorb(message.run_id, block, changed)

    def _absorb(self, run_id: int, block: RowBlock, changed: set[int]) -> None:
        run = self._all.get(run_id)
        if run is None:
            # Rows may be read a moment before the message that starts their run.
            self._orphans.setdefault(run_id, []).append(block)
            return
        run.take(*block)
        changed.add(run_id)

    def _apply(self, message: Message, changed: set[int]) -> None:
        run = self._all.get(getattr(message, "run_id", -1))
        if run is None:
            return
        if not apply_to_info(message, run.info):
            return
        run.version += 1
        changed.add(run.run_id)
        if run.info.is_deleted == (run.run_id in self.runs):
            self._sort()

    def _sort(self) -> None:
        """Tells anew which runs are there: a run that comes back stands where it stood."""
        for known, are_deleted in ((self.runs, False), (self.deleted, True)):
            known.clear()
            known.update((run_id, run) for run_id, run in self._all.items() if run.info.is_deleted is are_deleted)

    @property
    def last_run_id(self) -> int:
        """The highest number of a run, deleted or not; 0 without any."""
        return max(self._all, default=0)

    @property
    def last_group_id(self) -> int:
        """The highest number of a request, whether its runs are there or not; 0 without any."""
        return max((run.info.group_id for run in self._all.values()), default=0)
