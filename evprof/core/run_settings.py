"""The settings of a run by name and in JSON: all of them, or of an imported or older run those that were given."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import is_dataclass
from functools import cache
from typing import Any

from evprof.core.plain import Check, check_of, hints_of, is_record
from evprof.core.request import GenerationSettings


def flat(settings: GenerationSettings) -> dict[str, Any]:
    """Every setting by its own name: those of input, switches and speculation follow the others."""
    found: dict[str, Any] = {}
    for name, value in vars(settings).items():
        found |= vars(value) if is_dataclass(value) else {name: value}
    return found


def settings_to_json(settings: GenerationSettings, given: Collection[str]) -> dict[str, Any]:
    """Plain values of the settings that were `given`."""
    told: dict[str, Any] = {}
    for name, value in vars(settings).items():
        if not is_dataclass(value):
            told |= {name: value} if name in given else {}
        elif group := {key: entry for key, entry in vars(value).items() if key in given}:
            told[name] = group
    return told


def settings_from_json(values: object) -> tuple[GenerationSettings, frozenset[str] | None]:
    """The settings that `values` tell, and the names of those that were given (None: all).

    What is missing or not of the expected type stands at its default; unknown names are ignored.
    """
    given: set[str] = set()
    settings: GenerationSettings = _record(GenerationSettings, values, given)
    return settings, None if given == flat(settings).keys() else frozenset(given)


def _record(kind: Any, values: object, given: set[str]) -> Any:
    told = values if isinstance(values, dict) else {}
    found: dict[str, Any] = {}
    for name, hint, is_fitting in _fields(kind):
        if is_record(hint):
            found[name] = _record(hint, told.get(name), given)
        elif name in told and is_fitting(told[name]):
            found[name] = told[name]
            given.add(name)
    return kind(**found)


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any, Check], ...]:
    return tuple((name, hint, check_of(hint)) for name, hint in hints_of(kind).items())
