"""The benchmarks: how each is measured, and what it tells people. What they need is imported when one is asked for."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evprof.cli.bench.gpu import measure as measure_gpu
from evprof.cli.command import CommandExample
from evprof.cli.options import add_pair_options, add_processes_option, add_setting
from evprof.cli.terminal.console import Console
from evprof.core.errors import UsageError
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.settings import SETTINGS
from evprof.run.requests import BUNDLED_TARGET

if TYPE_CHECKING:
    from evprof.run.benches.drafting import DraftingContender

BENCH_SHAPE = "dispatch-32"
"""The shape that is measured where none is named."""

PROCESSES = 5
"""Engine processes whose spread is measured."""

AddOptions = Callable[[argparse.ArgumentParser], object]


def option(flag: str, **words: Any) -> AddOptions:
    return lambda parser: parser.add_argument(flag, **words)


def setting(name: str, default: Any = "auto") -> AddOptions:
    return lambda parser: add_setting(parser, SETTINGS[name], default=default)


def only(what: str) -> AddOptions:
    return option("--only", nargs="+", metavar="NAME", default=[], help=f"{what} (default: all)")


def repeat(rounds: int) -> AddOptions:
    return option("--repeat", type=int, metavar="N", default=rounds, help="rounds of turns (default: %(default)s)")


MACHINE = (setting("device"), setting("dtype"))
MARKDOWN = option("--markdown", action="store_true", help="print the table as Markdown")
SHAPE = option(
    "--shape",
    metavar="SHAPE",
    help="tiny, tiny-video-llava, dispatch-32, 160m, 1b, 1.5b-eventgpt-plus, 7b-eventgpt, 7b-llava or 7b-video-llava "
    "(default: dispatch-32)",
)


@dataclass(frozen=True)
class Benchmark:
    """`text` is its help, its first line in the list of benchmarks; `options` add what it takes.

    `measure` gives environment, rows and summary. People see the facts of these, and `tables`: a list of the document,
    and the keys that are its columns.
    """

    text: str
    examples: tuple[CommandExample, ...]
    options: tuple[AddOptions, ...]
    measure: Callable[[argparse.Namespace, Console], dict[str, Any]]
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _switches(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Ctrl-C stops it and keeps the rows so far."""
    from evprof.cli.run.recorded_session import make_engine
    from evprof.loaders.bundled import bundled_sample
    from evprof.run.processes.interrupts import stop_flag
    from evprof.run.switches.bench import SwitchPlan, measure_switches

    plan = SwitchPlan(
        bundled_sample(),
        ModelChoice(options.draft, options.device, options.dtype),
        ModelChoice(options.target, options.device, options.dtype),
        repeat=options.repeat,
        max_new_tokens=options.max_new_tokens,
        only=tuple(options.only),
    )
    plan.variants()  # before anything is imported
    with stop_flag() as stop:
        return measure_switches(make_engine(), plan, stop, console.note)


