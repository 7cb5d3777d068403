"""What an open window does to the engine's token times: within one long answer the window works and sleeps in turns.

One engine process, kept warm, answers; the session is written to a file either way. While the window sleeps its thread
does nothing at all, as if there were none; what it has missed it takes in when it wakes, so that its work is told
rather too large than too small.
Beside the ratio stands that of every other turn of sleep to the rest of them: what equal things differ by.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication

from evprof.core.protocols import EngineChanged, monotonic_ns
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.loaders.bundled import bundled_sample
from evprof.metrics.estimates.estimates import Verdict, verdict
from evprof.metrics.estimates.observations import Observation
from evprof.run.processes.engine_host import EngineHost
from evprof.run.requests import BUNDLED_TARGET
from ui.state.run_controller import Host
from ui.window.main_window import MainWindow

GRACE_S = 120.0
"""How long a request may take, and the engine's start."""

TURN_S = 0.2
"""How long the window works or sleeps."""

WARM_S = 2.0
"""How long the window has to import what runs need."""

_MOST_ANSWERS = 100
_UNANSWERED = "the window's effect on the engine was not measured: the engine does not answer here"


@dataclass(frozen=True)
class EffectOn:
    """A model whose tokens are timed, how many an answer has, and what its figures' names end with."""

    model: str
    tokens: int
    ending: str = ""


SMALL = EffectOn(BUNDLED_TARGET, 1500)
LARGE = EffectOn("random:160m-video-llava", 400, "_160m")
"""Tokens of a millisecond, and of some tens of them."""

EFFECTS = {"small": SMALL, "large": LARGE}


class WindowTurn(NamedTuple):
    """Whether the window worked, and from when to when, in ns on the clock."""

    is_awake: bool
    start_ns: int
    end_ns: int


def measure_engine_effect(
    argv: Sequence[str],
    make_window: Callable[[], MainWindow],
    folder: Path,
    pairs: int,
    note: Callable[[str], None],
    *,
    on: EffectOn = SMALL,
) -> dict[str, Any]:
    """Ratios of the time per token while a window works by that while it sleeps, with 95 % intervals, over at least
    `pairs` turns of each; every figure None where the engine cannot answer here. `argv` starts an engine process."""
    recording = RecordLog()
    host = EngineHost(argv, recording)
    names = [f"{name}{on.ending}" for name in _NAMES]
    awake: list[Observation] = []
    asleep: list[Observation] = []
    try:
        host.start()
        if not _is_ready(recording):
            note(_UNANSWERED)
            return dict.fromkeys(names)
        answers = _Answers(host, make_window, folder, on)
        for number in range(_MOST_ANSWERS):
            times_ns, turns = answers.one(is_first_awake=bool(number % 2))
            if not turns:
                break
            # The first one warms the engine up.
            for turn, value in paces(times_ns, turns) if number else ():
                side = awake if turn.is_awake else asleep
                side.append(Observation(value, turn=len(side)))
            if min(len(awake), len(asleep)) >= pairs:
                break
        answers.close()
    finally:
        host.close()
    if not awake or not asleep:
        note(_UNANSWERED)
        return dict.fromkeys(names)
    ratio, equal = verdict(asleep, awake), verdict(asleep[::2], asleep[1::2])
    values = (*_figures(ratio), *_figures(equal), _median(asleep), _median(awake), min(len(awake), len(asleep)))
    found = dict(zip(names, values, strict=True))
    note(f"{on.model}: time per token with a window by that without: {_told(ratio)}")
    return found


_NAMES = (
    *(f"windowed_vs_headless{end}" for end in ("", "_ci95_low", "_ci95_high")),
    *(f"headless_a_vs_a{end}" for end in ("", "_ci95_low", "_ci95_high")),
    *("headless_ms_per_token", "windowed_ms_per_token", "windowed_pairs"),
)


