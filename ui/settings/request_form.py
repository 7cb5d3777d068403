"""What the toolbar asks for, put together bit by bit, and in one sentence what is still missing; it knows no widget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.core.request import RunRequest, TraceSettings, input_of
from evprof.core.sample import Sample
from evprof.core.vocabulary.drafters import KV
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import MODES, mode_of
from evprof.loaders.pictures.frame_folder import is_there
from ui.settings import setting_limits
from ui.settings.checkpoint_folder import family_named
from ui.settings.controls import MEASURING, controls, default_of, value_of, with_value
from ui.settings.drafter_choice import bundled_map, chosen
from ui.settings.setting_limits import Circumstances

BUNDLED_DRAFT, BUNDLED_TARGET = "evprof-tiny-eventgpt", "evprof-tiny-video-llava"

_WORDS = {"events": "events", "video": "a video"}


class RequestForm:
    """Sample, models, mode, settings. The mode a person chose comes back as soon as its inputs are there again.

    `environment` is what the engine said of its machine, empty before it did.
    """

    def __init__(self) -> None:
        self.sample = Sample()
        self.draft = ModelChoice(BUNDLED_DRAFT)
        self.target = ModelChoice(BUNDLED_TARGET)
        self.settings = GenerationSettings()
        self.warmup: int | None = None
        self.repeat = 1
        self.trace_folder: Path | None = None
        self.environment: dict[str, Any] = {}
        self._wanted_mode = next(iter(MODES))
        self._family: tuple[str, str | None] = ("", None)

    @property
    def mode(self) -> str:
        """The mode that will run: the wanted one, or the best the inputs allow."""
        if not self.mode_problem(self._wanted_mode):
            return self._wanted_mode
        return next((mode for mode in MODES if not self.mode_problem(mode)), self._wanted_mode)

    @property
    def wanted_mode(self) -> str:
        """The mode that was asked for, whether or not it can run."""
        return self._wanted_mode

    def choose_mode(self, mode: str) -> None:
        """Asks for a mode."""
        self._wanted_mode = mode

    def mode_problem(self, mode: str) -> str:
        """What a mode lacks: "needs events", "needs a video", "needs events and a video"; empty when it can run."""
        paths = {"events": self.sample.events_path, "video": self.sample.video_path}
        needed = {input_of(self.settings.input, role) for role in self._roles(mode)}
        lacking = [_WORDS[kind] for kind, path in paths.items() if kind in needed and path is None]
        if lacking:
            return f"needs {' and '.join(lacking)}"
        lacks_map = mode_of(mode).maps_cache and chosen(self.settings.speculation)[0] != KV and bundled_map() is None
        return "needs a trained map of caches" if lacks_map else ""

    def _roles(self, mode: str) -> tuple[str, ...]:
        """The models that a mode would take with the drafter that it can use."""
        return Circumstances(mode, self.settings, draft=self.draft.name, target=self.target.name).roles

    @property
    def roles(self) -> tuple[str, ...]:
        """The models that will run."""
        return self._roles(self.mode)

    # Settings, by the names of their controls.

    @property
    def circumstances(self) -> Circumstances:
        """What decides which settings make sense."""
        mode = self.mode
        names = self.draft.name, self.target.name
        return Circumstances(mode, self.settings, self._target_family(), self._has_cuda(mode), *names)

    def _target_family(self) -> str | None:
        """Looked up once for each name: a folder's config lies on a disk."""
        if self._family[0] != self.target.name:
            self._family = (self.target.name, family_named(self.target.name))
        return self._family[1]

    def _has_cuda(self, mode: str) -> bool:
        """False where the engine's PyTorch knows no CUDA, or every model that will run was put on the CPU."""
        devices = {DRAFT: self.draft.device, TARGET: self.target.device}
        is_without = "cuda" in self.environment and self.environment["cuda"] is None
        return not is_without and any(devices[role] != "cpu" for role in self._roles(mode))

    def value(self, key: str) -> Any:
        """A setting, or how often is measured."""
        return getattr(self, key) if key in MEASURING else value_of(self.settings, key)

    def take(self, key: str, value: Any) -> None:
        """Sets one setting and nothing else."""
        if key in MEASURING:
            setattr(self, key, value)
        else:
            self.settings = with_value(self.settings, key, value)

    def reset(self) -> None:
        """Everything back to its default."""
        for control in controls():
            self.take(control.key, default_of(control.key))

    @property
    def settings_in_force(self) -> GenerationSettings:
        """The settings that would run now."""
        return setting_limits.in_force(self.circumstances)

    @property
    def changed(self) -> list[str]:
        """Settings that differ from their defaults and will run so."""
        idle = self.idle
        return [
            control.key
            for control in controls()
            if self.value(control.key) != default_of(control.key) and control.key not in idle
        ]

    def obstacle(self, key: str) -> str:
        """Why a setting changes nothing now; empty when it counts."""
        return setting_limits.obstacle(self.circumstances, key)

    def refusal(self, key: str, value: Any) -> str:
        """Why one of a setting's choices cannot be taken now; empty when it can."""
        return setting_limits.refusal(self.circumstances, key, value)

    @property
    def idle(self) -> dict[str, str]:
        """Settings that differ from their defaults but make no sense now, with the reason."""
        return setting_limits.idle(self.circumstances)

    @property
    def problem(self) -> str:
        """Why nothing can run now, in a sentence; empty when it can."""
        if self.sample.events_path is None and self.sample.video_path is None:
            return "Open events or a video first."
        sample = self.sample
        paths = [path for path in (sample.events_path, sample.video_path, sample.video_times_path) if path]
        gone = [path for path in paths if not is_there(path)]
        if gone:
            return f"{Path(gone[0]).name} is gone; open it again."
        if self.mode_problem(self.mode):
            return f"No model reads what is open: {self.mode_problem(self.mode)}."
        if not self.sample.prompt.strip():
            return "Type a prompt."
        return ""

    def open_events(self, path: str) -> Sample:
        """Takes events: they complete a sample that has only a video, and begin a new one otherwise."""
        if self.sample.events_path is None and self.sample.video_path is not None:
            # What was chosen of the video lay on its own clock; from now on the events' counts.
            self.sample = replace(self.sample, events_path=path, name="", start_us=None, duration_us=None)
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
        roles = self.roles
        made = RunRequest(
            mode=mode,
            sample=self.sample,
            draft=self.draft if DRAFT in roles else None,
            target=self.target if TARGET in roles else None,
            settings=self.settings_in_force,
            warmup=self.warmup,
            repeat=self.repeat,
            trace=TraceSettings(str(self.trace_folder)) if self.trace_folder is not None else None,
        )
        made.validate()
        return made
