"""Which runs of a request have begun and not ended, and what must be said when nobody else will say it.

An engine that raises, dies or is ended leaves runs open; whoever notices closes them, so that a reader of the
Recording always sees every run end.
"""

from __future__ import annotations

from datetime import UTC, datetime

from evprof.core.protocols import Message, RequestEnded, RunEnded, RunStarted
from evprof.core.request import RunRequest
from evprof.core.run_info import RunInfo
from evprof.core.vocabulary.modes import mode_of


class OpenRuns:
    """Follows one request at a time by the messages that pass."""

    def __init__(self) -> None:
        self._request: RunRequest | None = None
        self._open: dict[int, bool] = {}  # by number, whether it is a warm-up
        self._has_started = False

    @property
    def is_busy(self) -> bool:
        return self._request is not None

    @property
    def run_ids(self) -> tuple[int, ...]:
        return tuple(self._open)

    def begin(self, request: RunRequest) -> None:
        self._request, self._open, self._has_started = request, {}, False

    def note(self, message: Message) -> None:
        match message:
            case RunStarted(run_id=run_id, info=info):
                self._has_started = True
                self._open[run_id] = info.warmup
            case RunEnded(run_id=run_id):
                self._open.pop(run_id, None)
            case RequestEnded():
                self._request = None

    def close(self, status: str, sentence: str) -> list[Message]:
        """What is still to be said about the request: every open run ended as `status`, then the request.

        When no run had begun, one is begun and ended, so that the attempt is on record. Empty when nothing is open.
        """
        if self._request is None:
            return []
        request, said = self._request, list[Message]()
        open_runs = dict(self._open)
        if not self._has_started:
            said.append(RunStarted(request.first_run_id, _unstarted(request)))
            open_runs[request.first_run_id] = False
        # A warm-up that was cut off is all that tells what became of the request.
        said += [
            RunEnded(run_id, status, sentence, {"warmup": False} if is_warmup else {})
            for run_id, is_warmup in open_runs.items()
        ]
        said.append(RequestEnded(request.first_run_id))
        self._request, self._open = None, {}
        return said


def _unstarted(request: RunRequest) -> RunInfo:
    return RunInfo(
        run_id=request.first_run_id,
        group_id=request.group_id,
        repeat=request.first_repeat,
        role=mode_of(request.mode).answering[0],
        mode=request.mode,
        settings=request.settings,
        sample=request.sample,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        cell=request.cell,
    )


NO_PROGRESS = "The engine made no progress for"
"""How the error of a run begins whose engine was ended for its silence."""