def _overhead(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from engines.bench.overhead import measure_overhead

    # Where the device is not named, the CPU: what is measured is dispatch, and that comparably everywhere.
    device = "cpu" if options.device == "auto" else options.device
    return measure_overhead(options.shape or BENCH_SHAPE, options.pairs, console.note, device=device)


def _speculation(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Environment, rows, sweep, summary and what is known of the pair. Ctrl-C stops it and keeps the rows so far."""
    from evprof.cli.run.recorded_session import make_engine
    from evprof.loaders.bundled import pair_evaluation
    from evprof.run.benches.speculation import SpeculationPlan, measure_speculation
    from evprof.run.processes.interrupts import stop_flag

    chosen = _chosen(options)
    target = ModelChoice(options.target, options.device, options.dtype)
    from engines.speculation.near_ties import FlipJudge

    plan = SpeculationPlan(
        _samples(options),
        chosen,
        ModelChoice(options.draft, options.device, options.dtype),
        target,
        repeat=options.repeat,
        max_new_tokens=options.max_new_tokens,
        step=options.step,
        judge=FlipJudge(target),
    )
    with stop_flag() as stop:
        found = measure_speculation(make_engine(), plan, stop, console.note)
    return found | {"pair": pair_evaluation(options.target, options.draft)}


def _chosen(options: argparse.Namespace) -> list[DraftingContender]:
    from evprof.loaders.adapters import bundled_adapters, read_adapter

    adapters = [adapter for adapter in bundled_adapters() if Path(adapter.target).name == Path(options.target).name]
    adapters += [read_adapter(path) for path in options.adapter or ()]
    from evprof.run.benches.choice import chosen
    from evprof.run.benches.drafting import contenders

    known = contenders(adapters)
    return chosen(known, options.only, "drafter", attrgetter("key"), _is_named)


def _is_named(contender: DraftingContender, word: str) -> bool:
    return word in (contender.key, contender.speculation.drafter)


def _samples(options: argparse.Namespace) -> Sequence[Sample]:
    """The samples of `--data`, or so many held-out scenes; the bundled samples where `--scenes` is 0."""
    from evprof.loaders.bundled import bundled_samples, held_out_scenes
    from evprof.loaders.manifests.manifest import read_manifest

    if options.data:
        return read_manifest(options.data).samples
    if options.scenes == 0:
        return bundled_samples()
    scenes = held_out_scenes()
    if not 0 < options.scenes <= len(scenes):
        raise UsageError(
            f"--scenes: {len(scenes)} held-out scenes are bundled, not {options.scenes}; "
            "to measure on other samples, name a list of them with --data."
        )
    return scenes[: options.scenes]


def _repeatability(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    from evprof.cli.terminal import program
    from evprof.core.request import RunRequest
    from evprof.loaders.bundled import bundled_sample
    from evprof.run.benches.repeatability import RepeatabilityPlan, measure_repeatability

    request = RunRequest(
        "target",
        bundled_sample(),
        target=ModelChoice(options.target, options.device, options.dtype),
        settings=GenerationSettings(max_new_tokens=options.max_new_tokens, ignore_eos=True),
        keeps_frames=False,
    )
    request.validate()
    plan = RepeatabilityPlan(
        request,
        program.engine_argv(),
        processes=PROCESSES if options.processes is None else options.processes,
        repeat=options.repeat,
    )
    return measure_repeatability(plan, console.note)


BENCHMARKS = {
    "gpu": Benchmark(
        """Measure every figure that needs a GPU, in one go of at most nine minutes.

        Ceilings, each way of decoding 7B shapes, instrumentation, switches, parallel prefill, drafts, memory, a
        trace. On a CPU it does the same at tiny shapes. It needs neither a network nor a display, and writes gpu.json
        and gpu.md.
        """,
        (
            CommandExample("evprof bench gpu --out found", "measure everything"),
            CommandExample("evprof bench gpu --plan", "print the sections and how long each may take"),
            CommandExample("evprof bench gpu --out found --only steps trace", "measure some sections"),
        ),
        (
            option("--out", metavar="DIR", help="where gpu.json, gpu.md and logs go"),
            option("--plan", action="store_true", help="print the sections and their seconds, run nothing"),
            option("--shape", metavar="SHAPE", help="tiny or 7b (default: 7b on a GPU, tiny on a CPU)"),
            *MACHINE,
            only("names of sections"),
        ),
        measure_gpu,
    ),
    "switches": Benchmark(
        """Measure every optimization on against off, in turns in one process.

        Speed, memory, and whether the answer stays the same, beside what was expected of it. The sample is the bundled
        one.
        """,
        (
            CommandExample("evprof bench switches --repeat 15", "measure all of them"),
            CommandExample(
                'evprof bench switches --only vision-cache "cache fp8" --markdown', "measure some, as Markdown"
            ),
        ),
        (
            *(add_pair_options, only("such as cache or 'cache fp8'"), setting("max_new_tokens", 64), repeat(15)),
            *(*MACHINE, MARKDOWN),
        ),
        _switches,
        {
            "rows": (
                *("title", "against", "role", "run_speed", "run_speed_ci95", "stage_speed", "stage_speed_ci95"),
                *("weights_on_bytes", "kv_on_bytes", "peak_on_bytes", "expected", "verdict", "reason"),
            )
        },
    ),
    "speculation": Benchmark(
        """Measure every drafter against plain decoding of the same held-out scenes, in turns.

        Acceptance, costs, speed as predicted and as measured, and whether the answers stay the same.
        """,
        (
            CommandExample("evprof bench speculation", "measure all drafters"),
            CommandExample(
                "evprof bench speculation --only model eagle --data mine.csv", "measure two on your own samples"
            ),
        ),
        (
            *(add_pair_options, only("names of drafters")),
            option(
                "--scenes",
                type=int,
                metavar="N",
                default=8,
                help="held-out scenes, at most 8; 0: bundled samples (default: %(default)s)",
            ),
            option("--data", metavar="MANIFEST", help="a list of samples to measure on, in place of --scenes"),
            option("--adapter", metavar="ADAPTER", action="append", help="a trained adapter to take part as well"),
            *(setting("max_new_tokens", 64), repeat(3), *MACHINE, setting("step"), MARKDOWN),
        ),
        _speculation,
        {
            "rows": (
                *("name", "gamma", "accepted", "drafted", "draft_acceptance_rate", "mean_acceptance_length"),
                *("draft_cost", "verify_cost", "predicted", "decode_speedup", "decode_ci95", "end_to_end_speedup"),
                *("same_answers", "answers", "token_match", "scenes", "runs", "reason"),
            ),
            "sweep": ("drafter", "gamma", "predicted", "measured"),
        },
    ),
    "overhead": Benchmark(
        """Measure what the instrumentation costs per token.

        In interleaved pairs against the same loop with a null recorder, with the A/A ratio of the same run beside it;
        on a GPU where --device names one.
        """,
        (CommandExample("evprof bench overhead --pairs 300", "measure it on this machine's processor"),),
        (
            SHAPE,
            option("--pairs", type=int, metavar="N", default=300, help="pairs (default: %(default)s)"),
            setting("device"),
        ),
        _overhead,
    ),
    "repeatability": Benchmark(
        """Measure how much fresh engine processes differ on this machine.

        And the runs of one process.
        """,
        (CommandExample("evprof bench repeatability --processes 8", "measure eight processes"),),
        (
            option(
                "--target", metavar="MODEL", default=BUNDLED_TARGET, help="watches the video (default: %(default)s)"
            ),
            *(setting("max_new_tokens", 64), repeat(5), partial(add_processes_option, usual=PROCESSES), *MACHINE),
        ),
        _repeatability,
        {"rows": ("engine_session", "runs", "mean_ms", "sd_pct")},
    ),
}
"""By name, in the order of the help."""
