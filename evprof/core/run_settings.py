"""The settings of a run in JSON: all of them, or of an imported or older run those that were given."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

from evprof.core.plain import fits, hints_of
from evprof.core.vocabulary.generation import GAMMA, NESTED, OF_RUN, GenerationSettings


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
        if entry.key in told and fits(told[entry.key], _kinds()[entry.key]):
            fitting[entry.group][entry.key] = told[entry.key]
    given = frozenset(key for group in fitting.values() for key in group)
    nested: dict[str, Any] = {name: kind(**fitting[name]) for name, kind in NESTED.items()}
    return GenerationSettings(**fitting[""], **nested), None if len(given) == len(OF_RUN) else given


def _told(values: object) -> dict[str, Any]:
    return values if isinstance(values, dict) else {}


@cache
def _kinds() -> dict[str, Any]:
    records: tuple[Any, ...] = (GenerationSettings, *NESTED.values())
    return {name: kind for record in records for name, kind in hints_of(record).items()}
