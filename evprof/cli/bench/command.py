"""`evprof bench`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evprof.cli.command import Command, add_json_option
from evprof.cli.run.sessions_option import add_sessions_option
from evprof.cli.terminal.console import Console
from evprof.core.errors import CANCELLED
from evprof.core.vocabulary.settings import choices_of
from evprof.run.demo import BUNDLED_DRAFT, BUNDLED_TARGET

if TYPE_CHECKING:
    from engines.bench.engine import EngineBench

BENCHMARKS = (
    "engine",
    "switches",
    "speculation",
    "overhead",
    "ui",
    "events",
    "video",
    "parts",
    "coverage",
    "engine-process",
    "repeatability",
)

_ROUNDS = {"engine": 15, "switches": 15, "events": 5, "video": 7, "parts": 7}


class BenchCommand(Command):
    """Measure evprof itself.

    engine: how fast models with random weights decode, beside transformers' generate in interleaved turns, and how near
    to this machine's own ceilings, which are measured first.
    switches: every optimization on against off, in turns in one process: speed, memory, and whether the answer stays
    the same, beside what was expected of it.
    speculation: every drafter against plain decoding of the same held-out scenes, in turns: acceptance, costs, speed as
    predicted and as measured, and whether the answers stay the same.
    overhead: what the instrumentation costs per token, in interleaved pairs against the same loop with a null recorder,
    with the A/A ratio of the same run beside it.
    ui: how soon the window is visible, how long its thread is ever busy while 10,000 records a second arrive from
    another process, and how fast it zooms and pans.
    events: how fast event recordings of every format open and read, beside the library people know, on the same files
    and in turns, with the memory that takes and whether the events are right.
    video: how long 8 frames of a clip take, beside decoding it all, seeking for each frame and the libraries that are
    installed, with every frame recognised by the number painted into it.
    parts: how long evprof's own work takes: drawing and simulating events, reading manifests and sessions, importing,
    comparing, intervals, texts.
    repeatability: how much fresh engine processes differ on this machine, and the runs of one process; kept, so that
    comparisons of single processes can say what is usual here.
    coverage: how often our 95 % intervals hold the truth, over simulated runs: blocks, turns, drift, neighbours that
    are alike, processes and scenes that differ.
    engine-process: starts the engine process that the window would own and says how long it took to answer, and how
    soon a record that it makes has arrived.
    """

    name = "bench"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Which, and at what size."""
        parser.add_argument("benchmark", choices=BENCHMARKS)
        parser.add_argument("--shape", metavar="SHAPE", help="engine, overhead: model shape (default: dispatch-32)")
        parser.add_argument(
            "--pairs", type=int, metavar="N", default=300, help="overhead: pairs (default: %(default)s)"
        )
        parser.add_argument("--trials", type=int, metavar="N", default=5, help="ui: trials (default: %(default)s)")
        parser.add_argument(
            "--seconds", type=float, metavar="S", default=30, help="ui: of a trial (default: %(default)s)"
        )
        add_sessions_option(parser)
        _add_engine_options(parser)
        _add_switch_options(parser)
        _add_events_options(parser)
        parser.add_argument("--quick", action="store_true", help="coverage: 300 simulations a row, not 2000")
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Measures and prints rows and summary."""
        from evprof.cli.run.text import facts_lines

        if (options.sessions or 1) > 1 and options.benchmark != "repeatability":
            return _in_sessions(options, console)
        document = {"schema_version": 1, "benchmark": options.benchmark} | _measure(options, console)
        if console.is_json:
            console.document(document)
            return _exit_code(document)
        if printed := _printer(options.benchmark):
            printed(document, console, is_markdown=options.markdown)
            return _exit_code(document)
        for line in facts_lines({"environment": document["environment"], "summary": document["summary"]}):
            console.print(line)
        return 0


def _in_sessions(options: argparse.Namespace, console: Console) -> int:
    """Several fresh processes: each summarized alone, then all together."""
    from evprof.cli.bench.sessions import measure_in_sessions, spread_lines, together
    from evprof.cli.run.text import facts_lines

    documents = measure_in_sessions(options, console)
    document = together(documents, options.sessions)
    if console.is_json:
        console.document(document)
        return _exit_code(document)
    printed = _printer(options.benchmark)
    for number, each in enumerate(documents, 1):
        console.print(f"session {number} of {options.sessions}")
        if printed:
            printed(each, console, is_markdown=options.markdown)
        else:
            console.print("\n".join(facts_lines({"summary": each["summary"]})))
    for line in spread_lines(documents):
        console.print(line)
    return _exit_code(document)


def _add_engine_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("engine")
    group.add_argument("--context", type=int, metavar="N", help="positions of prompt (default: the family's own)")
    group.add_argument("--tokens", type=int, metavar="N", default=64, help="tokens per turn (default: %(default)s)")
    group.add_argument(
        "--repeat",
        type=int,
        metavar="N",
        help="also of others: rounds of turns (default: 15; of events 5, of video and parts 7)",
    )
    group.add_argument("--device", metavar="D", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    group.add_argument("--dtype", choices=choices_of("dtype"), default="auto", help="default: %(default)s")
    group.add_argument(
        "--limit", type=float, metavar="S", default=300, help="seconds a contender may take (default: %(default)s)"
    )
    group.add_argument("--contenders", metavar="NAMES", help="who takes part, with commas (default: all)")


def _add_switch_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("switches", "also --repeat, --device and --dtype; the sample is the bundled one")
    group.add_argument("--draft", metavar="MODEL", default=BUNDLED_DRAFT, help="default: %(default)s")
    group.add_argument("--target", metavar="MODEL", default=BUNDLED_TARGET, help="default: %(default)s")
    group.add_argument(
        "--max-new-tokens", type=int, metavar="N", default=64, help="tokens of a timed run (default: %(default)s)"
    )
    group.add_argument(
        "--only", nargs="+", metavar="NAME", default=[], help="such as cache or 'cache fp8' (default: all)"
    )
    group.add_argument(
        "--markdown", action="store_true", help="also of engine, speculation and coverage: print the table as Markdown"
    )
    group = parser.add_argument_group(
        "speculation", "also --draft, --target, --device, --dtype, --repeat, --max-new-tokens and --only with drafters"
    )
    group.add_argument(
        "--scenes",
        type=int,
        metavar="N",
        default=8,
        help="held-out scenes, at most 8; 0: bundled samples (default: 8)",
    )
    group.add_argument("--data", metavar="MANIFEST", help="a list of samples to measure on, in place of --scenes")
    group.add_argument("--adapter", metavar="FOLDER", action="append", help="a trained adapter to take part as well")


def _add_events_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "events, video, parts", "also --repeat, --markdown, and --only with formats or words of clips and parts"
    )
    group.add_argument(
        "--events", type=int, metavar="N", default=10_000_000, help="events: of a file (default: %(default)s)"
    )
    group.add_argument("--large", action="store_true", help="events: measure windows in a DSEC file of a gigabyte")


def _printer(benchmark: str) -> Callable[..., None] | None:
    """What prints a benchmark's tables for people."""
    match benchmark:
        case "switches":
            from evprof.cli.bench.switch_report import print_markdown, print_switches

            return lambda document, console, is_markdown: (print_markdown if is_markdown else print_switches)(
                document, console
            )
        case "speculation":
            from evprof.cli.bench.speculation_report import print_speculation

            return print_speculation
        case "engine":
            from evprof.cli.bench.engine_report import print_engine

            return print_engine
        case "repeatability":
            from evprof.cli.bench.repeatability import print_repeatability

            return print_repeatability
        case "events" | "video" | "parts" | "coverage":
            return _printer_without_models(benchmark)
    return None


