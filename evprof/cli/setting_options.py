"""Options of settings, as the vocabulary describes them, and the settings that were given by them.

Every option is absent unless it was given, so that a command knows what was asked for; defaults are the settings' own.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from evprof.cli.sample_options import option_of
from evprof.core.records import DRAFT, TARGET
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.setting import Setting
from evprof.core.vocabulary.settings import SETTINGS, with_value
from evprof.run.demo import BUNDLED_DRAFT, BUNDLED_TARGET

_NOT_TYPED = frozenset({"command", "instance", "whole_parser", "debug", "quiet", "json", "output"})
"""Of every command: its name, what carries it out, and how its result is told."""

_METAVARS = {int: "N", float: "X", str: "TEXT"}
_TITLES = {"": "generation", "input": "how inputs are shown", "switches": "optimizations", "speculation": "speculation"}


def add_setting_options(parser: argparse.ArgumentParser) -> None:
    """Adds an option for every setting of a run, grouped by what it concerns."""
    for group, title in _TITLES.items():
        options = parser.add_argument_group(title)
        for entry in SETTINGS.values():
            if entry.group == group:
                add_setting(options, entry)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of where models run and in which arithmetic: for both, for the draft, for the target."""
    group = parser.add_argument_group("models")
    for entry in (entry for entry in SETTINGS.values() if entry.group == "model"):
        add_setting(group, entry)
        if entry.is_per_role:
            for role in (DRAFT, TARGET):
                add_setting(group, entry, role)


def add_pair_options(group: argparse._ActionsContainer) -> None:
    """Adds which models take part: the bundled pair by default."""
    group.add_argument(
        "--draft", metavar="MODEL", default=BUNDLED_DRAFT, help="reads the events (default: %(default)s)"
    )
    group.add_argument(
        "--target", metavar="MODEL", default=BUNDLED_TARGET, help="watches the video (default: %(default)s)"
    )


def add_setting(group: argparse._ActionsContainer, entry: Setting, role: str = "", *, default: Any = None) -> None:
    """Adds one setting's option, or that of one model; `default`: the command's own value where it was not given."""
    flag = entry.role_flag(role) if role else entry.flag
    words: dict[str, Any] = {"dest": dest_of(entry, role), "default": default}
    words["help"] = f"the {role} only" if role else _help(entry, default)
    if entry.kind is bool:
        group.add_argument(flag, action="store_const", const=not entry.default, **words)
        return
    if entry.known:
        words["choices"] = [value for value in entry.known if value is not None]
    else:
        words["metavar"] = entry.metavar or _METAVARS[entry.kind]
    group.add_argument(flag, type=entry.kind, **words)


def settings_of(options: argparse.Namespace) -> GenerationSettings:
    """The settings that were given, the others at their defaults. The drafter is taken as it was typed."""
    settings = GenerationSettings()
    for key, value in given_settings(options).items():
        settings = with_value(settings, key, value)
    return settings


def given_settings(options: argparse.Namespace) -> dict[str, Any]:
    """The settings of a run that were given, by key."""
    found = {entry.key: getattr(options, dest_of(entry), None) for entry in SETTINGS.values() if entry.group != "model"}
    return {key: value for key, value in found.items() if value is not None}


def given_models(options: argparse.Namespace) -> dict[str, Any]:
    """What was given of the models, by the words of a suite; what was given for both counts for each."""
    found = {role: getattr(options, role) for role in (DRAFT, TARGET)}
    for entry in SETTINGS.values():
        if entry.group == "model":
            own = getattr(options, dest_of(entry))
            found[entry.key] = own
            if entry.is_per_role:
                found |= {
                    dest_of(entry, role): _first(options, dest_of(entry, role)) or own for role in (DRAFT, TARGET)
                }
    return {key: value for key, value in found.items() if value is not None}


def choice_of(options: argparse.Namespace, role: str, name: str) -> ModelChoice:
    """The model of a role with what was given for it, or for both models."""
    given = {
        entry.key: value
        for entry in SETTINGS.values()
        if entry.group == "model" and (value := _first(options, dest_of(entry, role), dest_of(entry))) is not None
    }
    return ModelChoice(name, **given)


def typed_words(options: argparse.Namespace, left_out: Iterable[str]) -> list[str]:
    """The options that were given, as they would be typed again, but for --json, the output and `left_out`."""
    settings = {dest_of(entry, role): (entry, role) for entry in SETTINGS.values() for role in ("", DRAFT, TARGET)}
    skipped, words = _NOT_TYPED.union(left_out), list[str]()
    for name, value in vars(options).items():
        if name in skipped:
            continue
        if isinstance(value, list):
            words += [word for each in value for word in (option_of(name), str(each))]
        elif name in settings:
            entry, role = settings[name]
            words += entry.words(value, role)
        elif value not in (None, False):
            words += [option_of(name), *([] if value is True else [str(value)])]
    return words


def dest_of(entry: Setting, role: str = "") -> str:
    """Where argparse keeps a setting's value."""
    return f"{role}_{entry.key}" if role else entry.key


def _first(options: argparse.Namespace, *names: str) -> Any:
    return next((value for name in names if (value := getattr(options, name, None)) is not None), None)


def _help(entry: Setting, value: Any = None) -> str:
    words = dict(entry.choices)
    if entry.kind is bool:
        return f"{entry.name}: {words[not entry.default]}. {entry.sentence}".replace("%", "%%")
    listed = f" Such as {', '.join(filter(None, words))}." if entry.is_free else ""
    default = _default_text(entry, words, entry.default if value is None else value)
    return f"{entry.sentence}{listed}{default}".replace("%", "%%")


def _default_text(entry: Setting, words: dict[Any, str], value: Any) -> str:
    """The default as it is typed, or in words where nothing is typed for it."""
    if value is None or value == "":
        told = words.get(value, entry.low)
    else:
        told = f"{value:g}" if isinstance(value, float) else str(value)
        told += f" ({entry.low})" if entry.low and value == entry.least else ""
    return f" Default: {told}." if told else ""
