"""The settings that the popover offers, as the vocabulary describes them, and how its fields show their values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evprof.core.request import MEASURING, OF_MEASURING
from evprof.core.vocabulary.generation import SAMPLING, GenerationSettings
from evprof.core.vocabulary.inputs import OF_EVENTGPT, OF_IMAGES, READS
from evprof.core.vocabulary.setting import Setting
from evprof.core.vocabulary.settings import SETTINGS, setting_value, with_value
from evprof.core.vocabulary.speculation import PARALLEL, SPECULATION
from evprof.core.vocabulary.switches import LANGUAGE_MODEL, VISION
from ui.settings.drafter_choice import UNTRAINED, chosen, settings_of

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
        return replace(entry, choices=((entry.default, entry.low or str(entry.default or "")),), is_free=True)
    return entry


def controls() -> dict[str, Setting]:
    """Every setting that has a control, by key."""
    listed = (*OF_MEASURING, *(entry for entry in SETTINGS.values() if entry.has_control))
    return {entry.key: control_of(entry) for entry in listed}


def value_of(settings: GenerationSettings, key: str) -> Any:
    """What a control shows of the settings; DRAFTER is a pair of drafter and adapter."""
    return chosen(settings.speculation) if key == DRAFTER else setting_value(settings, key)


def with_choice(settings: GenerationSettings, key: str, value: Any) -> GenerationSettings:
    """The settings after a control took a value."""
    for changed, to in settings_of(value).items() if key == DRAFTER else ((key, value),):
        settings = with_value(settings, changed, to)
    return settings


def lowest(entry: Setting) -> float:
    """The least number that a field shows: None, where there is one, stands below the least."""
    least = (entry.least or 0) * entry.scale - entry.has_none
    return least + 1 / 10**entry.decimals if entry.is_above else least


def highest(entry: Setting) -> float:
    """The greatest number that a field shows."""
    return entry.shown_most or (entry.most or 0) * entry.scale


def number_of(entry: Setting, value: Any) -> float:
    """What a field shows for a value."""
    return lowest(entry) if value is None else float(value) * entry.scale


def value_shown(entry: Setting, number: float) -> Any:
    """The value that a field's number stands for."""
    if entry.has_none and number <= lowest(entry):
        return None
    found = number / entry.scale
    return found if entry.decimals or entry.scale != 1 else round(found)
