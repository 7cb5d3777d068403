"""The options of `evprof inspect` that ask whether a model, or a pair, fits, and the question they make."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from evprof.cli.setting_options import add_setting, choice_of, settings_of
from evprof.core.errors import USAGE, UserError
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.settings import SETTINGS

if TYPE_CHECKING:
    from engines.fit.verdict import FitQuestion


def add_fit_options(parser: argparse.ArgumentParser) -> None:
    """Adds them; every default is None, so that one that was given is known to have been."""
    group = parser.add_argument_group("whether a checkpoint fits")
    group.add_argument("--with", dest="other", metavar="MODEL", help="the other model of the pair")
    for key in _OF_MODEL:
        add_setting(group, SETTINGS[key])
        add_setting(group, SETTINGS[key], "with")
    group.add_argument("--memory", metavar="SIZE", help="answer for devices with so much free (24GB), not for this one")
    for key in ("clip", *_OF_RUN):
        add_setting(group, SETTINGS[key])


_OF_MODEL = ("device", "dtype", "quantization")
_OF_RUN = ("max_new_tokens", "event_frames", "cache", "attention", "prefill_chunk", "visual_keep")
"""Settings that change what a model takes."""

_GIVEN = {
    "other": "--with",
    "memory": "--memory",
    **{key: SETTINGS[key].flag for key in ("clip", *_OF_MODEL, *_OF_RUN)},
    **{f"with_{key}": SETTINGS[key].role_flag("with") for key in _OF_MODEL},
}


def refuse_fit_options(options: argparse.Namespace, kind: str) -> None:
    """Raises UserError (exit code 2) when one of them was given for something that is no checkpoint."""
    given = [option for name, option in _GIVEN.items() if getattr(options, name) is not None]
    if given:
        raise UserError(f"{given[0]} asks about a checkpoint, but {options.path} is a {kind}.", exit_code=USAGE)


def fit_question(options: argparse.Namespace) -> FitQuestion:
    """What is asked. `--frames` of a checkpoint alone are its own, of whichever kind.

    Raises UserError (exit code 2) for values that mean nothing.
    """
    from engines.fit.verdict import FitQuestion, memory_size
    from evprof.cli.sample_options import existing

    if options.other is None:
        for key in _OF_MODEL:
            if getattr(options, f"with_{key}") is not None:
                flag = SETTINGS[key].role_flag("with")
                raise UserError(f"{flag} is about the other model; name it with --with MODEL.", exit_code=USAGE)
    settings = _settings(options)
    model = replace(choice_of(options, "", options.path), clip=existing(options.clip, "--clip"))
    other = None
    if options.other is not None:
        other = replace(
            choice_of(options, "with", options.other), quantization=options.with_quantization, clip=model.clip
        )
    memory = None if options.memory is None else memory_size(options.memory)
    return FitQuestion(model, other, settings, memory)


def _settings(options: argparse.Namespace) -> GenerationSettings:
    settings = settings_of(options)
    if options.other is None and settings.event_frames is None:
        settings = replace(settings, event_frames=settings.frames)
    settings.validate()
    return settings
