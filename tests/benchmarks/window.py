"""Measures the window: how soon it is there, how long its thread is ever busy while records pour in, how fast it zooms.

Everything passes through the real parts: an engine process that only makes records, pipe, recording, session writer.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from PySide6.QtCore import QEvent, QEventLoop, QObject, Qt, QTimer, qVersion
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from benchmarks.crowd import RECORDS, SPANS, write_session
from benchmarks.crowd_steps import measure_crowd
from benchmarks.engine_effect import EFFECTS, measure_engine_effect
from benchmarks.first_paint import PAINTED, SIZE, paint_all, the_application
from benchmarks.processes import run_argv
from benchmarks.scale import SAMPLES, measure_long_text, measure_many_runs, timed_ms
from evprof.cli.terminal.program import engine_argv
from evprof.core.errors import USAGE, UserError
from evprof.core.protocols import EngineChanged, Message, RequestEnded, monotonic_ns
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from ui.state.run_controller import Host
from ui.style.theme import ThemeHolder, theme_named
from ui.window.main_window import MainWindow

Note = Callable[[str], None]

RECORDS_PER_S = 20_000
HEARTBEAT_MS, WARM_MS = 5, 2_000
GRACE_S = 60.0
"""How long beyond a trial an engine process may take to start and to end."""

LONGEST_TRIAL_S = 3600

STEPS = 200
"""Zooms and pans that are timed."""


FEWEST_TURNS = 6
"""An interval takes three turns on both sides, also where every other turn of sleep is held against the rest."""


class Sizes(NamedTuple):
    """How much there is to see: spans on the timeline, records of the session that is opened, samples of the list of
    runs; and for how many turns a trial's window works while an engine answers."""

    spans: int
    records: int
    samples: int
    turns: int

    def tenth(self) -> Sizes:
        """A tenth of it all; of turns as many as an interval takes."""
        tenth = Sizes(*(count // 10 for count in self))
        return tenth._replace(turns=max(tenth.turns, FEWEST_TURNS))


SIZES = Sizes(SPANS, RECORDS, SAMPLES, 20)


def measure_window(
    paint_argv: Sequence[str],
    trials: int,
    seconds: float,
    note: Note,
    *,
    sizes: Sizes = SIZES,
) -> dict[str, Any]:
    """`environment`, `rows` (one per trial) and `summary` of the benchmark `ui`; `note` hears how far it is.

    `paint_argv` starts a process that calls `paint_once`. Gaps are the longest time
    between two heartbeats of a 5 ms timer in the window's thread during a trial; the summary gives their median.
    `token_to_picture_…` is the age of the oldest token that a picture is the first to hold. `million_…` is a session
    of a million records, or of `sizes`, opened in a process of its own, `crowd_…` the full timeline (`crowd_steps`).
    """
    if trials < 1 or not 1 <= seconds <= LONGEST_TRIAL_S:
        raise UserError(
            f"--trials must be at least 1, and --seconds lie between 1 and {LONGEST_TRIAL_S}.", exit_code=USAGE
        )
    visible = [first_paint_ms(paint_argv) for _ in range(trials)]
    note(f"window visible: {statistics.median(visible):.0f} ms (median of {trials})")
    application = the_application()
    rows = []
    with tempfile.TemporaryDirectory(prefix="evprof-bench-") as folder:
        for trial in range(trials):
            path = Path(folder) / f"trial{trial}.evprof"
            argv = run_argv("_engine", str(RECORDS_PER_S), f"{seconds:g}")
            row = _trial(application, argv, path, seconds)
            row["window_visible_ms"] = visible[trial]
            rows.append(row)
            note(f"trial {trial + 1} of {trials}: longest gap {row['longest_gap_ms']:.1f} ms, {row['records']} records")
        scale: dict[str, Any] = _reopened(application, path) | _many_runs(application, Path(folder), sizes.samples)
        scale |= _million(paint_argv, Path(folder), trials, note, sizes.records)
        effect: dict[str, Any] = {}
        for key in EFFECTS if trials > 1 else ("small",):
            effect |= _effect_of(key, sizes.turns * trials, note)
    scale |= measure_long_text(ThemeHolder(theme_named("dark"))) | _crowd(application, note, sizes.spans) | effect
    return {"environment": _environment(), "rows": rows, "summary": _summary(rows, scale)}


def _effect_of(key: str, turns: int, note: Note) -> dict[str, Any]:
    """The effect on one model, in a process of its own: an engine inherits the priority of the thread that starts it,
    and the thread of a window keeps its lower one."""
    done = subprocess.run(run_argv("_effect", key, str(turns)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"The effect of the window was not measured: {done.stderr.strip()[-300:]}")
    note(done.stderr.strip())
    effect: dict[str, Any] = json.loads(done.stdout)
    return effect


def print_effect(key: str, turns: str) -> int:
    """Print the effect of a window on a model of `EFFECTS` as JSON."""
    the_application()
    with tempfile.TemporaryDirectory(prefix="evprof-bench-") as folder:
        effect = measure_engine_effect(
            engine_argv(), _window, Path(folder), int(turns), lambda text: print(text, file=sys.stderr), on=EFFECTS[key]
        )
    print(json.dumps(effect))
    return 0


def _summary(rows: list[dict[str, Any]], scale: dict[str, Any]) -> dict[str, Any]:
    steps = sorted(ms for row in rows for ms in row.pop("step_ms"))
    delays = sorted(ms for row in rows for ms in row.pop("delay_ms"))
    return {
        "window_visible_ms": statistics.median(row["window_visible_ms"] for row in rows),
        "pan_zoom_median_ms": statistics.median(steps),
        "pan_zoom_p99_ms": _p99(steps),
        "token_to_picture_median_ms": statistics.median(delays),
        "token_to_picture_p99_ms": _p99(delays),
        "live_longest_gap_ms": statistics.median(row["longest_gap_ms"] for row in rows),
        "live_longest_work_ms": statistics.median(row["longest_work_ms"] for row in rows),
        **scale,
    }


def _p99(ordered: Sequence[float]) -> float:
    return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


def _environment() -> dict[str, Any]:
    return {
        "qt": qVersion(),
        "platform": QGuiApplication.platformName(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }


def first_paint_ms(argv: Sequence[str], timeout_s: float = 60.0) -> float:
    """Time in ms from starting process `argv` to its window's first paint. Raises UserError when it never paints."""
    began = time.perf_counter()
    process = subprocess.Popen([*argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline() if process.stdout else ""
        took_ms = 1000 * (time.perf_counter() - began)
        _, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise UserError("The window was painted but did not close.") from None
    if line.strip() != PAINTED:
        last = (errors.strip().splitlines() or ["it gave no reason."])[-1]
        raise UserError(f"The window could not be painted: {last}")
    return took_ms


def first_picture(argv: Sequence[str], session: Path, timeout_s: float = 120.0) -> dict[str, float]:
    """The same of a fresh process that `argv` starts. Raises UserError when it shows nothing."""
    done = subprocess.run([*argv, str(session)], capture_output=True, text=True, timeout=timeout_s, check=False)
    lines = done.stdout.split("\n")
    if done.returncode or lines[0] != PAINTED:
        last = (done.stderr.strip().splitlines() or ["it gave no reason."])[-1]
        raise UserError(f"The session could not be shown: {last}")
    found: dict[str, float] = json.loads(lines[1])
    return found


class Heartbeat:
    """A 5 ms timer of the window's thread that remembers when it beat, and that thread's processor time then."""

    def __init__(self) -> None:
        self.beats_s: list[float] = []
        self._worked_s: list[float] = []
        self._timer = QTimer()
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(HEARTBEAT_MS)
        self._timer.timeout.connect(self._beat)

    def _beat(self) -> None:
        self.beats_s.append(time.perf_counter())
        self._worked_s.append(time.thread_time())

    def start(self) -> None:
        self._beat()
        self._timer.start()

    def stop(self) -> None:
        self._timer.stop()
        self._beat()

    @property
    def gaps_ms(self) -> list[float]:
        """Time between consecutive beats in ms."""
        return [1000 * (after - before) for before, after in pairwise(self.beats_s)]

    @property
    def work_ms(self) -> list[float]:
        """The thread's processor time between consecutive beats in ms: what of a gap is its own doing."""
        return [1000 * (after - before) for before, after in pairwise(self._worked_s)]


class TokenDelays(QObject):
    """Watches the timeline's pictures: how old the oldest token was that each of them was the first to hold, in ms."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self.delays_ms: list[float] = []
        self._scene = window.timeline.scene
        self._drawn: dict[int, int] = {}
        window.timeline.latency.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            for _, track in self._scene.shown:
                times_ns, drawn = track.token_times(), self._drawn.get(track.run.run_id, 0)
                if len(times_ns) > drawn:
                    self.delays_ms.append((monotonic_ns() - int(times_ns[drawn]) - track.zero_ns) / 1e6)
                    self._drawn[track.run.run_id] = len(times_ns)
        return False


def _trial(application: QApplication, argv: Sequence[str], path: Path, seconds: float) -> dict[str, Any]:
    """One run of the synthetic engine in a window of its own; then zooms and pans over what it left."""
    window = _window()
    window.session.path = path
    heart, delays = Heartbeat(), TokenDelays(window)
    loop = QEventLoop()
    is_ended = is_ready = False

    def make_host(recording: RecordLog) -> Host:
        from evprof.run.processes.engine_host import EngineHost

        host = EngineHost(argv, recording)
        host.start()
        return host

    def begin() -> None:
        heart.start()
        request = RunRequest("target", Sample(video_path="synthetic"), target=ModelChoice("synthetic"))
        window.requests.submit(request)

    def take(message: Message) -> None:
        nonlocal is_ended, is_ready
        if isinstance(message, EngineChanged) and message.state == "ready" and not is_ready:
            is_ready = True
            # An engine that loads torch is ready long after the window; this one is before.
            QTimer.singleShot(WARM_MS, window, begin)
        elif isinstance(message, RequestEnded):
            heart.stop()
            is_ended = True
            loop.quit()

    window.controller.message.connect(take)
    window.start_engine(make_host)
    QTimer.singleShot(int(1000 * (seconds + GRACE_S)), loop.quit)
    loop.exec()
    records = window.session.recording.row_count
    step_ms = _steps(application, window)
    window.close()
    application.processEvents()
    if not is_ended:
        raise UserError("The synthetic run did not end in time; close other programs and try again.")
    gaps = heart.gaps_ms
    return {
        "longest_gap_ms": max(gaps),
        "longest_work_ms": max(heart.work_ms),
        "gap_p99_ms": _p99(sorted(gaps)),
        "beats": len(gaps),
        "records": records,
        "step_ms": step_ms,
        "delay_ms": delays.delays_ms,
    }


def _steps(application: QApplication, window: MainWindow) -> list[float]:
    """Time in ms of each zoom or pan, its painting included."""
    timeline = window.timeline

    def move(step: int) -> None:
        if step % 4 < 2:
            timeline.zooming.zoom(1.25 if step % 8 < 4 else 0.8, timeline.width() * (0.3 + 0.4 * (step % 3) / 2))
        else:
            timeline.zooming.pan(60.0 if step % 4 == 2 else -60.0)
        timeline.repaint()
        paint_all(application)

    return [timed_ms(partial(move, step)) for step in range(STEPS)]


def _million(paint_argv: Sequence[str], folder: Path, trials: int, note: Note, records: int) -> dict[str, float]:
    """Opening a session of so many records in processes of their own; medians."""
    path = folder / "million.evprof"
    write_session(path, records)
    found = [first_picture(paint_argv, path) for _ in range(trials)]
    medians = {f"million_{key}": statistics.median(one[key] for one in found) for key in found[0]}
    note(f"a session of {records:,} records: first picture after {medians['million_first_picture_ms']:.0f} ms")
    return medians | {"million_records": records, "million_session_mb": path.stat().st_size / 1e6}


def _crowd(application: QApplication, note: Note, spans: int) -> dict[str, Any]:
    window = _window()
    try:
        return measure_crowd(application, window, note, spans)
    finally:
        window.close()


def _reopened(application: QApplication, path: Path) -> dict[str, float]:
    """How long a saved session takes from being opened to its picture, and its size."""
    window = _window()
    application.processEvents()

    def opens() -> None:
        window.open_paths([str(path)], waits=True)
        window.controller.pull()
        window.repaint()
        paint_all(application)

    took_ms = timed_ms(opens)
    window.close()
    return {"first_picture_ms": took_ms, "session_mb": path.stat().st_size / 1e6}


def _many_runs(application: QApplication, folder: Path, samples: int) -> dict[str, float]:
    window = _window()
    try:
        return measure_many_runs(application, window, folder, samples)
    finally:
        window.close()


def _window() -> MainWindow:
    window = MainWindow(ThemeHolder(theme_named("dark")))
    window.resize(*SIZE)
    window.show()
    return window
