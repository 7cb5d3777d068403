"""The options of a run, and the request they make."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

from evprof.cli.command import add_sessions_option, add_timeout_option
from evprof.cli.sample_options import add_part_options, check_least, existing, option_of, us_of
from evprof.cli.setting_options import add_pair_options, add_setting, choice_of, given_settings, settings_of
from evprof.core.errors import USAGE, UserError
from evprof.core.records import DRAFT, TARGET
from evprof.core.request import OF_MEASURING, RunRequest, TraceSettings
from evprof.core.sample import Sample, clip_name
from evprof.core.vocabulary.drafters import KV
from evprof.core.vocabulary.generation import ModelChoice
from evprof.core.vocabulary.modes import KV_ADAPTED, MODES, SIDE_BY_SIDE, SPECULATIVE, mode_of
from evprof.core.vocabulary.setting import Situation
from evprof.core.vocabulary.settings import SETTINGS, counts
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.loaders.adapters import AdapterInfo, check_mode, drafter_of


def add_input_options(parser: argparse.ArgumentParser) -> None:
    """Adds what is asked about: inputs, prompt, models, mode."""
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
    add_clip_options(parser)


def add_clip_options(parser: argparse.ArgumentParser) -> None:
    """Adds which part of the recordings is meant, and how their clocks relate."""
    group = parser.add_argument_group("which part of it")
    add_part_options(group)
    group.add_argument("--video-offset-ms", type=float, metavar="MS", help="when the video begins on the events' clock")


def add_machine_options(parser: argparse.ArgumentParser) -> None:
    """Adds where models run, how often, and what is traced."""
    group = parser.add_argument_group("machine")
    for entry in OF_MEASURING:
        add_setting(group, entry, default=entry.default)
    add_sessions_option(group)
    add_timeout_option(group)
    group.add_argument("--torch-trace", metavar="DIR", help="repeat once under torch.profiler, for TensorBoard")
    group.add_argument("--trace-tokens", type=int, metavar="N", help="decode steps in that trace (default: 8)")
    group.add_argument(
        "--memory-snapshot", metavar="FILE", help="repeat once recording what CUDA's allocator does, for memory_viz"
    )
    group.add_argument(
        "--nvtx", action="store_true", help="repeat once with NVTX ranges of stages, rounds and tokens, for Nsight"
    )


@dataclass(frozen=True)
class RunInputs:
    """A sample whose inputs exist, and the mode that fits it."""

    sample: Sample
    mode: str


def question_of(options: argparse.Namespace) -> RunInputs:
    """Inputs, prompt and mode. Without any input the bundled sample; it never fills in for a missing half.

    Raises UserError for a missing file (exit code 1), and for a prompt that is empty or no text (2).
    """
    if options.prompt is not None:
        _check_prompt(options.prompt)
    sample = clip_of(_whole(options), options)
    return RunInputs(sample, options.mode or mode_by_drafter(options) or inferred_mode(sample))


def _whole(options: argparse.Namespace) -> Sample:
    """The sample that is asked about, whole."""
    given = {"prompt": options.prompt} if options.prompt is not None else {}
    if options.sample is not None:
        if options.events is not None or options.video is not None:
            raise UserError("--sample names events and video itself; leave --events and --video out.", exit_code=USAGE)
        from evprof.loaders.sequences.sequence import open_sequence

        return replace(open_sequence(str(existing(options.sample, "--sample"))).sample(), **given)
    if options.events is None and options.video is None:
        from evprof.loaders.bundled import bundled_sample

        return replace(bundled_sample(), **given)
    return Sample(
        events_path=existing(options.events, "--events"),
        video_path=existing(options.video, "--video"),
        name=Path(options.events or options.video).stem,
        **given,
    )


def clip_of(sample: Sample, options: argparse.Namespace) -> Sample:
    """The part of a sample that the clip options name, under a name of its own; the sample itself without any.

    Raises UserError (exit code 2) for options that the sample has no use for, or numbers that are no time.
    """
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
        sample = replace(sample, start_us=start_us, duration_us=duration_us)
        sample = replace(sample, name=clip_name(sample.name, start_us or 0))
    found = replace(
        sample,
        video_offset_us=sample.video_offset_us if offset_us is None else offset_us,
        video_times_path=existing(options.video_times, "--video-times") or sample.video_times_path,
        rectify_path=existing(options.rectify, "--rectify") or sample.rectify_path,
    )
    found.validate()
    return found


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


def inferred_mode(sample: Sample) -> str:
    """Both inputs: side-by-side; only events: draft; only video: target."""
    if sample.events_path and sample.video_path:
        return SIDE_BY_SIDE
    return "draft" if sample.events_path else "target"


def request_of(options: argparse.Namespace) -> RunRequest:
    """The validated request. Raises UserError, exit code 2, for what cannot work together."""
    question = question_of(options)
    roles = mode_of(question.mode).roles
    request = RunRequest(
        mode=question.mode,
        sample=question.sample,
        draft=_model(options, DRAFT) if DRAFT in roles else None,
        target=_model(options, TARGET) if TARGET in roles else None,
        settings=replace(settings_of(options), speculation=speculation_of(options)),
        warmup=options.warmup,
        repeat=options.repeat,
        trace=_trace(options),
        snapshot=None if options.memory_snapshot is None else str(Path(options.memory_snapshot).resolve()),
        nvtx=options.nvtx,
    )
    request.validate()
    if request.snapshot is not None or request.nvtx:
        from engines.engine import check_gpu

        check_gpu(request)
    return request


def idle_sentences(options: argparse.Namespace, request: RunRequest) -> list[str]:
    """Of every setting that was typed and changes nothing in this run: its option, and why."""
    here = Situation(request.mode, request.settings.flat(), keeps_roles=True)
    told = {SETTINGS[key].flag: counts(key, here) for key in given_settings(options)}
    return [f"{flag} changes nothing here: {why}" for flag, why in told.items() if why]


def _model(options: argparse.Namespace, role: str) -> ModelChoice:
    found = choice_of(options, role, getattr(options, role))
    return replace(found, clip=existing(found.clip, "--clip"))


def _trace(options: argparse.Namespace) -> TraceSettings | None:
    if options.torch_trace is None:
        if options.trace_tokens is not None:
            raise UserError("--trace-tokens says how long a trace is; add --torch-trace LOGDIR.", exit_code=USAGE)
        return None
    check_least(options, trace_tokens=1)
    tokens = 8 if options.trace_tokens is None else options.trace_tokens
    return TraceSettings(str(Path(options.torch_trace).resolve()), tokens)


def speculation_of(options: argparse.Namespace) -> SpeculationSettings:
    """The settings asked for. Raises UserError (exit code 2) for a drafter that nobody knows or that contradicts."""
    drafter, info = drafter_of(options.drafter, options.adapter)
    _check_mode(options, info)
    folder = None if info is None else str(info.folder)
    return replace(settings_of(options).speculation, drafter=drafter, adapter=folder)


def mode_by_drafter(options: argparse.Namespace) -> str | None:
    """The mode that naming a drafter asks for; None where none is named."""
    if options.drafter is None and options.adapter is None:
        return None
    _, info = drafter_of(options.drafter, options.adapter)
    return KV_ADAPTED if info is not None and info.kind == KV else SPECULATIVE


def _check_mode(options: argparse.Namespace, info: AdapterInfo | None) -> None:
    asked = next((name for name in ("drafter", "adapter") if getattr(options, name) is not None), None)
    if asked is None or options.mode is None:
        return
    if not mode_of(options.mode).is_paired:
        raise UserError(f"--{asked} says who drafts, and in mode {options.mode} nobody does.", exit_code=USAGE)
    if info is not None:
        check_mode(info, options.mode)
