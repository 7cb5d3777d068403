"""The options of `evprof inspect` that ask whether a model, or a pair, fits, and the question they make."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from evprof.core.errors import USAGE, UserError
from evprof.core.request import DTYPES, GenerationSettings, ModelChoice
from evprof.core.switches import ATTENTIONS, CACHES, QUANTIZATIONS, Switches

if TYPE_CHECKING:
    from engines.fit.verdict import FitQuestion


def add_fit_options(parser: argparse.ArgumentParser) -> None:
    """Adds them; every default is None, so that one that was given is known to have been."""
    group = parser.add_argument_group("whether a checkpoint fits")
    group.add_argument("--with", dest="other", metavar="MODEL", help="the other model of the pair")
    for prefix, meaning in (("", "of the checkpoint"), ("with-", "of the other model")):
        group.add_argument(f"--{prefix}device", metavar="D", help=f"auto, cpu, cuda or cuda:N; {meaning}")
        group.add_argument(f"--{prefix}dtype", choices=DTYPES, help=meaning)
        group.add_argument(f"--{prefix}quant", choices=QUANTIZATIONS, help=f"weights {meaning}")
    group.add_argument("--clip", metavar="FOLDER", help="CLIP tower for an EventGPT checkpoint that holds none")
    group.add_argument("--memory", metavar="SIZE", help="answer for devices with so much free (24GB), not for this one")
    group.add_argument("--max-new-tokens", type=int, metavar="N", help="length of the answer (default: 128)")
    group.add_argument("--event-frames", type=int, metavar="N", help="event frames (default: the model's own number)")
    group.add_argument("--cache", choices=CACHES, help="KV cache (default: auto)")
    group.add_argument("--attention", choices=ATTENTIONS, help="default: auto")
    group.add_argument("--prefill-chunk", type=int, metavar="N", help="positions per prefill pass (default: all)")
    group.add_argument("--visual-keep", type=float, metavar="SHARE", help="share of visual tokens kept (default: 1)")


_GIVEN = {
    "other": "--with",
    **{name: f"--{name.replace('_', '-')}" for name in ("device", "dtype", "quant", "clip", "memory", "cache")},
    **{f"with_{name}": f"--with-{name}" for name in ("device", "dtype", "quant")},
    "max_new_tokens": "--max-new-tokens",
    "event_frames": "--event-frames",
    "attention": "--attention",
    "prefill_chunk": "--prefill-chunk",
    "visual_keep": "--visual-keep",
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
    from evprof.cli.run.options import existing

    if options.other is None:
        missing = next((f"--with-{name}" for name in ("device", "dtype", "quant") if _value(options, name)), None)
        if missing is not None:
            raise UserError(f"{missing} is about the other model; name it with --with MODEL.", exit_code=USAGE)
    settings = _settings(options)
    clip = existing(options.clip, "--clip")
    model = ModelChoice(
        options.path, options.device or "auto", options.dtype or "auto", quantization=options.quant, clip=clip
    )
    other = None
    if options.other is not None:
        other = ModelChoice(
            options.other,
            options.with_device or options.device or "auto",
            options.with_dtype or options.dtype or "auto",
            quantization=options.with_quant,
            clip=clip,
        )
    memory = None if options.memory is None else memory_size(options.memory)
    return FitQuestion(model, other, settings, memory)


def _value(options: argparse.Namespace, name: str) -> Any:
    return getattr(options, f"with_{name}")


def _settings(options: argparse.Namespace) -> GenerationSettings:
    defaults = GenerationSettings()
    switches = Switches(
        attention=options.attention or "auto",
        cache=options.cache or "auto",
        prefill_chunk=options.prefill_chunk or 0,
        visual_keep=1.0 if options.visual_keep is None else options.visual_keep,
    )
    alone = options.frames if options.other is None else None
    settings = GenerationSettings(
        max_new_tokens=defaults.max_new_tokens if options.max_new_tokens is None else options.max_new_tokens,
        frames=options.frames,
        event_frames=options.event_frames if options.event_frames is not None else alone,
        switches=switches,
    )
    settings.validate()
    return settings
