"""`evprof bench`."""

from __future__ import annotations

import argparse
from typing import Any

from evprof.cli.bench.benchmarks import BENCHMARKS
from evprof.cli.command import Command, add_json_option, add_sessions_option
from evprof.cli.setting_options import add_pair_options, add_setting
from evprof.cli.terminal.console import Console
from evprof.core.errors import CANCELLED, FAILURE, USAGE, UserError
from evprof.core.vocabulary.settings import SETTINGS


class BenchCommand(Command):
    """Measure evprof itself.

    gpu: every check and figure that needs a GPU, in one go of at most nine minutes: ceilings, tests, each way of
    decoding 7B shapes, instrumentation, switches, parallel prefill, drafts, memory, a trace. On a CPU it does the same
    at tiny shapes. It needs neither a network nor a display, and writes gpu.json and gpu.md.
    engine: how fast models with random weights decode, beside transformers' generate in interleaved turns, and how near
    to this machine's own ceilings, which are measured first.
    switches: every optimization on against off, in turns in one process: speed, memory, and whether the answer stays
    the same, beside what was expected of it.
    speculation: every drafter against plain decoding of the same held-out scenes, in turns: acceptance, costs, speed as
    predicted and as measured, and whether the answers stay the same.
    overhead: what the instrumentation costs per token, in interleaved pairs against the same loop with a null recorder,
    with the A/A ratio of the same run beside it; on a GPU where --device names one.
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
        parser.add_argument(
            "--shape", metavar="SHAPE", help="engine, overhead: model shape (default: dispatch-32); gpu: 7b or tiny"
        )
        group = parser.add_argument_group("gpu", "also --device, --dtype, --shape, and --only with names of sections")
        group.add_argument("--out", metavar="DIR", help="where gpu.json, gpu.md and logs go")
        group.add_argument("--plan", action="store_true", help="print the sections and their seconds, run nothing")
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
        """Measures, in one process or in several fresh ones, and prints what was found."""
        from evprof.cli.bench.sessions import measure_in_sessions, spread_lines, together

        if options.plan:
            return _plan(options, console)
        in_sessions = (options.sessions or 1) > 1 and options.benchmark != "repeatability"
        if in_sessions:
            documents = measure_in_sessions(options, console)
            document = together(documents, options.sessions)
        else:
            found = BENCHMARKS[options.benchmark].measure(options, console)
            document = {"schema_version": 1, "benchmark": options.benchmark} | found
        if console.is_json:
            console.document(document)
        elif in_sessions:
            for number, each in enumerate(documents, 1):
                console.print(f"session {number} of {options.sessions}")
                _print({"summary": each["summary"]}, each, options, console)
            for line in spread_lines(documents):
                console.print(line)
        else:
            _print({"environment": document["environment"], "summary": document["summary"]}, document, options, console)
        # A measurement that was stopped before its end has measured something all the same.
        if document["summary"].get("is_complete") is False:
            return CANCELLED
        return FAILURE if document["summary"].get("failed") else 0


def _plan(options: argparse.Namespace, console: Console) -> int:
    from evprof.cli.bench.gpu import tell_plan

    if options.benchmark != "gpu":
        raise UserError("--plan is for bench gpu.", exit_code=USAGE)
    tell_plan(options, console)
    return 0


def _print(facts: dict[str, Any], document: dict[str, Any], options: argparse.Namespace, console: Console) -> None:
    """What a benchmark tells of its document; the facts of one that tells nothing."""
    from evprof.cli.terminal.blocks import print_blocks
    from evprof.cli.terminal.facts import facts_lines

    benchmark = BENCHMARKS[options.benchmark]
    tell = (options.markdown and benchmark.tell_markdown) or benchmark.tell
    print_blocks(tell(document) if tell else facts_lines(facts), console, is_markdown=options.markdown)


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
    add_setting(group, SETTINGS["device"], default="auto")
    add_setting(group, SETTINGS["dtype"], default="auto")
    group.add_argument(
        "--limit", type=float, metavar="S", default=300, help="seconds a contender may take (default: %(default)s)"
    )
    group.add_argument("--contenders", metavar="NAMES", help="who takes part, with commas (default: all)")


def _add_switch_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("switches", "also --repeat, --device and --dtype; the sample is the bundled one")
    add_pair_options(group)
    add_setting(group, SETTINGS["max_new_tokens"], default=64)
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
