"""What an open window does to the engine's token times: the same request with a window and without, in turns.

One engine process, kept warm, answers all of them; the session is written to a file either way. Without means that
there is no window at all, as under `evprof run`. Beside the ratio stands that of two turns without: what equal things
differ by.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication

from evprof.core.messages import EngineChanged, Message, RequestEnded
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.loaders.bundled import bundled_sample
from evprof.metrics.estimates.estimates import Estimate, ratio_of
from evprof.metrics.estimates.observations import observe
from evprof.metrics.figures.decoding import inter_token_latency_ms
from evprof.run.demo import BUNDLED_TARGET
from evprof.run.processes.engine_host import EngineHost
from evprof.run.session_writer import SessionWriter
from ui.state.run_controller import Host
from ui.window.main_window import MainWindow

GRACE_S = 120.0
"""How long a request may take, and the engine's start."""


@dataclass(frozen=True)
class EffectOn:
    """A model whose tokens are timed, how many an answer has, and what its figures' names end with."""

    model: str
    tokens: int
    ending: str = ""


SMALL = EffectOn(BUNDLED_TARGET, 96)
LARGE = EffectOn("random:160m-video-llava", 48, "_160m")
"""Tokens of a millisecond, and of some tens of them."""


def measure_engine_effect(
    argv: Sequence[str],
    make_window: Callable[[], MainWindow],
    folder: Path,
    pairs: int,
    note: Callable[[str], None],
    *,
    on: EffectOn = SMALL,
) -> dict[str, Any]:
    """Ratios of the time per token with a window by that without, with 95 % intervals; every figure None where the
    engine cannot answer here. `argv` starts an engine process."""
    recording = RecordLog()
    host = EngineHost(argv, recording)
    turns = _Turns(host, make_window, folder, on)
    names = [f"{name}{on.ending}" for name in _NAMES]
    headless: list[RunLog] = []
    again: list[RunLog] = []
    windowed: list[RunLog] = []
    try:
        host.start()
        if not _is_ready(recording) or inter_token_latency_ms(turns.without()) is None:
            note("the window's effect on the engine was not measured: the engine does not answer here")
            return dict.fromkeys(names)
        for pair in range(pairs):
            order = [(windowed, turns.within), (headless, turns.without), (again, turns.without)]
            # Each comes first, second and third equally often.
            for place in range(len(order)):
                runs, take = order[(pair + place) % len(order)]
                runs.append(take())
    finally:
        host.close()
    ratio, equal = _ratio(headless + again, windowed), _ratio(headless, again)
    values = (*_figures(ratio), *_figures(equal), _median(headless + again), _median(windowed), pairs)
    found = dict(zip(names, values, strict=True))
    note(f"{on.model}: time per token with a window by that without: {found[names[0]]:.4f} ({pairs} pairs)")
    return found


_NAMES = (
    *(f"windowed_vs_headless{end}" for end in ("", "_ci95_low", "_ci95_high")),
    *(f"headless_a_vs_a{end}" for end in ("", "_ci95_low", "_ci95_high")),
    *("headless_ms_per_token", "windowed_ms_per_token", "windowed_pairs"),
)


def _ratio(base: list[RunLog], other: list[RunLog]) -> Estimate | None:
    return ratio_of(observe(base, inter_token_latency_ms), observe(other, inter_token_latency_ms))


def _figures(found: Estimate | None) -> tuple[float | None, float | None, float | None]:
    if found is None:
        return None, None, None
    low, high = found.interval or (None, None)
    return found.value, low, high


def _median(runs: list[RunLog]) -> float:
    return median(latency for run in runs if (latency := inter_token_latency_ms(run)) is not None)


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
        """Whether a request is being carried out."""
        return self._host.is_busy

    def close(self) -> None:
        """The owner ends it."""


class _Turns:
    """The same request, with a window and without."""

    def __init__(self, host: EngineHost, make_window: Callable[[], MainWindow], folder: Path, on: EffectOn) -> None:
        self._host = host
        self._make_window = make_window
        self._folder = folder
        self._count = 0
        settings = GenerationSettings(max_new_tokens=on.tokens, ignore_eos=True)
        choice = ModelChoice(on.model, "cpu")
        self._request = RunRequest("target", bundled_sample(), None, choice, settings, warmup=0)

    def without(self) -> RunLog:
        """One run, with nobody looking."""
        recording = RecordLog()
        writer = SessionWriter(recording, self._path(), waits_for_run=True)
        self._host.attach(recording)
        self._host.submit(self._request)
        cursor, deadline = recording.cursor(), time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            if any(isinstance(message, RequestEnded) for message in cursor.read().messages):
                break
            time.sleep(0.02)
        self._rest()
        writer.close()
        return _only_run(recording)

    def within(self) -> RunLog:
        """One run in a window of its own, which shows it live."""
        window, loop = self._make_window(), QEventLoop()
        window.session.path = self._path()
        self._host.attach(window.session.recording)

        def lend(_: RecordLog) -> Host:
            return _Lent(self._host)

        def take(message: Message) -> None:
            if isinstance(message, RequestEnded):
                loop.quit()

        window.controller.message.connect(take)
        window.start_engine(lend)
        QApplication.processEvents()
        window.requests.submit(self._request)
        QTimer.singleShot(int(1000 * GRACE_S), loop.quit)
        loop.exec()
        self._rest()
        recording = window.session.recording
        window.close()
        QApplication.processEvents()
        return _only_run(recording)

    def _path(self) -> Path:
        self._count += 1
        return self._folder / f"turn{self._count}.evprof"

    def _rest(self) -> None:
        while self._host.is_busy:
            time.sleep(0.005)


def _only_run(recording: RecordLog) -> RunLog:
    book = RunBook(recording)
    book.update()
    return next(iter(book.runs.values()))
