"""`evprof bench`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import ClassVar

from evprof.cli.bench.benchmarks import BENCHMARKS, Benchmark
from evprof.cli.bench.gpu import print_gpu, tell_plan
from evprof.cli.command import Command, CommandExample, CommandParser, add_command, add_commands
from evprof.cli.options import add_json_option
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.tables import print_rows
from evprof.core.errors import CANCELLED, FAILURE

_READ = ("plan", "markdown")
"""Options that the command reads; None where a benchmark does not have them."""

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

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        if isinstance(parser, CommandParser):
            parser.removed = _REMOVED
        choices = add_commands(parser, "benchmark", metavar="BENCHMARK", is_required=True)
        for name, benchmark in self.benchmarks.items():
            entry = add_command(choices, name, benchmark.text, benchmark.examples)
            for add_options in benchmark.options:
                add_options(entry)
            add_json_option(entry)
            entry.set_defaults(**{option: None for option in _READ if entry.get_default(option) is None})

    def run(self, options: argparse.Namespace, console: Console) -> int:
        if options.plan:
            tell_plan(options, console)
            return 0
        benchmark = self.benchmarks[options.benchmark]
        document = {"schema_version": 1, "benchmark": options.benchmark} | benchmark.measure(options, console)
        summary = document["summary"]
        if console.is_json:
            console.document(document)
        elif options.benchmark == "gpu":
            print_gpu(document, console)
        else:
            console.facts({name: document[name] for name in ("environment", "settings") if name in document})
            for name, keys in benchmark.tables.items():
                console.print()
                print_rows(console, document[name], keys, is_markdown=bool(options.markdown))
            console.facts({"summary": summary})
        # A measurement that was stopped before its end has measured something all the same.
        if summary.get("is_complete") is False:
            return CANCELLED
        return FAILURE if summary.get("failed") else 0
