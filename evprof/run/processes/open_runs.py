"""Which runs of a request have begun and not ended, and what must be said when nobody else will say it.

An engine that raises, dies or is ended leaves runs open; whoever notices closes them, so that a reader of the
Recording always sees every run end.
"""

from __future__ import annotations

from datetime import UTC, datetime

from evprof.core.protocols import Clock, Message, RequestEnded, RunEnded, RunStarted
from evprof.core.request import RunRequest
from evprof.core.run_info import RunInfo
from evprof.core.units import NS_PER_S
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


TELL_AFTER_S = 60.0
"""Silence of an engine at work after which a person is told."""

START_PATIENCE_S = 300.0
"""What an engine may take to start, whatever the limit: importing a model library from a network disk is slow."""

NO_PROGRESS = "The engine made no progress for"
"""How the error of a run begins whose engine was ended for its silence."""


class Silence:
    """Measures silence while a request is at work. `limit_s` None: it may last."""

    def __init__(self, clock: Clock, limit_s: float | None = None) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._since_ns: int | None = None
        self._is_told = False
        self.has_started = False
        """Whether the engine has said a word yet."""

    def begin(self) -> None:
        self._since_ns, self._is_told = self._clock(), False

    def hear(self) -> bool:
        """Something came. True when silence had been told of."""
        was_told, self._is_told = self._is_told, False
        if self._since_ns is not None:
            self._since_ns = self._clock()
        return was_told

    def end(self) -> None:
        self._since_ns, self._is_told = None, False

    def news(self) -> tuple[str, bool]:
        """What a person is to be told now, once for each silence, or ""; and whether the engine is to be ended."""
        if self._since_ns is None:
            return "", False
        lasted_s, limit_s = (self._clock() - self._since_ns) / NS_PER_S, self._limit_now_s()
        if limit_s is not None and lasted_s >= limit_s:
            return f"{NO_PROGRESS} {limit_s:g} s and was ended, as --timeout asked for.", True
        if self._is_told or lasted_s < TELL_AFTER_S:
            return "", False
        self._is_told = True
        return (
            f"The engine has said nothing for {TELL_AFTER_S:.0f} s: it is loading, compiling or computing for long, or "
            "it hangs. What was measured is kept if you stop it."
        ), False

    def patience_s(self) -> float | None:
        """Seconds until something may be to be said or done; None while nothing is at work."""
        waits = [wait for wait in (None if self._is_told else TELL_AFTER_S, self._limit_now_s()) if wait]
        if not waits or self._since_ns is None:
            return None
        return max(0.0, min(waits) - (self._clock() - self._since_ns) / NS_PER_S)

    def _limit_now_s(self) -> float | None:
        if self._limit_s is None or self.has_started:
            return self._limit_s
        return max(self._limit_s, START_PATIENCE_S)
