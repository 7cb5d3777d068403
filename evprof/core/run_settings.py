"""The settings of a run by name and in JSON: all of them, or of an imported or older run those that were given."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import is_dataclass
from typing import Any

from evprof.core.plain import fits, hints_of
from evprof.core.request import GenerationSettings


def flat(settings: GenerationSettings) -> dict[str, Any]:
    """Every setting by its own name: those of input, switches and speculation follow the others."""
    found: dict[str, Any] = {}
    for name, value in vars(settings).items():
        found |= vars(value) if is_dataclass(value) else {name: value}
    return found


def settings_to_json(settings: GenerationSettings, given: Collection[str] | None) -> dict[str, Any]:
    """Plain values of the settings that were `given`; None: of all."""
    if given is None:
        return settings.to_json()
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
    for name, hint in hints_of(kind).items():
        if is_dataclass(hint):
            found[name] = _record(hint, told.get(name), given)
        elif name in told and fits(told[name], hint):
            found[name] = told[name]
            given.add(name)
    return kind(**found)
