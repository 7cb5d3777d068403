"""What the toolbar asks for, put together bit by bit, and in one sentence what is still missing; it knows no widget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from evprof.core.request import MODES, GenerationSettings, ModelChoice, RunRequest, TraceSettings
from evprof.core.sample import Sample

BUNDLED_DRAFT, BUNDLED_TARGET = "evprof-tiny-eventgpt", "evprof-tiny-video-llava"

_NEEDS = {
    "side-by-side": (True, True),
    "speculative": (True, True),
    "draft": (True, False),
    "target": (False, True),
}
"""Mode -> whether it needs events, and a video."""


class RequestForm:
    """Sample, models, mode, settings. The mode a person chose comes back as soon as its inputs are there again."""

    def __init__(self) -> None:
        self.sample = Sample()
        self.draft = ModelChoice(BUNDLED_DRAFT)
        self.target = ModelChoice(BUNDLED_TARGET)
        self.settings = GenerationSettings()
        self.warmup = 0
        self.repeat = 1
        self.trace_folder: Path | None = None
        self._wanted_mode = MODES[0]

    @property
    def mode(self) -> str:
        """The mode that will run: the wanted one, or the best the inputs allow."""
        if not self.mode_problem(self._wanted_mode):
            return self._wanted_mode
        return next((mode for mode in MODES if not self.mode_problem(mode)), self._wanted_mode)

    def choose_mode(self, mode: str) -> None:
        """Asks for a mode."""
        self._wanted_mode = mode

    def mode_problem(self, mode: str) -> str:
        """What a mode lacks: "needs events", "needs a video", "needs events and a video"; empty when it can run."""
        needs_events, needs_video = _NEEDS[mode]
        lacking = []
        if needs_events and self.sample.events_path is None:
            lacking.append("events")
        if needs_video and self.sample.video_path is None:
            lacking.append("a video")
        return f"needs {' and '.join(lacking)}" if lacking else ""

    @property
    def problem(self) -> str:
        """Why nothing can run now, in a sentence; empty when it can."""
        if self.sample.events_path is None and self.sample.video_path is None:
            return "Open events or a video first."
        gone = [path for path in (self.sample.events_path, self.sample.video_path) if path and not Path(path).exists()]
        if gone:
            return f"{Path(gone[0]).name} is gone; open it again."
        if not self.sample.prompt.strip():
            return "Type a prompt."
        return ""

    def open_events(self, path: str) -> Sample:
        """Takes events: they complete a sample that has only a video, and begin a new one otherwise."""
        if self.sample.events_path is None and self.sample.video_path is not None:
            self.sample = replace(self.sample, events_path=path, name="")
        else:
            self.sample = Sample(events_path=path, prompt=self.sample.prompt)
        return self.sample

    def open_video(self, path: str) -> Sample:
        """Takes a video: it completes a sample that has only events, and begins a new one otherwise."""
        if self.sample.video_path is None and self.sample.events_path is not None:
            self.sample = replace(self.sample, video_path=path, name="")
        else:
            self.sample = Sample(video_path=path, prompt=self.sample.prompt)
        return self.sample

    def request(self) -> RunRequest:
        """What is asked of the engine. Raises UserError when settings mean nothing."""
        mode = self.mode
        needs_events, needs_video = _NEEDS[mode]
        made = RunRequest(
            mode=mode,
            sample=self.sample,
            draft=self.draft if needs_events else None,
            target=self.target if needs_video else None,
            settings=self.settings,
            warmup=self.warmup,
            repeat=self.repeat,
            trace=TraceSettings(str(self.trace_folder)) if self.trace_folder is not None else None,
        )
        made.validate()
        return made
