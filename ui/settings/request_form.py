"""The request that the toolbar and the settings describe, and what it lacks. It uses no Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from evprof.core.errors import UserError
from evprof.core.records import DRAFT, TARGET
from evprof.core.request import MEASURING, OF_MEASURING, RunRequest, TraceSettings, roles_of
from evprof.core.sample import Sample
from evprof.core.vocabulary.drafters import ADAPTER_KINDS, DRAFTERS, KINDS, KV, MODEL
from evprof.core.vocabulary.families import EVENTS, VIDEO
from evprof.core.vocabulary.generation import SAMPLING, GenerationSettings, ModelChoice
from evprof.core.vocabulary.inputs import OF_EVENTGPT, OF_IMAGES, READS
from evprof.core.vocabulary.modes import MODES, mode_of
from evprof.core.vocabulary.setting import Setting, Situation
from evprof.core.vocabulary.settings import SETTINGS, setting_value, with_value
from evprof.core.vocabulary.speculation import PARALLEL, SPECULATION, SpeculationSettings
from evprof.core.vocabulary.switches import LANGUAGE_MODEL, VISION
from evprof.loaders.pictures.frame_folder import is_there
from ui.settings.checkpoints import family_named
from ui.state.current import CurrentState

if TYPE_CHECKING:
    from evprof.loaders.adapters import AdapterInfo


DrafterChoice = tuple[str, str | None]
"""A kind, and the folder or bundled name of the adapter; None for what needs none."""

UNTRAINED: tuple[tuple[DrafterChoice, str], ...] = tuple(
    ((key, None), drafter.word) for key, drafter in KINDS.items() if not drafter.is_trained
)
"""What can draft without having been trained for it, and what the list calls it."""

NEEDS_MAP = "needs a trained map of caches"
_WORDS = {EVENTS: "events", VIDEO: "a video"}
_KEPT = 64
_Value = TypeVar("_Value")


def chosen(settings: SpeculationSettings) -> DrafterChoice:
    """The choice that settings stand for. A map of caches is an adapter beside a drafter that needs none."""
    if settings.adapter and settings.drafter not in ADAPTER_KINDS:
        return KV, settings.adapter
    return settings.drafter, settings.adapter


def bundled_choices() -> list[tuple[DrafterChoice, str]]:
    """The adapters that come along and their words, by name; none where one of them is damaged."""
    return [((info.kind, info.folder.name), adapter_words(info.kind, info.name)) for info in _bundled()]


def adapter_words(kind: str, name: str) -> str:
    """`EAGLE · tiny-eagle`: kind and name; also of an unknown kind."""
    return f"{KINDS[kind].word if kind in KINDS else kind} · {name}"


def choice_words(choice: DrafterChoice) -> str:
    kind, adapter = choice
    info = adapter_of(adapter)
    name = Path(adapter or "").name if info is None else info.name
    return dict(UNTRAINED).get(choice, adapter_words(kind if info is None else info.kind, name))


@lru_cache(_KEPT)
def _read(name: str, _changed_ns: int) -> AdapterInfo | None:
    from evprof.loaders.adapters import read_adapter

    try:
        return read_adapter(name)
    except UserError:
        return None


def adapter_of(name: str | None) -> AdapterInfo | None:
    """What an adapter's description says; None where there is none that can be read. Read again when it changed."""
    if not name:
        return None
    try:
        changed_ns = (Path(name) / "adapter.json").stat().st_mtime_ns
    except OSError:
        changed_ns = -1
    return _read(name, changed_ns)


def bundled_map() -> str | None:
    """The name of a bundled map of caches, if there is one."""
    return next((info.folder.name for info in _bundled() if info.kind == KV), None)


@lru_cache(1)
def _bundled() -> tuple[AdapterInfo, ...]:
    from evprof.loaders.adapters import bundled_adapters

    try:
        return tuple(bundled_adapters())
    except UserError:
        return ()


def refusal_of(choice: DrafterChoice, mode: str, draft: str, target: str) -> str:
    """Why a choice cannot be taken in a mode with two models, in a sentence; empty when it can or is not known."""
    kind, adapter = choice
    maps_cache = kind in KINDS and KINDS[kind].maps_cache
    if mode_of(mode).maps_cache and not maps_cache:
        return "The mode KV-adapted takes a trained map of caches."
    if maps_cache and not mode_of(mode).maps_cache:
        return "A map of caches changes the answer: choose the mode KV-adapted for it."
    if mode_of(mode).is_parallel and not (kind in KINDS and KINDS[kind].takes_draft):
        return "Parallel prefill takes the draft model."
    info = adapter_of(adapter)
    for trained, asked in () if info is None else ((info.target, target), (info.draft, draft)):
        if trained and asked and Path(trained).name != Path(asked).name:
            return f"It was trained for {Path(trained).name}, not for {Path(asked).name}."
    return ""


DRAFTER = "drafter"
"""The control that stands for two settings: the drafter and its adapter."""

_COLUMNS = ((MEASURING, SAMPLING), (SPECULATION, PARALLEL), (READS, OF_EVENTGPT, OF_IMAGES), (LANGUAGE_MODEL, VISION))


def columns() -> tuple[tuple[str, ...], ...]:
    """Heads of settings as they stand beside each other; a head that has no place of its own comes last."""
    placed = {head for column in _COLUMNS for head in column}
    others = dict.fromkeys(entry.head for entry in SETTINGS.values() if entry.head not in placed)
    return (*_COLUMNS[:-1], (*_COLUMNS[-1], *others))


