"""Parts that may end the process that loads them: each is examined in a process of its own, all at once.

`evprof _examine PART` prints the facts of a part as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from evprof.core.errors import UsageError, UserError
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice

EXAMINATION_TIMEOUT_S = 120


@dataclass(frozen=True)
class Problem:
    """Something that will not work here, and what to do about it."""

    problem: str
    fix: str


def ask(part: str) -> subprocess.CompletedProcess[str]:
    """Runs `evprof _examine PART` in a process of its own, without a display."""
    from evprof.cli.terminal.program import program_argv

    return subprocess.run(
        program_argv("_examine", part),
        capture_output=True,
        text=True,
        timeout=EXAMINATION_TIMEOUT_S,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        check=False,
    )


class Examinations:
    """Examines parts at the same time and returns the facts of each."""

    def __init__(self, parts: Iterable[str]) -> None:
        self._pool = ThreadPoolExecutor(thread_name_prefix="evprof-doctor")
        self._begun: dict[str, Future[subprocess.CompletedProcess[str]]] = {
            part: self._pool.submit(ask, part) for part in parts
        }

    def __contains__(self, part: object) -> bool:
        return part in self._begun

    def facts(self, part: str, problems: list[Problem], fix: str) -> dict[str, Any] | None:
        """The facts of a part; None if it is not examined, and None with a problem if that fails. Waits for it."""
        if part not in self:
            return None
        try:
            done = self._begun[part].result()
            if done.returncode == 0:
                facts: dict[str, Any] = json.loads(done.stdout)
                return facts
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            reason = lines[-1].strip() if lines else f"it ended with code {done.returncode}"
        except (OSError, subprocess.TimeoutExpired, ValueError) as error:
            reason = str(error)
        problems.append(Problem(f"The examination of the {part} failed: {reason}", fix))
        return None

    def close(self) -> None:
        self._pool.shutdown()


def main(words: Sequence[str]) -> int:
    """Prints the facts of one of PARTS as JSON. Raises UserError (exit code 2) for another word."""
    if len(words) != 1 or words[0] not in PARTS:
        raise UsageError("evprof _examine is used by evprof doctor, not by people.")
    json.dump(PARTS[words[0]](), sys.stdout)
    return 0


def _engine() -> dict[str, Any]:
    """The environment that a run of a bundled model records, its answer, and torch's complaints about the GPU.

    Raises UserError when the run fails.
    """
    from engines.hardware.environment import architectures, gpu_complaints
    from evprof.cli.run.recorded_session import make_engine
    from evprof.core.recording import RecordLog
    from evprof.core.request import RunRequest
    from evprof.core.run_info import FINISHED
    from evprof.core.run_log import RunBook
    from evprof.loaders.bundled import bundled_sample
    from evprof.run.processes.runner import LocalRunner
    from evprof.run.requests import BUNDLED_DRAFT

    complaints = gpu_complaints()
    recording = RecordLog()
    book = RunBook(recording)
    settings = GenerationSettings(max_new_tokens=8)
    request = RunRequest("draft", bundled_sample(), draft=ModelChoice(BUNDLED_DRAFT), settings=settings, warmup=0)
    with LocalRunner(make_engine, recording) as runner:
        runner.run(request)
    book.update()
    answers = [run.info for run in book.runs.values()]
    if [info.status for info in answers] != [FINISHED]:
        raise UserError(next((info.error for info in answers if info.error), "The engine gives no answer."))
    return answers[0].environment | {
        "gpu_architectures": architectures(),
        "answer": answers[0].text,
        "gpu_warnings": complaints,
    }


def _window() -> dict[str, Any]:
    # By name, because only ui uses Qt; this only tests whether it is there and works.
    core = importlib.import_module("PySide6.QtCore")
    widgets = importlib.import_module("PySide6.QtWidgets")
    plots = importlib.import_module("pyqtgraph")
    application = widgets.QApplication([])
    return {"qt": core.qVersion(), "platform": application.platformName(), "pyqtgraph": plots.__version__}


def _decoders() -> dict[str, Any]:
    """Which of the common video codecs are available, and the frames and events of the bundled sample."""
    import av

    from evprof.loaders.bundled import bundled_sample
    from evprof.loaders.events.opening import open_recording
    from evprof.loaders.videos.opening import open_video

    sample = bundled_sample()
    with open_video(sample.video_path or "") as video:
        frames = video.read_uniform(8).frames
    events = open_recording(sample.events_path or "").read()
    wanted = ("h264", "hevc", "vp9", "av1", "mpeg4", "mjpeg")
    return {
        "pyav": av.__version__,
        "codecs": {name: name in av.codecs_available for name in wanted},
        "bundled_sample": {"frames": len(frames), "events": len(events)},
    }


def _quantization() -> dict[str, Any]:
    """Whether the installed optional libraries load. Raises the error of the first one that does not."""
    from importlib.util import find_spec

    from engines.libraries import LIBRARIES, optional_module

    installed = {name: module for name, module in LIBRARIES.items() if find_spec(name) is not None}
    for name, module in installed.items():
        optional_module(module, f"The library {name}")
    return dict.fromkeys(installed, True)


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "engine": _engine,
    "window": _window,
    "decoders": _decoders,
    "quantization": _quantization,
}
