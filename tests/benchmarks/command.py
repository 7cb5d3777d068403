"""The command line of the benchmarks, and the processes that they start of themselves."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence

from benchmarks.table import BENCHMARKS
from evprof.cli.bench.command import BenchCommand
from evprof.cli.command import CommandHelp, CommandParser
from evprof.cli.terminal.console import Console
from evprof.core.errors import CANCELLED, UserError


class OwnBenchmarks(BenchCommand):
    """Measure evprof itself: its readers, its window, its sessions and its statistics."""

    benchmarks = BENCHMARKS
    examples = ()


def main(words: Sequence[str]) -> int:
    """Runs a benchmark, or a part of one, and returns its exit code."""
    try:
        if words and words[0] in _PARTS:
            return _PARTS[words[0]](list(words[1:]))
        return _measure(list(words))
    except UserError as error:
        sys.stderr.write(f"{error.sentence}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return CANCELLED


def _measure(words: list[str]) -> int:
    parser = CommandParser(
        prog="tests/benchmarks/run.py",
        description=OwnBenchmarks.description(),
        formatter_class=CommandHelp,
        allow_abbrev=False,
    )
    parser.set_defaults(quiet=False)
    command = OwnBenchmarks()
    command.add_options(parser)
    options = parser.parse_args(words)
    console = Console(is_json=options.json, is_quiet=options.quiet)
    with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext():
        return command.run(options, console)


def _paint(words: list[str]) -> int:
    from evprof.cli.terminal.program import loading_window

    with loading_window():
        from benchmarks.first_paint import paint_once

        return paint_once(*words)


def _list_runs(words: list[str]) -> int:
    from benchmarks.run_listing import measure_listing

    return measure_listing(*words)


def _read_events(words: list[str]) -> int:
    from benchmarks.event_readers import read_and_tell

    return read_and_tell(words)


def _serve_records(words: list[str]) -> int:
    from benchmarks.synthetic_engine import SyntheticEngine
    from evprof.run.processes.channel import serve

    records_per_s, seconds = map(float, words)
    return serve(lambda: SyntheticEngine(records_per_s, seconds))


def _effect(words: list[str]) -> int:
    from benchmarks.window import print_effect

    return print_effect(*words)


_PARTS: dict[str, Callable[[list[str]], int]] = {
    "_effect": _effect,
    "_engine": _serve_records,
    "_list-runs": _list_runs,
    "_paint": _paint,
    "_read-events": _read_events,
}
"""What benchmarks start in processes of their own."""