def _printer_without_models(benchmark: str) -> Callable[..., None]:
    from evprof.cli.bench.coverage_report import print_coverage
    from evprof.cli.bench.loader_report import print_events
    from evprof.cli.bench.parts_report import print_parts
    from evprof.cli.bench.video_report import print_video

    printers: dict[str, Callable[..., None]] = {
        "events": print_events,
        "video": print_video,
        "parts": print_parts,
        "coverage": print_coverage,
    }
    return printers[benchmark]


def _rounds(options: argparse.Namespace) -> int:
    return int(_ROUNDS[options.benchmark] if options.repeat is None else options.repeat)


def _exit_code(document: dict[str, Any]) -> int:
    """130 for a measurement that was stopped before its end."""
    return CANCELLED if document["summary"].get("is_complete") is False else 0


def _measure(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Environment, rows and summary of one benchmark."""
    match options.benchmark:
        case "engine":
            from engines.bench.engine import measure_engine

            return measure_engine(_engine_bench(options), console.note)
        case "switches" | "speculation" | "repeatability":
            return _measure_requests(options, console)
        case "overhead":
            from engines.bench.overhead import measure_overhead

            return measure_overhead(options.shape or "dispatch-32", options.pairs, console.note)
        case "ui":
            from evprof.cli.terminal.program import engine_argv, program_argv
            from ui.bench.window import measure_window

            _draw_somewhere(console)
            return measure_window(engine_argv(), program_argv("_paint"), options.trials, options.seconds, console.note)
        case "events" | "video" | "parts" | "coverage":
            return _measure_without_models(options, console)
        case _:
            return measure_engine_process()


def _engine_bench(options: argparse.Namespace) -> EngineBench:
    from engines.bench.contenders import choose_contenders
    from engines.bench.engine import EngineBench

    return EngineBench(
        shape=options.shape or "dispatch-32",
        context=options.context,
        tokens=options.tokens,
        repeats=_rounds(options),
        device=options.device,
        dtype=options.dtype,
        limit_s=options.limit,
        contenders=choose_contenders(options.contenders) if options.contenders is not None else None,
    )


def _measure_requests(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """What is made of an engine's runs."""
    if options.benchmark == "repeatability":
        from evprof.cli.bench.repeatability import measure

        return measure(options, console)
    if options.benchmark == "switches":
        return _measure_switches(options, console)
    from evprof.cli.bench.speculation import measure_drafters

    return measure_drafters(options, console)


def _measure_switches(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Ctrl-C stops it and keeps the rows so far."""
    import threading

    from engines.start import make_batch_engine
    from evprof.cli.run.recorded_session import make_engine
    from evprof.core.vocabulary.generation import ModelChoice
    from evprof.loaders.bundled import bundled_sample
    from evprof.run.processes.interrupts import first_interrupt
    from evprof.run.switches.bench import SwitchPlan, measure_switches

    plan = SwitchPlan(
        bundled_sample(),
        ModelChoice(options.draft, options.device, options.dtype),
        ModelChoice(options.target, options.device, options.dtype),
        repeat=_rounds(options),
        max_new_tokens=options.max_new_tokens,
        only=tuple(options.only),
    )
    plan.variants()  # before anything is imported
    stop = threading.Event()
    with first_interrupt(stop.set):
        return measure_switches(make_engine(), plan, stop, console.note, batches=make_batch_engine())


def _measure_without_models(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    if options.benchmark == "coverage":
        return _measure_coverage(options, console)
    if options.benchmark == "parts":
        from evprof.run.benches.parts import measure_parts

        return measure_parts(_rounds(options), console.note, only=options.only)
    if options.benchmark == "video":
        from evprof.run.benches.video import measure_video

        return measure_video(_rounds(options), console.note, only=options.only)
    from evprof.cli.terminal.program import program_argv
    from evprof.run.benches.events import EventsPlan, measure_events

    reader = tuple(program_argv("_read-events"))
    plan = EventsPlan(reader, options.events, _rounds(options), large=options.large, only=tuple(options.only))
    return measure_events(plan, console.note)


def _measure_coverage(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Ctrl-C stops it and keeps the rows so far."""
    import threading

    from evprof.run.benches.coverage import QUICK_SIMULATIONS, SIMULATIONS, measure_coverage
    from evprof.run.processes.interrupts import first_interrupt

    stop = threading.Event()
    with first_interrupt(stop.set):
        return measure_coverage(QUICK_SIMULATIONS if options.quick else SIMULATIONS, console.note, stop)


def _draw_somewhere(console: Console) -> None:
    """Without a display the window is drawn offscreen, and that is said."""
    import os

    from evprof.cli.terminal.display import missing_display

    if (reason := missing_display()) and "QT_QPA_PLATFORM" not in os.environ:
        console.note(f"Drawing offscreen: {reason}")
        os.environ["QT_QPA_PLATFORM"] = "offscreen"


def measure_engine_process(timeout_s: float = 120.0) -> dict[str, Any]:
    """Starts an engine process through the window's own host and waits until it is ready."""
    import time

    from evprof.cli.terminal.program import engine_argv
    from evprof.core.errors import UserError
    from evprof.core.messages import EngineChanged
    from evprof.core.recording import RecordLog
    from evprof.run.processes.engine_host import EngineHost

    recording = RecordLog()
    cursor = recording.cursor()
    host = EngineHost(engine_argv(), recording)
    began = time.monotonic()
    try:
        host.start()
        while time.monotonic() - began < timeout_s:
            for message in cursor.read().messages:
                if isinstance(message, EngineChanged) and message.state == "ready":
                    ready_ms = 1000 * (time.monotonic() - began)
                    summary = {"ready_ms": ready_ms, "arrival_ms": arrival_ms()}
                    return {"environment": message.environment, "rows": [], "summary": summary}
                if isinstance(message, EngineChanged) and message.state == "gone" and message.sentence:
                    raise UserError(f"The engine process did not start: {message.sentence}")
            time.sleep(0.02)
    finally:
        host.close()
    raise UserError(f"The engine process did not answer within {timeout_s:.0f} s.")


def arrival_ms() -> float:
    """Median time in ms from a record that an engine process makes to its being in this process's Recording."""
    from statistics import median

    from evprof.cli.terminal.program import engine_argv
    from evprof.core.clock import monotonic_ns
    from evprof.core.messages import RequestEnded
    from evprof.core.recording import RecordLog
    from evprof.core.request import RunRequest
    from evprof.core.sample import Sample
    from evprof.core.vocabulary.generation import ModelChoice
    from evprof.run.processes.engine_process import EngineProcess
    from evprof.run.processes.wire import Submit, apply_part

    recording = RecordLog()
    ages_ns: list[int] = []
    process = EngineProcess([*engine_argv(), "--synthetic", "200", "2"])
    try:
        process.send(Submit.of(RunRequest("target", Sample(video_path="synthetic"), None, ModelChoice("synthetic"))))
        while not any(isinstance(message, RequestEnded) for message in recording.messages()):
            before = len(recording.streams["tokens"])
            for part in process.receive():
                apply_part(part, recording)
            ages_ns += (monotonic_ns() - recording.streams["tokens"].column("t_ns", before)).tolist()
    finally:
        process.kill()
        process.reap()
    return float(median(ages_ns)) / 1e6
