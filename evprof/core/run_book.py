"""All runs of a Recording by number, built up as it grows: the starting point of the window, metrics and exports."""

from __future__ import annotations

from evprof.core.protocols import Message, RunStarted, apply_to_info
from evprof.core.recording import RecordLog
from evprof.core.rows.blocks import RowBlock, blocks_by_run
from evprof.core.run_log import RunLog


class RunBook:
    """All runs of a Recording, kept up to date by `update`. Owned by one reader: not shared between threads.

    `runs` are those that are not deleted, in order of start.
    """

    def __init__(self, recording: RecordLog) -> None:
        self.recording = recording
        self.runs: dict[int, RunLog] = {}
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
        source = self.recording.source
        is_stored = source is not None and message.run_id in source
        # A copy: the log's info changes with every message, the message must not.
        run = self._all[message.run_id] = RunLog(message.info.copied(), source if is_stored else None)
        if not run.info.is_deleted:
            self.runs[message.run_id] = run
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
        if run is None or not apply_to_info(message, run.info):
            return
        run.version += 1
        changed.add(run.run_id)
        if run.info.is_deleted == (run.run_id in self.runs):
            shown = {run_id: run for run_id, run in self._all.items() if not run.info.is_deleted}
            self.runs.clear()
            self.runs.update(shown)

    @property
    def deleted(self) -> dict[int, RunLog]:
        return {run_id: self._all[run_id] for run_id in sorted(self._all) if self._all[run_id].info.is_deleted}

    @property
    def last_run_id(self) -> int:
        return max(self._all, default=0)

    @property
    def last_group_id(self) -> int:
        return max((run.info.group_id for run in self._all.values()), default=0)