def paces(times_ns: npt.NDArray[np.int64], turns: Sequence[WindowTurn]) -> list[tuple[WindowTurn, float]]:
    """Ms per token of every turn that lies within the answer's tokens; one that a turn ends in counts by its part."""
    places = np.arange(len(times_ns))
    within = [
        turn for turn in turns if len(times_ns) > 2 and times_ns[1] <= turn.start_ns and turn.end_ns <= times_ns[-1]
    ]
    counts = [np.interp(turn.end_ns, times_ns, places) - np.interp(turn.start_ns, times_ns, places) for turn in within]
    return [
        (turn, (turn.end_ns - turn.start_ns) / 1e6 / float(count))
        for turn, count in zip(within, counts, strict=True)
        if count > 0
    ]


def _figures(found: Verdict | None) -> tuple[float | None, float | None, float | None]:
    if found is None:
        return None, None, None
    low, high = found.interval or (None, None)
    return found.ratio, low, high


def _told(found: Verdict | None) -> str:
    if found is None or found.ratio is None:
        return "no ratio"
    if found.interval is None:
        return f"{found.ratio:.4f}, {found.reason}"
    low, high = found.interval
    return f"{found.ratio:.4f}, 95 % {low:.4f} to {high:.4f}"


def _median(turns: list[Observation]) -> float:
    return median(turn.value for turn in turns)


def _is_ready(recording: RecordLog) -> bool:
    cursor, deadline = recording.cursor(), time.monotonic() + GRACE_S
    while time.monotonic() < deadline:
        states = [message.state for message in cursor.read().messages if isinstance(message, EngineChanged)]
        if "ready" in states or "gone" in states:
            return "ready" in states
        time.sleep(0.02)
    return False


class _Lent:
    """A host that outlives the windows it is lent to."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self.submit, self.stop, self.attach = host.submit, host.stop, host.attach

    @property
    def is_busy(self) -> bool:
        return self._host.is_busy

    def close(self) -> None:
        """The owner ends it."""


class _Answers:
    """The same request again and again, in one window."""

    def __init__(self, host: EngineHost, make_window: Callable[[], MainWindow], folder: Path, on: EffectOn) -> None:
        self._host = host
        settings = GenerationSettings(max_new_tokens=on.tokens, ignore_eos=True)
        choice = ModelChoice(on.model, "cpu")
        self._request = RunRequest("target", bundled_sample(), None, choice, settings, warmup=0)
        self._window, self._loop = make_window(), QEventLoop()
        self._window.session.path = folder / f"effect{on.ending}.evprof"
        host.attach(self._window.session.recording)

        def lend(_: RecordLog) -> Host:
            return _Lent(host)

        self._window.start_engine(lend)
        self._work(WARM_S)

    def one(self, *, is_first_awake: bool) -> tuple[npt.NDArray[np.int64], list[WindowTurn]]:
        """When the tokens of an answer came, and the turns meanwhile; none where there was no answer."""
        known, deadline = len(self._window.controller.runs), time.monotonic() + GRACE_S
        self._window.requests.submit(self._request)
        while time.monotonic() < deadline and self._token_count(known) < 2 and self._host.is_busy:
            self._work(TURN_S / 4)
        turns: list[WindowTurn] = []
        is_awake = is_first_awake
        while time.monotonic() < deadline and self._host.is_busy:
            start_ns = monotonic_ns()
            (self._work if is_awake else time.sleep)(TURN_S)
            turns.append(WindowTurn(is_awake, start_ns, monotonic_ns()))
            is_awake = not is_awake
        while self._host.is_busy or self._window.controller.is_busy:
            self._work(TURN_S)
        self._work(2 * TURN_S)
        if self._token_count(known) < 2:
            return np.empty(0, dtype=np.int64), []
        run = list(self._window.controller.runs.values())[known]
        return np.array([token.t_ns for token in run.tokens], dtype=np.int64), turns

    def close(self) -> None:
        self._window.close()
        QApplication.processEvents()

    def _work(self, seconds: float) -> None:
        QTimer.singleShot(round(1000 * seconds), self._loop.quit)
        self._loop.exec()

    def _token_count(self, place: int) -> int:
        runs = list(self._window.controller.runs.values())
        return len(runs[place].tokens) if place < len(runs) else 0
