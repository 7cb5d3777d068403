"""`evprof run`: its options, the request that they make, and the runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evprof.cli.command import Command, CommandExample, advanced
from evprof.cli.options import (
    add_json_option,
    add_model_options,
    add_pair_options,
    add_part_options,
    add_processes_option,
    add_session_option,
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
from evprof.cli.terminal.console import Console
from evprof.core.errors import UsageError, UserError
from evprof.core.records import DRAFT, TARGET
from evprof.core.request import OF_MEASURING, RunRequest, TraceSettings
from evprof.core.run_info import FEWEST_TURNS
from evprof.core.sample import Sample, clip_name
from evprof.core.vocabulary.drafters import KV
from evprof.core.vocabulary.modes import KV_ADAPTED, MODES, SIDE_BY_SIDE, SPECULATIVE, mode_of
from evprof.core.vocabulary.setting import Situation
from evprof.core.vocabulary.settings import SETTINGS
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.loaders.adapters import AdapterInfo, check_mode, drafter_of

if TYPE_CHECKING:
    from evprof.core.records import BatchRow

_MOST_AT_ONCE = 256
"""Prompts of the largest batch."""


class RunCommand(Command):
    """Run models on a sample and save what was measured.

    Without --events and --video the bundled sample is used. A run that began is always saved and printed, whatever
    became of it. MODEL is a checkpoint folder, a hub id, or a name that `evprof inspect` lists: a bundled model, or a
    true shape with random weights for timing (random:…).

    Ctrl-C stops cleanly and keeps what was measured; a second Ctrl-C ends the program.
    """

    name = "run"
    examples = (
        CommandExample("evprof run", "run the bundled models on the bundled sample"),
        CommandExample(
            'evprof run --events scene.npy --prompt "What is in the scene?" -o scene.evprof',
            "ask a question about an event recording",
        ),
        CommandExample(
            "evprof run --events scene.npy --video scene.mp4 --mode speculative --gamma 4",
            "let the event model draft for the video model",
        ),
        CommandExample(
            "evprof run --mode target,speculative --drafter evprof-tiny-eagle -o pays.evprof",
            "measure plain and speculative decoding in turns",
        ),
        CommandExample(
            "evprof run --video scene.mp4 --target checkpoints/Video-LLaVA-7B --device cuda --dtype bfloat16",
            "run a checkpoint of your own on a GPU",
        ),
        CommandExample(
            "evprof run --events scene.raw --start-ms 1000 --duration-ms 500 --warmup 1 --repeat 5",
            "measure half a second of a longer recording five times",
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("what to run")
        group.add_argument("--events", metavar="PATH", help="an event recording, or a folder of PNG event frames")
        group.add_argument("--video", metavar="PATH", help="any video that FFmpeg opens, or a folder of pictures")
        group.add_argument(
            "--sample", metavar="DIR", help="a folder of an event recording and its video, such as DSEC's"
        )
        group.add_argument("--prompt", metavar="TEXT", help="the question (default: the bundled sample's)")
        add_pair_options(group)
        group.add_argument(
            "--mode",
            choices=_ListedModes(MODES),
            metavar="MODE,…",
            help=f"{', '.join(MODES)}, or several with commas between them, which run in turns (default: side-by-side "
            "with both inputs, draft with events only, target with video)",
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
            add_setting(group, entry)
        add_processes_option(group)
        add_timeout_option(group)
        group.add_argument("--torch-trace", metavar="DIR", help="repeat once under torch.profiler, for TensorBoard")
        tokens = "decode steps in that trace (default: 8)"
        advanced(group.add_argument("--trace-tokens", type=int, metavar="N", help=tokens))
        nvtx = "repeat once with NVTX ranges of stages, rounds and tokens, for Nsight"
        advanced(group.add_argument("--nvtx", action="store_true", help=nvtx))
        add_session_option(parser)
        batches = "after the runs, measure the speed with that many prompts at once"
        advanced(parser.add_argument("--batches", metavar="N,N,…", help=batches))
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        from evprof.cli import preflight
        from evprof.cli.run import recorded_session as recorded
        from evprof.cli.run.text import print_turns

        requests, sizes = requests_of(options), _batch_sizes(options.batches)
        if options.output is not None:
            recorded.check_place(options.output)
        for request in requests:
            preflight.check_request(request)
        for sentence in idle_sentences(options, requests):
            console.warn(sentence)
        if options.output is None:
            recorded.tidy_autosaved(console)
        path = options.output or recorded.default_session_path()
        with recorded.reserved_place(path):
            processes, timeout_s = options.processes or 1, options.timeout
            with recorded.RecordedSession(path, console, processes=processes, timeout_s=timeout_s) as session:
                session.run(*requests)
            recorded.note_models(session, requests)
            is_whole = bool(sizes) and not session.problem
            most = max(requests, key=lambda request: len(request.reading_roles))
            batches = _measure_batches(session.path, most, sizes, console) if is_whole else []
        return recorded.conclude(session, console, batches, print_turns if len(requests) > 1 else None)


def _batch_sizes(text: str | None) -> tuple[int, ...]:
    """`1,2,4` as numbers; none for None. Raises UserError (exit code 2)."""
    if text is None:
        return ()
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and 1 <= int(word) <= _MOST_AT_ONCE for word in words):
        raise UsageError(f"--batches takes sizes from 1 to {_MOST_AT_ONCE}, such as 1,2,4, not '{text}'.")
    return tuple(dict.fromkeys(int(word) for word in words))


def _measure_batches(session: Path, request: RunRequest, sizes: Sequence[int], console: Console) -> list[BatchRow]:
    """Measures the request's models in batches about its sample and adds the rows to the session, which must be closed.

    Reports what cannot be measured; Ctrl-C stops it and keeps the models that were done.
    """
    from engines.suites.document_facts import batch_facts
    from evprof.core.errors import Cancelled
    from evprof.core.records import BATCHES
    from evprof.run.processes.interrupts import stop_flag
    from evprof.session.facts import add_facts

    rows: list[BatchRow] = []
    with stop_flag() as stop:
        for role in request.reading_roles:
            console.note(f"{role}: measuring batches of {', '.join(map(str, sizes))}")
            try:
                rows += batch_facts(request, role, sizes, stop)
            except Cancelled:
                console.warn("stopped; the batches that were measured are kept")
                break
            except UserError as error:
                console.warn(f"No batches of the {role}: {error}")
    if rows:
        add_facts(session, {BATCHES: [row.to_json() for row in rows]})
    return rows


def requests_of(options: argparse.Namespace) -> list[RunRequest]:
    """A request for each mode that was named; `preflight.check_request` validates them.

    Raises UserError: exit code 1 for a missing file, 2 for options that contradict each other.
    """
    sample = _sample(options)
    drafter, adapter = drafter_of(options.drafter, options.adapter)
    modes = _modes(options, sample, adapter)
    settings = settings_of(options)
    folder = None if adapter is None else str(adapter.folder)
    drafting = replace(settings.speculation, drafter=drafter, adapter=folder)
    usual = FEWEST_TURNS if len(modes) > 1 else 1
    clip = existing(options.clip, "--clip")
    requests = []
    for mode in modes:
        models = {
            role: replace(choice_of(options, role, getattr(options, role)), clip=clip) for role in mode_of(mode).roles
        }
        is_drafting = len(modes) == 1 or mode_of(mode).is_paired
        request = RunRequest(
            mode=mode,
            sample=sample,
            draft=models.get(DRAFT),
            target=models.get(TARGET),
            settings=replace(settings, speculation=drafting if is_drafting else SpeculationSettings()),
            warmup=options.warmup,
            repeat=usual if options.repeat is None else options.repeat,
            trace=_trace(options),
            nvtx=options.nvtx,
        )
        requests.append(request)
    return requests


def idle_sentences(options: argparse.Namespace, requests: Sequence[RunRequest]) -> list[str]:
    """Of every setting that was given and changes nothing in any of these runs: its option, and why."""
    found: dict[str, list[str]] = {}
    for request in requests:
        here = Situation(request.mode, request.settings.flat(), keeps_roles=True)
        for key in given_settings(options):
            found.setdefault(SETTINGS[key].flag, []).append(SETTINGS[key].idle(here))
    return [f"{flag} changes nothing here: {reasons[0]}" for flag, reasons in found.items() if all(reasons)]


def _sample(options: argparse.Namespace) -> Sample:
    """The sample, or the part of it, with the prompt. Without any input the bundled one, as a whole."""
    given = {}
    if options.prompt is not None:
        _check_prompt(options.prompt)
        given = {"prompt": options.prompt}
    if options.sample is not None:
        if options.events is not None or options.video is not None:
            raise UsageError("--sample names events and video itself; leave --events and --video out.")
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
            raise UsageError(f"{option_of(option)} needs {what}, and there is none.")
    start_us, duration_us = (us_of(options, name) for name in ("start_ms", "duration_ms"))
    offset_us = us_of(options, "video_offset_ms")
    if (start_us, duration_us) != (None, None):
        from evprof.loaders.pictures.frame_folder import is_frame_set

        events = sample.events_path
        if events is not None and (Path(events).is_dir() or is_frame_set(events)):
            raise UsageError(
                f"--events: the pictures in '{events}' carry no times, so no clip can be cut from them; leave "
                "--start-ms and --duration-ms out."
            )
        sample = replace(sample, start_us=start_us, duration_us=duration_us, name=clip_name(sample.name, start_us or 0))
    return replace(
        sample,
        video_offset_us=sample.video_offset_us if offset_us is None else offset_us,
        video_times_path=existing(options.video_times, "--video-times") or sample.video_times_path,
        rectify_path=existing(options.rectify, "--rectify") or sample.rectify_path,
    )


def _check_prompt(prompt: str) -> None:
    if not prompt.strip():
        raise UsageError("The prompt is empty; ask something with --prompt.")
    try:
        prompt.encode()
    except UnicodeEncodeError:
        # Bytes of a command line that are no UTF-8 arrive as lone surrogates, which no vocabulary takes.
        raise UsageError("The --prompt holds bytes that are no UTF-8 text; write it in UTF-8.") from None


class _ListedModes(tuple[str, ...]):
    """The modes as choices of an option that takes one of them, or several with commas between them."""

    def __contains__(self, text: object) -> bool:
        return all(tuple.__contains__(self, name) for name in str(text).split(","))


def _modes(options: argparse.Namespace, sample: Sample, adapter: AdapterInfo | None) -> list[str]:
    """The modes that are named; else that of a named drafter; else side-by-side, draft or target by the inputs."""
    named = next((name for name in ("drafter", "adapter") if getattr(options, name) is not None), None)
    if options.mode is None:
        if named is not None:
            return [KV_ADAPTED if adapter is not None and adapter.kind == KV else SPECULATIVE]
        if sample.events_path and sample.video_path:
            return [SIDE_BY_SIDE]
        return [DRAFT if sample.events_path else TARGET]
    modes = list(dict.fromkeys(options.mode.split(",")))
    paired = [mode for mode in modes if mode_of(mode).is_paired]
    if named is not None and not paired:
        raise UsageError(f"--{named} names the drafter, and mode {options.mode} has none.")
    if adapter is not None:
        for mode in paired:
            check_mode(adapter, mode)
    return modes


def _trace(options: argparse.Namespace) -> TraceSettings | None:
    if options.torch_trace is None:
        if options.trace_tokens is not None:
            raise UsageError("--trace-tokens says how long a trace is; add --torch-trace LOGDIR.")
        return None
    check_least(options, trace_tokens=1)
    tokens = 8 if options.trace_tokens is None else options.trace_tokens
    return TraceSettings(str(Path(options.torch_trace).resolve()), tokens)
