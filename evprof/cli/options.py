"""Options that several commands share: settings of a run, samples, models, engine processes, machines.

An option of a setting is absent unless it was given, so that a command knows what was requested; defaults are the
settings' own.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from evprof.cli.command import advanced
from evprof.core.errors import UsageError, UserError
from evprof.core.records import DRAFT, TARGET
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.setting import Setting
from evprof.core.vocabulary.settings import SETTINGS, with_value
from evprof.run.requests import BUNDLED_DRAFT, BUNDLED_TARGET

_NOT_TYPED = frozenset({"command", "instance", "whole_parser", "debug", "quiet", "json", "output"})
"""Values of every command that no option of its own sets."""

_METAVARS = {int: "N", float: "X", str: "TEXT"}
_TITLES = {"": "generation", "input": "how inputs are shown", "switches": "optimizations", "speculation": "speculation"}

BASES = ("end-to-end", "without-load", "model-only")
"""What totals count (`evprof.metrics.figures.stages`, which takes longer to import)."""

_MOST_TIMEOUT_S = 86_400
_MOST_PROCESSES = 1000


def add_session_option(parser: argparse.ArgumentParser, where: str = "") -> None:
    kept = f"session to write or to append to{where} (default: a new one in the user's data folder)"
    parser.add_argument("-o", "--output", metavar="S.evprof", type=Path, help=kept)


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")


def add_comparable_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--require-comparable",
        action="store_true",
        help="fail (exit code 1) where runs differ in machine, software, a model's files, prompt or sample",
    )


def add_processes_option(group: argparse._ActionsContainer, usual: int = 1) -> None:
    """Adds the number of engine processes; None without the option, which means `usual`."""
    group.add_argument(
        "--processes",
        type=_count,
        metavar="N",
        help=f"measure in N fresh engine processes, one after the other (default: {usual})",
    )
    # The name of the releases before this one.
    group.add_argument("--sessions", dest="processes", type=_count, default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def add_ray_options(
    group: argparse._ActionsContainer,
    work: str = "measure on all GPUs",
    share: str = "without GPUs: an engine for every N CPU threads of a machine (default: one with all of them)",
) -> None:
    advanced(
        group.add_argument(
            "--ray",
            metavar="auto|local|ADDRESS",
            help=f"{work} of this machine (local) or of a cluster of Ray, by its head's address; auto: of the cluster "
            "that runs, else of this machine; needs evprof[ray]",
        )
    )
    advanced(group.add_argument("--ray-threads", type=_count, metavar="N", help=share))


def add_timeout_option(group: argparse._ActionsContainer) -> None:
    """Adds after how long without progress an engine process ends; None without the option."""
    advanced(
        group.add_argument(
            "--timeout",
            type=_seconds,
            metavar="SECONDS",
            help="end the engine after so long without progress (then it runs in a process of its own); loading, "
            "compiling or one long prefill may take minutes (default: a warning after a minute, and no end)",
        )
    )


def _seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= _MOST_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"must be a number of seconds from 1 to {_MOST_TIMEOUT_S}, not {word}")
    return seconds


def _count(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and 1 <= int(word) <= _MOST_PROCESSES):
        raise argparse.ArgumentTypeError(f"must be a number from 1 to {_MOST_PROCESSES}, not {word}")
    return int(word)


def add_list_options(group: argparse._ActionsContainer) -> None:
    group.add_argument("--root", metavar="DIR", help="where the paths of the list start (default: its folder)")
    group.add_argument(
        "--questions", choices=("first", "all"), help="of an entry with several questions (default: first)"
    )
    group.add_argument("--limit", type=int, metavar="N", help="take the first N samples")


def add_part_options(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--start-ms", type=float, metavar="MS", help="begin MS ms after the earliest event or first frame"
    )
    group.add_argument("--duration-ms", type=float, metavar="MS", help="take so many ms (default: to the end)")
    advanced(group.add_argument("--video-times", metavar="FILE", help="text with the µs of every picture of a folder"))
    advanced(group.add_argument("--rectify", metavar="MAP.h5", help="DSEC rectification map for the events"))


def add_pair_options(group: argparse._ActionsContainer) -> None:
    for role, default, does in (
        (DRAFT, BUNDLED_DRAFT, "reads the events"),
        (TARGET, BUNDLED_TARGET, "watches the video"),
    ):
        group.add_argument(f"--{role}", metavar="MODEL", default=default, help=f"{does} (default: %(default)s)")


def add_setting_options(parser: argparse.ArgumentParser) -> None:
    for group, title in _TITLES.items():
        options = parser.add_argument_group(title)
        for entry in SETTINGS.values():
            if entry.group == group:
                add_setting(options, entry)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("models")
    for entry in (entry for entry in SETTINGS.values() if entry.group == "model"):
        add_setting(group, entry)
        if entry.is_per_role:
            for role in (DRAFT, TARGET):
                advanced(add_setting(group, entry, role))


def add_setting(
    group: argparse._ActionsContainer, entry: Setting, role: str = "", *, default: Any = None
) -> argparse.Action:
    """Adds one setting's option, or that of one model; `default`: the command's own value without the option."""
    flag = entry.role_flag(role) if role else entry.flag
    words: dict[str, Any] = {"dest": dest_of(entry, role), "default": default}
    words["help"] = f"the {role} only" if role else _help(entry, default)
    if entry.kind is bool:
        action = group.add_argument(flag, action="store_const", const=not entry.default, **words)
    elif entry.known:
        choices = [value for value in entry.known if value is not None]
        action = group.add_argument(flag, type=entry.kind, choices=choices, **words)
    else:
        metavar = entry.metavar or _METAVARS[entry.kind]
        action = group.add_argument(flag, type=entry.kind, metavar=metavar, **words)
    return advanced(action) if entry.is_advanced else action


def settings_of(options: argparse.Namespace) -> GenerationSettings:
    """The settings that were given, the others at their defaults. The drafter is taken as it was typed."""
    settings = GenerationSettings()
    for key, value in given_settings(options).items():
        settings = with_value(settings, key, value)
    return settings


def given_settings(options: argparse.Namespace) -> dict[str, Any]:
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
    return f"{role}_{entry.key}" if role else entry.key


def option_of(name: str) -> str:
    """How a person types it: `--start-ms` of `start_ms`."""
    return f"--{name.replace('_', '-')}"


def us_of(options: argparse.Namespace, name: str) -> int | None:
    """An option in ms as µs. Raises UserError (exit code 2) for a number that is no time."""
    value: float | None = getattr(options, name)
    if value is None:
        return None
    if not abs(value) < 1e12:
        raise UsageError(f"{option_of(name)} must be a time in ms, not {value}.")
    return round(value * 1000)


def check_least(options: argparse.Namespace, **least: int) -> None:
    """Raises UserError (exit code 2) for a count that was given and lies below its minimum."""
    for name, lowest in least.items():
        count = getattr(options, name)
        if count is not None and count < lowest:
            raise UsageError(f"{option_of(name)} must be at least {lowest}, not {count}.")


def existing(path: str | None, option: str) -> str | None:
    """The absolute path. Raises UserError when nothing is there."""
    if path is None:
        return None
    from evprof.loaders.pictures.frame_folder import frame_paths, is_frame_set

    if is_frame_set(path):
        frame_paths(path)
    elif not Path(path).exists():
        from evprof.cli.preflight import nearest_path

        raise UserError(
            f"{option}: there is no file or folder '{path}'{nearest_path(Path(path)) or '; check the path.'}"
        )
    return str(Path(path).resolve())


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
    if value is None or value == "":
        text = words.get(value, entry.range.low)
    else:
        text = f"{value:g}" if isinstance(value, float) else str(value)
        text += f" ({entry.range.low})" if entry.range.low and value == entry.range.least else ""
    return f" Default: {text}." if text else ""