def control_of(entry: Setting) -> Setting:
    """A setting as its field shows it: on and off are two choices, and what can be typed is a list to type into."""
    if entry.key == DRAFTER:
        usual = chosen(GenerationSettings().speculation)
        return replace(entry, choices=UNTRAINED, is_free=False, default=usual, idle=SETTINGS["adapter"].idle)
    if entry.kind is bool and not entry.choices:
        return replace(entry, choices=((False, "off"), (True, "on")))
    if entry.kind is str and not entry.choices:
        return replace(entry, choices=((entry.default, entry.range.low or str(entry.default or "")),), is_free=True)
    return entry


def controls() -> dict[str, Setting]:
    listed = (*OF_MEASURING, *(entry for entry in SETTINGS.values() if entry.has_control))
    return {entry.key: control_of(entry) for entry in listed}


def value_of(settings: GenerationSettings, key: str) -> Any:
    """What a control shows of the settings; DRAFTER is a pair of drafter and adapter."""
    return chosen(settings.speculation) if key == DRAFTER else setting_value(settings, key)


def with_choice(settings: GenerationSettings, key: str, value: Any) -> GenerationSettings:
    if key != DRAFTER:
        return with_value(settings, key, value)
    kind, adapter = value
    return with_value(with_value(settings, "drafter", kind if kind in DRAFTERS else MODEL), "adapter", adapter)


def lowest(entry: Setting) -> float:
    """The least number that a field shows: None, where there is one, stands below the least."""
    least = (entry.range.least or 0) * entry.range.scale - entry.has_none
    return least + 1 / 10**entry.range.decimals if entry.range.is_above else least


def highest(entry: Setting) -> float:
    """The greatest number that a field shows."""
    return entry.range.shown or (entry.range.most or 0) * entry.range.scale


def number_of(entry: Setting, value: Any) -> float:
    """What a field shows for a value."""
    return lowest(entry) if value is None else float(value) * entry.range.scale


def value_shown(entry: Setting, number: float) -> Any:
    if entry.has_none and number <= lowest(entry):
        return None
    found = number / entry.range.scale
    return found if entry.range.decimals or entry.range.is_share else round(found)


class CurrentField(Generic[_Value]):
    """A field of the current value, as an attribute of the form."""

    def __set_name__(self, _form: type, name: str) -> None:
        self._name = name

    def __get__(self, form: RequestForm, _form: type | None = None) -> _Value:
        value: _Value = getattr(form.current.now, self._name)
        return value

    def __set__(self, form: RequestForm, value: _Value) -> None:
        form.current.change(**{self._name: value})


class RequestForm:
    """The current value as a request. The mode a person chose comes back as soon as its inputs are there again.

    `environment` is what the engine said of its machine, empty before it did.
    """

    sample = CurrentField[Sample]()
    draft, target = CurrentField[ModelChoice](), CurrentField[ModelChoice]()
    settings = CurrentField[GenerationSettings]()
    measuring = CurrentField[Mapping[str, Any]]()

    def __init__(self, current: CurrentState | None = None) -> None:
        self.current = current or CurrentState()
        self.controls = controls()
        self.trace_folder: Path | None = None
        self.environment: dict[str, Any] = {}
        self._families: dict[str, str | None] = {}

    @property
    def mode(self) -> str:
        """The mode that will run: the wanted one, or the best the inputs allow."""
        if not self.mode_problem(self.wanted_mode):
            return self.wanted_mode
        return next((mode for mode in MODES if not self.mode_problem(mode)), self.wanted_mode)

    @property
    def wanted_mode(self) -> str:
        """The mode that was asked for, whether or not it can run."""
        return self.current.now.mode

    def choose_mode(self, mode: str) -> None:
        self.current.change(mode=mode)

    def mode_problem(self, mode: str) -> str:
        """What a mode lacks: "needs events", "needs a video", "needs events and a video"; empty when it can run."""
        paths = {EVENTS: self.sample.events_path, VIDEO: self.sample.video_path}
        here = self.situation(mode)
        needed = {here.reads(role) for role in here.reading}
        lacking = [_WORDS[kind] for kind, path in paths.items() if kind in needed and path is None]
        if lacking:
            return f"needs {' and '.join(lacking)}"
        lacks_map = mode_of(mode).maps_cache and chosen(self.settings.speculation)[0] != KV and bundled_map() is None
        return NEEDS_MAP if lacks_map else ""

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
            self.measuring = {**self.measuring, key: value}
        else:
            self.settings = with_choice(self.settings, key, value)

    def reset(self) -> None:
        for key in self._touched:
            self.take(key, self.controls[key].default)

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
        sample = Sample(events_path=path, prompt=self.sample.prompt)
        if self.sample.events_path is None and self.sample.video_path is not None:
            # What was chosen of the video lay on its own clock; from now on the events' counts.
            sample = replace(self.sample, events_path=path, name="", start_us=None, duration_us=None)
        return self._chosen(sample)

    def open_video(self, path: str) -> Sample:
        """Takes a video: it completes a sample that has only events, and begins a new one otherwise."""
        sample = Sample(video_path=path, prompt=self.sample.prompt)
        if self.sample.video_path is None and self.sample.events_path is not None:
            sample = replace(self.sample, video_path=path, name="")
        return self._chosen(sample)

    def _chosen(self, sample: Sample) -> Sample:
        self.current.choose_sample(sample)
        return self.sample

    def request(self) -> RunRequest:
        """What is asked of the engine. Raises UserError when settings mean nothing."""
        here = self.here
        made = RunRequest(
            mode=here.mode,
            sample=self.sample,
            draft=self.draft if DRAFT in here.taking_part else None,
            target=self.target if TARGET in here.taking_part else None,
            settings=self.settings_in_force,
            **self.measuring,
            trace=TraceSettings(str(self.trace_folder)) if self.trace_folder is not None else None,
        )
        made.validate()
        return made
