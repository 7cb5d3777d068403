"""The runs of a session that was read, built one at a time: thousands of them never stand in memory together."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

from evprof.core.messages import Message, RunStarted, apply_to_info
from evprof.core.recording import RecordLog, Stream
from evprof.core.rows.row_block import RowBlock, blocks_by_run
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog

if TYPE_CHECKING:
    from evprof.export.report.data import Source


class StoredRuns(Sequence[RunLog]):
    """Runs of a complete recording in order of their numbers, without those that somebody deleted; each is put together
    anew whenever it is asked for."""

    def __init__(self, recording: RecordLog) -> None:
        self.infos = _infos(recording)
        """What is known of each run apart from its rows."""
        self._blocks = [_blocks(stream) for stream in recording.streams.values()]

    def __len__(self) -> int:
        return len(self.infos)

    @overload
    def __getitem__(self, place: int) -> RunLog: ...
    @overload
    def __getitem__(self, place: slice) -> list[RunLog]: ...
    def __getitem__(self, place: int | slice) -> RunLog | list[RunLog]:
        if isinstance(place, slice):
            return [self._run(info) for info in self.infos[place]]
        return self._run(self.infos[place])

    def __iter__(self) -> Iterator[RunLog]:
        return map(self._run, self.infos)

    def keep(self, infos: Collection[RunInfo]) -> None:
        """Leaves only the runs of these infos."""
        numbers = {info.run_id for info in infos}
        self.infos = [info for info in self.infos if info.run_id in numbers]

    def _run(self, info: RunInfo) -> RunLog:
        run = RunLog(info)
        for blocks in self._blocks:
            for block in blocks.get(info.run_id, ()):
                run.take(*block)
        return run


class SummarizedRuns(StoredRuns):
    """The same of runs that are read from their file when they are asked for."""

    def __init__(self, runs: Mapping[int, RunLog]) -> None:
        super().__init__(RecordLog())
        self._runs = runs
        self.infos = [run.info for run in runs.values()]

    def _run(self, info: RunInfo) -> RunLog:
        return self._runs[info.run_id]


def infos_of(runs: Sequence[RunLog]) -> list[RunInfo]:
    """What is known of runs apart from their rows; stored ones are not put together for it."""
    return runs.infos if isinstance(runs, StoredRuns) else [run.info for run in runs]


def stored_source(path: Path) -> tuple[Source, StoredRuns]:
    """A session file as the source of an export or a report. Raises UserError when it cannot be read."""
    from evprof.export.report.data import Source
    from evprof.session.opened import open_session

    session = open_session(path)
    runs = SummarizedRuns(session.runs)
    return Source(path, runs, session.environment, session.facts), runs


def _infos(recording: RecordLog) -> list[RunInfo]:
    said: OrderedDict[int, list[Message]] = OrderedDict()
    infos: dict[int, RunInfo] = {}
    for message in recording.messages():
        if isinstance(message, RunStarted):
            infos[message.run_id] = message.info
        else:
            said.setdefault(getattr(message, "run_id", -1), []).append(message)
    for run_id, messages in said.items():
        if run_id not in infos:
            continue
        # A copy: the message must stay as it is.
        infos[run_id] = RunInfo.from_json(infos[run_id].to_json())
        for message in messages:
            apply_to_info(message, infos[run_id])
    return [infos[run_id] for run_id in sorted(infos) if not infos[run_id].is_deleted]


def _blocks(stream: Stream) -> dict[int, list[RowBlock]]:
    found: dict[int, list[RowBlock]] = {}
    for run_id, block in blocks_by_run(stream, 0, len(stream)):
        found.setdefault(run_id, []).append(block)
    return found
