"""The options of a run, and the request they make."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from evprof.cli.command import advanced
from evprof.cli.options import (
    add_model_options,
    add_pair_options,
    add_part_options,
    add_sessions_option,
    add_setting,
    add_setting_options,
    add_timeout_option,
    check_least,
    choice_of,
    existing,
    given_settings,
    option_of,
    settings_of,
    us_of,
)
from evprof.core.errors import USAGE, UserError
from evprof.core.records import DRAFT, TARGET
from evprof.core.request import OF_MEASURING, RunRequest, TraceSettings
from evprof.core.sample import Sample, clip_name
from evprof.core.vocabulary.drafters import KV
from evprof.core.vocabulary.generation import ModelChoice
from evprof.core.vocabulary.modes import KV_ADAPTED, MODES, SIDE_BY_SIDE, SPECULATIVE, mode_of
from evprof.core.vocabulary.setting import Situation
from evprof.core.vocabulary.settings import SETTINGS, counts
from evprof.loaders.adapters import AdapterInfo, check_mode, drafter_of


def add_run_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to run")
    group.add_argument("--events", metavar="PATH", help="an event recording, or a folder of PNG event frames")
    group.add_argument("--video", metavar="PATH", help="any video that FFmpeg opens, or a folder of pictures")
    group.add_argument("--sample", metavar="DIR", help="a folder of an event recording and its video, such as DSEC's")
    group.add_argument("--prompt", metavar="TEXT", help="the question (default: the bundled sample's)")
    add_pair_options(group)
    group.add_argument(
        "--mode",
        choices=MODES,
        help="default: side-by-side with both inputs, draft with events only, target with video",
    )
    group = parser.add_argument_group("which part of it")
    add_part_options(group)
    advanced(
        group.add_argument(
            "--video-offset-ms", type=float, metavar="MS", help="when the video begins on the events' clock"
        )
    )
    add_setting_options(parser)
    add_model_options(parser)
    group = parser.add_argument_group("machine")
    for entry in OF_MEASURING:
        add_setting(group, entry, default=entry.default)
    add_sessions_option(group)
    add_timeout_option(group)
    group.add_argument("--torch-trace", metavar="DIR", help="repeat once under torch.profiler, for TensorBoard")
    for name, words in (
        ("--trace-tokens", {"type": int, "metavar": "N", "help": "decode steps in that trace (default: 8)"}),
        (
            "--nvtx",
            {"action": "store_true", "help": "repeat once with NVTX ranges of stages, rounds and tokens, for Nsight"},
        ),
    ):
        advanced(group.add_argument(name, **words))


def request_of(options: argparse.Namespace) -> RunRequest:
    """The request as it was typed; `preflight.check_request` validates it.

    Raises UserError: exit code 1 for a missing file, 2 for options that contradict each other.
    """
    sample = _sample(options)
    drafter, adapter = drafter_of(options.drafter, options.adapter)
    mode = options.mode or _drafters_mode(options, adapter) or _inferred_mode(sample)
    _check_mode(options, adapter)
    settings = settings_of(options)
    folder = None if adapter is None else str(adapter.folder)
    speculation = replace(settings.speculation, drafter=drafter, adapter=folder)
    roles = mode_of(mode).roles
    return RunRequest(
        mode=mode,
        sample=sample,
        draft=_model(options, DRAFT) if DRAFT in roles else None,
        target=_model(options, TARGET) if TARGET in roles else None,
        settings=replace(settings, speculation=speculation),
        warmup=options.warmup,
        repeat=options.repeat,
        trace=_trace(options),
        nvtx=options.nvtx,
    )


def idle_sentences(options: argparse.Namespace, request: RunRequest) -> list[str]:
    """Of every setting that was given and changes nothing in this run: its option, and why."""
    here = Situation(request.mode, request.settings.flat(), keeps_roles=True)
    idle = {SETTINGS[key].flag: counts(key, here) for key in given_settings(options)}
    return [f"{flag} changes nothing here: {why}" for flag, why in idle.items() if why]


def _sample(options: argparse.Namespace) -> Sample:
    """The sample, or the part of it, with the prompt. Without any input the bundled one, as a whole."""
    given = {}
    if options.prompt is not None:
        _check_prompt(options.prompt)
        given = {"prompt": options.prompt}
    if options.sample is not None:
        if options.events is not None or options.video is not None:
            raise UserError("--sample names events and video itself; leave --events and --video out.", exit_code=USAGE)
        from evprof.loaders.sequences.sequence import open_sequence

        sample = open_sequence(str(existing(options.sample, "--sample"))).sample()
    elif options.events is None and options.video is None:
        from evprof.loaders.bundled import bundled_sample

        sample = bundled_sample()
    else:
        sample = Sample(
            events_path=existing(options.events, "--events"),
            video_path=existing(options.video, "--video"),
            name=Path(options.events or options.video).stem,
        )
    return _clip(replace(sample, **given), options)


def _clip(sample: Sample, options: argparse.Namespace) -> Sample:
    for option, half, what in (
        ("video_offset_ms", sample.video_path, "a video"),
        ("video_times", sample.video_path, "a video"),
        ("rectify", sample.events_path, "an event recording"),
    ):
        if getattr(options, option) is not None and half is None:
            raise UserError(f"{option_of(option)} needs {what}, and there is none.", exit_code=USAGE)
    start_us, duration_us = (us_of(options, name) for name in ("start_ms", "duration_ms"))
    offset_us = us_of(options, "video_offset_ms")
    if (start_us, duration_us) != (None, None):
        _check_has_times(sample)
        sample = replace(sample, start_us=start_us, duration_us=duration_us, name=clip_name(sample.name, start_us or 0))
    return replace(
        sample,
        video_offset_us=sample.video_offset_us if offset_us is None else offset_us,
        video_times_path=existing(options.video_times, "--video-times") or sample.video_times_path,
        rectify_path=existing(options.rectify, "--rectify") or sample.rectify_path,
    )


def _check_has_times(sample: Sample) -> None:
    from evprof.loaders.pictures.frame_folder import is_frame_set

    path = sample.events_path
    if path is not None and (Path(path).is_dir() or is_frame_set(path)):
        raise UserError(
            f"--events: the pictures in '{path}' carry no times, so no clip can be cut from them; leave --start-ms and "
            "--duration-ms out.",
            exit_code=USAGE,
        )


def _check_prompt(prompt: str) -> None:
    if not prompt.strip():
        raise UserError("The prompt is empty; ask something with --prompt.", exit_code=USAGE)
    try:
        prompt.encode()
    except UnicodeEncodeError:
        # Bytes of a command line that are no UTF-8 arrive as lone surrogates, which no vocabulary takes.
        raise UserError(
            "The --prompt holds bytes that are no UTF-8 text; write it in UTF-8.", exit_code=USAGE
        ) from None


def _drafters_mode(options: argparse.Namespace, adapter: AdapterInfo | None) -> str | None:
    """The mode that a named drafter implies; None where none is named."""
    if options.drafter is None and options.adapter is None:
        return None
    return KV_ADAPTED if adapter is not None and adapter.kind == KV else SPECULATIVE


def _inferred_mode(sample: Sample) -> str:
    """Both inputs: side-by-side; only events: draft; only video: target."""
    if sample.events_path and sample.video_path:
        return SIDE_BY_SIDE
    return "draft" if sample.events_path else "target"


def _check_mode(options: argparse.Namespace, adapter: AdapterInfo | None) -> None:
    named = next((name for name in ("drafter", "adapter") if getattr(options, name) is not None), None)
    if named is None or options.mode is None:
        return
    if not mode_of(options.mode).is_paired:
        raise UserError(f"--{named} says who drafts, and in mode {options.mode} nobody does.", exit_code=USAGE)
    if adapter is not None:
        check_mode(adapter, options.mode)


def _model(options: argparse.Namespace, role: str) -> ModelChoice:
    choice = choice_of(options, role, getattr(options, role))
    return replace(choice, clip=existing(choice.clip, "--clip"))


def _trace(options: argparse.Namespace) -> TraceSettings | None:
    if options.torch_trace is None:
        if options.trace_tokens is not None:
            raise UserError("--trace-tokens says how long a trace is; add --torch-trace LOGDIR.", exit_code=USAGE)
        return None
    check_least(options, trace_tokens=1)
    tokens = 8 if options.trace_tokens is None else options.trace_tokens
    return TraceSettings(str(Path(options.torch_trace).resolve()), tokens)
