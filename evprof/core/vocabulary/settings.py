"""All settings in order of presentation, and the one answer to whether a setting counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from evprof.core.plain import fits, hints_of
from evprof.core.vocabulary.generation import GAMMA, NESTED, OF_MODEL, OF_RUN, SAMPLING, GenerationSettings
from evprof.core.vocabulary.generation import MODEL as MODEL_HEAD
from evprof.core.vocabulary.inputs import OF_EVENTGPT, OF_IMAGES, READS
from evprof.core.vocabulary.setting import Setting, Situation
from evprof.core.vocabulary.speculation import PARALLEL, SPECULATION
from evprof.core.vocabulary.switches import LANGUAGE_MODEL, VISION

HEADS = (READS, OF_EVENTGPT, OF_IMAGES, MODEL_HEAD, LANGUAGE_MODEL, VISION, SAMPLING, SPECULATION, PARALLEL)
"""Sections of settings, in the order in which tables tell them; any other comes last."""


def _section(entry: Setting) -> int:
    return HEADS.index(entry.head) if entry.head in HEADS else len(HEADS)


SETTINGS: dict[str, Setting] = {entry.key: entry for entry in sorted((*OF_RUN, *OF_MODEL), key=_section)}
"""Every setting of a run and of its models by key, in order of presentation."""

DEFAULTS: dict[str, Any] = {entry.key: entry.default for entry in OF_RUN}


def choices_of(key: str) -> tuple[str, ...]:
    return tuple(str(value) for value in SETTINGS[key].known if value is not None)


def setting_value(settings: GenerationSettings, key: str) -> Any:
    group = SETTINGS[key].group
    return getattr(getattr(settings, group) if group else settings, key)


def with_value(settings: GenerationSettings, key: str, value: Any) -> GenerationSettings:
    """The same settings but for one. Raises KeyError for a key that nobody knows."""
    group = SETTINGS[key].group
    if not group:
        return replace(settings, **{key: value})
    return replace(settings, **{group: replace(getattr(settings, group), **{key: value})})


def option_words(values: Mapping[str, Any], role: str = "", *, keeps_defaults: bool = False) -> list[str]:
    """The options that ask for these settings by key, of one model where `role` is given.

    Settings at their default are left out unless `keeps_defaults`, and so are keys that nobody knows.
    """
    return [
        word
        for key, value in values.items()
        if key in SETTINGS and (keeps_defaults or value != SETTINGS[key].default)
        for word in SETTINGS[key].words(value, role)
    ]


def in_force(settings: GenerationSettings, here: Situation) -> GenerationSettings:
    """The settings with everything that changes nothing at its default, so that equal measurements look equal."""
    for key, value in settings.flat().items():
        if value != DEFAULTS[key] and SETTINGS[key].idle(here):
            settings = with_value(settings, key, DEFAULTS[key])
    return settings


def settings_to_json(settings: GenerationSettings, given: Collection[str]) -> dict[str, Any]:
    listed, told = settings.flat(), dict[str, Any]()
    for entry in OF_RUN:
        if entry.key in given:
            group = told.setdefault(entry.group, {}) if entry.group else told
            group[entry.key] = listed[entry.key]
    if GAMMA in given:
        told[GAMMA] = told["speculation"].pop(GAMMA)
    return {key: value for key, value in told.items() if value != {}}


def settings_from_json(values: object) -> tuple[GenerationSettings, frozenset[str] | None]:
    """The settings that `values` tell, and the names of those that were given (None: all).

    What is missing or not of the expected type stands at its default; unknown names are ignored.
    """
    own = _told(values)
    own = GenerationSettings.arranged({**own, "speculation": _told(own.get("speculation"))})
    groups = {"": own, **{name: _told(own.get(name)) for name in NESTED}}
    fitting: dict[str, dict[str, Any]] = {name: {} for name in groups}
    for entry in OF_RUN:
        told = groups[entry.group]
        if entry.key in told and fits(told[entry.key], _KINDS[entry.key]):
            fitting[entry.group][entry.key] = told[entry.key]
    given = frozenset(key for group in fitting.values() for key in group)
    nested: dict[str, Any] = {name: kind(**fitting[name]) for name, kind in NESTED.items()}
    return GenerationSettings(**fitting[""], **nested), None if len(given) == len(OF_RUN) else given


def _told(values: object) -> dict[str, Any]:
    return values if isinstance(values, dict) else {}


_RECORDS: tuple[Any, ...] = (GenerationSettings, *NESTED.values())
_KINDS: dict[str, Any] = {name: kind for record in _RECORDS for name, kind in hints_of(record).items()}
