"""How long an engine at work has said nothing: told once, and, where a limit was asked for, its end.

A kernel that hangs looks like one that computes. So nothing is ended unasked: loading from a slow disk, compiling and
the prefill of a large model on a CPU are silent for minutes.
"""

from __future__ import annotations

from evprof.core.clock import Clock
from evprof.core.units import NS_PER_S

TELL_AFTER_S = 60.0
"""Silence of an engine at work after which a person is told."""

START_PATIENCE_S = 300.0
"""What an engine may take to start, whatever the limit: importing a model library from a network disk is slow."""


NO_PROGRESS = "The engine made no progress for"
"""How the error of a run begins whose engine was ended for its silence."""


class Silence:
    """Measures silence while a request is at work. `limit_s` None: it may last."""

    def __init__(self, clock: Clock, limit_s: float | None = None, tell_after_s: float = TELL_AFTER_S) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._tell_after_s = tell_after_s
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

    def note_start(self, has_started: bool) -> None:
        """The engine has started, or another is about to."""
        self.has_started = has_started

    def news(self) -> str | None:
        """What a person is to be told now, once for each silence."""
        if self._is_told or self._lasted_s() < self._tell_after_s:
            return None
        self._is_told = True
        return (
            f"The engine has said nothing for {self._tell_after_s:.0f} s: it is loading, compiling or computing for "
            "long, or it hangs. What was measured is kept if you stop it."
        )

    @property
    def end_sentence(self) -> str | None:
        """Why the engine is to be ended now; None while it is not."""
        limit_s = self._limit_now_s()
        if limit_s is None or self._lasted_s() < limit_s:
            return None
        return f"{NO_PROGRESS} {limit_s:g} s and was ended, as --timeout asked for."

    def patience_s(self) -> float | None:
        """Seconds until something may be to be said or done; None while nothing is at work."""
        waits = [wait for wait in (None if self._is_told else self._tell_after_s, self._limit_now_s()) if wait]
        return max(0.0, min(waits) - self._lasted_s()) if waits and self._since_ns is not None else None

    def _limit_now_s(self) -> float | None:
        if self._limit_s is None or self.has_started:
            return self._limit_s
        return max(self._limit_s, START_PATIENCE_S)

    def _lasted_s(self) -> float:
        return 0.0 if self._since_ns is None else (self._clock() - self._since_ns) / NS_PER_S
