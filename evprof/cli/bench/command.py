"""`evprof bench`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, ClassVar

from evprof.cli.bench.benchmarks import BENCHMARKS, Benchmark
from evprof.cli.command import Command, add_json_option
from evprof.cli.parser import CommandExample, CommandParser, add_command, add_commands
from evprof.cli.terminal import program
from evprof.cli.terminal.console import Console
from evprof.core.errors import CANCELLED, FAILURE

_ASKED = ("plan", "sessions", "markdown")
"""Options that the command asks every benchmark's for."""

_REMOVED = {
    name: f"run tests/benchmarks/run.py {name} in a checkout"
    for name in ("engine", "ui", "events", "video", "parts", "sessions", "coverage", "engine-process")
}
"""Benchmarks of the release before this one, and what to use instead."""


class BenchCommand(Command):
    """Measure this machine with evprof: what a GPU reaches, drafters, switches, and what recording costs.

    Each benchmark has options and a help of its own: evprof bench BENCHMARK --help.
    """

    name = "bench"
    examples: ClassVar[tuple[CommandExample, ...]] = (
        CommandExample("evprof bench gpu --out found", "measure everything that needs a GPU"),
        CommandExample("evprof bench overhead --pairs 300", "measure what recording costs"),
    )
    benchmarks: ClassVar[Mapping[str, Benchmark]] = BENCHMARKS

    @staticmethod
    def argv(*words: str) -> list[str]:
        """The argument list that runs a benchmark in another process."""
        return program.program_argv("bench", *words)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """A command for each, with its options."""
        if isinstance(parser, CommandParser):
            parser.removed = _REMOVED
        choices = add_commands(parser, "benchmark", metavar="BENCHMARK", is_required=True)
        for name, benchmark in self.benchmarks.items():
            entry = add_command(choices, name, benchmark.text, benchmark.examples)
            for add_options in benchmark.options:
                add_options(entry)
            add_json_option(entry)
            # What a benchmark does not take it cannot be given, and what all are asked must be there.
            entry.set_defaults(**{option: None for option in _ASKED if entry.get_default(option) is None})

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Measures, in one process or in several fresh ones, and prints what was found."""
        from evprof.cli.bench.sessions import measure_in_sessions, spread_lines, together

        if options.plan:
            return _plan(options, console)
        in_sessions = (options.sessions or 1) > 1 and options.benchmark != "repeatability"
        if in_sessions:
            documents = measure_in_sessions(options, console, self.argv)
            document = together(documents, options.sessions)
        else:
            found = self.benchmarks[options.benchmark].measure(options, console)
            document = {"schema_version": 1, "benchmark": options.benchmark} | found
        if console.is_json:
            console.document(document)
        elif in_sessions:
            for number, each in enumerate(documents, 1):
                console.print(f"session {number} of {options.sessions}")
                self._print({"summary": each["summary"]}, each, options, console)
            for line in spread_lines(documents):
                console.print(line)
        else:
            self._print(
                {"environment": document["environment"], "summary": document["summary"]}, document, options, console
            )
        # A measurement that was stopped before its end has measured something all the same.
        if document["summary"].get("is_complete") is False:
            return CANCELLED
        return FAILURE if document["summary"].get("failed") else 0

    def _print(
        self, facts: dict[str, Any], document: dict[str, Any], options: argparse.Namespace, console: Console
    ) -> None:
        """What a benchmark tells of its document; the facts of one that tells nothing."""
        from evprof.cli.terminal.blocks import print_blocks
        from evprof.cli.terminal.facts import facts_lines

        benchmark = self.benchmarks[options.benchmark]
        tell = (options.markdown and benchmark.tell_markdown) or benchmark.tell
        print_blocks(tell(document) if tell else facts_lines(facts), console, is_markdown=bool(options.markdown))


def _plan(options: argparse.Namespace, console: Console) -> int:
    from evprof.cli.bench.gpu import tell_plan

    tell_plan(options, console)
    return 0
