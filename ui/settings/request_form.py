"""What the toolbar asks for, put together bit by bit, and in one sentence what is still missing; it knows no widget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.core.request import OF_MEASURING, RunRequest, TraceSettings, roles_of
from evprof.core.sample import Sample
from evprof.core.vocabulary.drafters import KV
from evprof.core.vocabulary.families import EVENTS, VIDEO
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import MODES, mode_of
from evprof.core.vocabulary.setting import Situation
from evprof.loaders.pictures.frame_folder import is_there
from evprof.run.demo import BUNDLED_DRAFT, BUNDLED_TARGET
from ui.settings.checkpoint_folder import family_named
from ui.settings.controls import DRAFTER, bundled_map, chosen, controls, refusal_of, value_of, with_choice

_WORDS = {EVENTS: "events", VIDEO: "a video"}


class RequestForm:
    """Sample, models, mode, settings. The mode a person chose comes back as soon as its inputs are there again.

    `environment` is what the engine said of its machine, empty before it did.
    """

    def __init__(self) -> None:
        self.sample = Sample()
        self.draft = ModelChoice(BUNDLED_DRAFT)
        self.target = ModelChoice(BUNDLED_TARGET)
        self.settings = GenerationSettings()
        self.measuring: dict[str, Any] = {entry.key: entry.default for entry in OF_MEASURING}
        self.controls = controls()
        self.trace_folder: Path | None = None
        self.environment: dict[str, Any] = {}
        self._wanted_mode = next(iter(MODES))
        self._families: dict[str, str | None] = {}

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
        self._wanted_mode = mode

    def mode_problem(self, mode: str) -> str:
        """What a mode lacks: "needs events", "needs a video", "needs events and a video"; empty when it can run."""
        paths = {EVENTS: self.sample.events_path, VIDEO: self.sample.video_path}
        here = self.situation(mode)
        needed = {here.reads(role) for role in here.reading}
        lacking = [_WORDS[kind] for kind, path in paths.items() if kind in needed and path is None]
        if lacking:
            return f"needs {' and '.join(lacking)}"
        lacks_map = mode_of(mode).maps_cache and chosen(self.settings.speculation)[0] != KV and bundled_map() is None
        return "needs a trained map of caches" if lacks_map else ""

    @property
    def roles(self) -> tuple[str, ...]:
        return self.here.taking_part

    # Settings, by the names of their controls.

    @property
    def has_cuda(self) -> bool:
        """Whether the machine has a CUDA device; True while the engine has not said."""
        return not any(key in self.environment and self.environment[key] is None for key in ("cuda", "gpu"))

    def situation(self, mode: str) -> Situation:
        """What decides which settings count in a mode, with the drafter that it can use."""
        usable = self.settings
        if self._drafter_refusal(mode, chosen(usable.speculation)):
            usable = with_choice(usable, DRAFTER, self.controls[DRAFTER].default)
        models = {DRAFT: self.draft, TARGET: self.target}
        roles = roles_of(mode, usable.speculation)
        families = {role: self._family(choice.name) for role, choice in models.items()}
        has_cuda = self.has_cuda and any(models[role].device != "cpu" for role in roles)
        return Situation(mode, usable.flat(), families, roles, has_cuda, keeps_roles=True)

    def _family(self, name: str) -> str | None:
        """Looked up once for each name: a folder's config lies on a disk."""
        if name not in self._families:
            self._families[name] = family_named(name)
        return self._families[name]

    def _drafter_refusal(self, mode: str, choice: Any) -> str:
        return refusal_of(choice, mode, self.draft.name, self.target.name)

    def value(self, key: str) -> Any:
        return self.measuring[key] if key in self.measuring else value_of(self.settings, key)

    def take(self, key: str, value: Any) -> None:
        if key in self.measuring:
            self.measuring[key] = value
        else:
            self.settings = with_choice(self.settings, key, value)

    def reset(self) -> None:
        for key, control in self.controls.items():
            self.take(key, control.default)

    @property
    def settings_in_force(self) -> GenerationSettings:
        """The settings that would run now: what changes nothing stands at its default. Without a map of one's own, the
        bundled one runs in the mode that needs one."""
        found = self.settings
        for key in self.idle:
            found = with_choice(found, key, self.controls[key].default)
        name = bundled_map() if mode_of(self.mode).maps_cache and chosen(found.speculation)[0] != KV else None
        return found if name is None else with_choice(found, DRAFTER, (KV, name))

    @property
    def changed(self) -> list[str]:
        """Settings that differ from their defaults and will run so."""
        idle = self.idle
        return [key for key in self._touched if key not in idle]

    @property
    def idle(self) -> dict[str, str]:
        """Settings that differ from their defaults but change nothing now, with the reason."""
        here = self.here
        reasons = {key: self.obstacle(key, here) or self.refusal(key, self.value(key), here) for key in self._touched}
        return {key: reason for key, reason in reasons.items() if reason}

    @property
    def _touched(self) -> list[str]:
        return [key for key, control in self.controls.items() if self.value(key) != control.default]

    @property
    def here(self) -> Situation:
        """What decides which settings count now. Whoever asks of many settings works it out once."""
        return self.situation(self.mode)

    def obstacle(self, key: str, here: Situation) -> str:
        """Why a setting changes nothing `here`; empty when it counts."""
        return self.controls[key].idle(here)

    def refusal(self, key: str, value: Any, here: Situation) -> str:
        """Why one of a setting's choices cannot be taken `here`; empty when it can."""
        if key == DRAFTER:
            return self._drafter_refusal(here.mode, value)
        return self.controls[key].refuses(here, value)

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
            **self.measuring,
            trace=TraceSettings(str(self.trace_folder)) if self.trace_folder is not None else None,
        )
        made.validate()
        return made
