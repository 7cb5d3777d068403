"""The settings that the popover offers, as the vocabulary describes them, and the values that its fields show.

The choice of a drafter stands for two settings: the drafter and, where it was trained, its adapter's folder or name.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evprof.core.errors import UserError
from evprof.core.request import MEASURING, OF_MEASURING
from evprof.core.vocabulary.drafters import ADAPTER_KINDS, DRAFTERS, KINDS, KV, MODEL
from evprof.core.vocabulary.generation import SAMPLING, GenerationSettings
from evprof.core.vocabulary.inputs import OF_EVENTGPT, OF_IMAGES, READS
from evprof.core.vocabulary.modes import mode_of
from evprof.core.vocabulary.setting import Setting
from evprof.core.vocabulary.settings import SETTINGS, setting_value, with_value
from evprof.core.vocabulary.speculation import PARALLEL, SPECULATION, SpeculationSettings
from evprof.core.vocabulary.switches import LANGUAGE_MODEL, VISION

if TYPE_CHECKING:
    from evprof.loaders.adapters import AdapterInfo

DrafterChoice = tuple[str, str | None]
"""A kind, and the folder or bundled name of the adapter; None for what needs none."""

UNTRAINED: tuple[tuple[DrafterChoice, str], ...] = tuple(
    ((key, None), drafter.word) for key, drafter in KINDS.items() if not drafter.is_trained
)
"""What can draft without having been trained for it, and what the list calls it."""

_KEPT = 64


def chosen(settings: SpeculationSettings) -> DrafterChoice:
    """The choice that settings stand for. A map of caches is an adapter beside a drafter that needs none."""
    if settings.adapter and settings.drafter not in ADAPTER_KINDS:
        return KV, settings.adapter
    return settings.drafter, settings.adapter


def settings_of(choice: DrafterChoice) -> dict[str, str | None]:
    kind, adapter = choice
    return {"drafter": kind if kind in DRAFTERS else MODEL, "adapter": adapter}


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
        return "Parallel prefill drafts with the event model."
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
    for changed, to in settings_of(value).items() if key == DRAFTER else ((key, value),):
        settings = with_value(settings, changed, to)
    return settings


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
