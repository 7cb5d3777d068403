"""The hidden command `evprof _examine PART`: looks at one part of the installation in a process of its own.

A library that is broken may end the process that loads it; doctor only reads what this prints, if it prints anything.
`evprof _examine model QUESTION` is the window's, which must not load torch: a checkpoint, and whether it fits.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from evprof.core.errors import USAGE, UserError
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice


def main(words: Sequence[str]) -> int:
    """Prints the facts of one of PARTS as JSON. Raises UserError (exit code 2) for another word."""
    if len(words) == 2 and words[0] == "model":
        json.dump(_model(words[1]), sys.stdout)
        return 0
    if len(words) != 1 or words[0] not in PARTS:
        raise UserError("evprof _examine is used by evprof doctor, not by people.", exit_code=USAGE)
    json.dump(PARTS[words[0]](), sys.stdout)
    return 0


def _model(text: str) -> dict[str, Any]:
    """The `inspect` document for a question in JSON (`role`, `model`, `other`, `settings`), or its `error`.

    `other_error` says why the other model was left out.
    """
    from engines.fit.verdict import FitQuestion
    from evprof.cli.inspect.command import checkpoint_document

    try:
        asked = json.loads(text)
        question = FitQuestion(
            ModelChoice.from_json(asked["model"]),
            ModelChoice.from_json(asked["other"]) if asked.get("other") else None,
            GenerationSettings.from_json(asked.get("settings") or {}),
            role=asked["role"],
            held_bytes=_held_by_the_engine(),
            drafts=bool(asked.get("drafts")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError("evprof _examine model is used by the window, not by people.", exit_code=USAGE) from error
    try:
        return checkpoint_document(question)
    except UserError as error:
        if question.other is None:
            return {"error": error.sentence}
        reason = error.sentence
    try:
        # The other side's trouble must not hide what is known of this one.
        return checkpoint_document(replace(question, other=None)) | {"other_error": reason}
    except UserError as error:
        return {"error": error.sentence}


_ENGINE_ITSELF_BYTES = 768 << 20
"""What an engine process without models takes."""


def _held_by_the_engine() -> dict[str, int]:
    """By device, what the window's engine process holds and would give back for other models."""
    import psutil

    held: dict[str, int] = {}
    try:
        siblings = psutil.Process(os.getppid()).children()
    except psutil.Error:
        return held
    for process in siblings:
        try:
            if "_engine" in process.cmdline():
                resident = process.memory_info().rss - _ENGINE_ITSELF_BYTES
                held["cpu"] = held.get("cpu", 0) + max(resident, 0)
                for device, size in _on_gpus(process.pid).items():
                    held[device] = held.get(device, 0) + size
        except psutil.Error:
            continue  # it has just ended
    return held


def _on_gpus(pid: int) -> dict[str, int]:
    from engines.hardware.gpu_state import bytes_of_process

    return bytes_of_process(pid)


def _engine() -> dict[str, Any]:
    """The environment that a run of a bundled model records, and its answer. Raises UserError when the run fails."""
    from engines.hardware.environment import architectures
    from engines.start import make_engine
    from evprof.core.recording import RecordLog
    from evprof.core.request import RunRequest
    from evprof.core.run_book import RunBook
    from evprof.core.run_info import FINISHED
    from evprof.loaders.bundled import bundled_sample
    from evprof.run.demo import BUNDLED_DRAFT
    from evprof.run.processes.runner import LocalRunner

    recording = RecordLog()
    book = RunBook(recording)
    request = RunRequest(
        "draft",
        bundled_sample(),
        draft=ModelChoice(BUNDLED_DRAFT),
        settings=GenerationSettings(max_new_tokens=8),
        warmup=0,
    )
    with LocalRunner(make_engine, recording) as runner:
        runner.run(request)
    book.update()
    answers = [run.info for run in book.runs.values()]
    if [info.status for info in answers] != [FINISHED]:
        raise UserError(next((info.error for info in answers if info.error), "The engine gives no answer."))
    return answers[0].environment | {"gpu_architectures": architectures(), "answer": answers[0].text}


def _window() -> dict[str, Any]:
    """Whether Qt loads and can draw, by which platform."""
    # By name, because only ui uses Qt: here it is only asked whether it is there and works.
    core = importlib.import_module("PySide6.QtCore")
    widgets = importlib.import_module("PySide6.QtWidgets")
    plots = importlib.import_module("pyqtgraph")
    application = widgets.QApplication([])
    return {"qt": core.qVersion(), "platform": application.platformName(), "pyqtgraph": plots.__version__}


def _decoders() -> dict[str, Any]:
    """Which of the common video codecs are available, and what is read of the bundled sample: frames and events."""
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
    """Whether the optional libraries that are installed load. Raises what the first does that does not."""
    from importlib.util import find_spec

    from engines.libraries import LIBRARIES, optional_module

    there = {name: module for name, module in LIBRARIES.items() if find_spec(name) is not None}
    for name, module in there.items():
        optional_module(module, f"The library {name}")
    return dict.fromkeys(there, True)


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "engine": _engine,
    "window": _window,
    "decoders": _decoders,
    "quantization": _quantization,
}
