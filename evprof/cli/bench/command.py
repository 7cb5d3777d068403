"""`evprof bench`."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, ClassVar

from evprof.cli.bench.benchmarks import BENCHMARKS, Benchmark
from evprof.cli.command import Command, CommandExample, CommandParser, add_command, add_commands
from evprof.cli.options import add_json_option, typed_words
from evprof.cli.terminal import program
from evprof.cli.terminal.console import Console
from evprof.core.errors import CANCELLED, FAILURE, UserError
from evprof.core.units import number_text
from evprof.run.processes.interrupts import stop_flag

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
        return program.program_argv("bench", *words)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
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
        if options.plan:
            return _plan(options, console)
        in_sessions = (options.sessions or 1) > 1 and options.benchmark != "repeatability"
        if in_sessions:
            documents = _measure_in_sessions(options, console, self.argv)
            document = _together(documents, options.sessions)
        else:
            found = self.benchmarks[options.benchmark].measure(options, console)
            document = {"schema_version": 1, "benchmark": options.benchmark} | found
        if console.is_json:
            console.document(document)
        elif in_sessions:
            for number, each in enumerate(documents, 1):
                console.print(f"session {number} of {options.sessions}")
                self._print({"summary": each["summary"]}, each, options, console)
            for line in _spread_lines(documents):
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
        from evprof.cli.terminal.tables import print_blocks

        if tell := self.benchmarks[options.benchmark].tell:
            print_blocks(tell(document), console, is_markdown=bool(options.markdown))
        else:
            console.facts(facts)


def _plan(options: argparse.Namespace, console: Console) -> int:
    from evprof.cli.bench.gpu import tell_plan

    tell_plan(options, console)
    return 0


_NOT_PASSED = ("benchmark", "sessions", "markdown", "plan", "only")


def _measure_in_sessions(
    options: argparse.Namespace, console: Console, argv_of: Callable[..., list[str]]
) -> list[dict[str, Any]]:
    """The document of every process; `argv_of` gives the argument list of one that runs a benchmark.

    Ctrl-C stops the one at work, keeps what was measured, and starts no other.

    Raises UserError when a process fails.
    """
    words = ["--only", *only] if (only := getattr(options, "only", [])) else []
    argv = argv_of(options.benchmark, *typed_words(options, _NOT_PASSED), *words, "--json")
    documents: list[dict[str, Any]] = []
    with stop_flag() as stop:
        for number in range(options.sessions):
            if stop.is_set():
                break
            console.note(f"session {number + 1} of {options.sessions}")
            # On a terminal Ctrl-C reaches the process, too, which stops by itself; what it notes goes to our stderr.
            done = subprocess.run(argv, stdout=subprocess.PIPE, check=False)
            try:
                documents.append(json.loads(done.stdout))
            except ValueError:
                if not stop.is_set():
                    raise UserError(f"Session {number + 1} ended with exit code {done.returncode}.") from None
    if not documents:
        raise UserError("The measurement was stopped before its first session had ended.")
    return documents


def _together(documents: list[dict[str, Any]], wanted: int) -> dict[str, Any]:
    """One document of all: `rows` with their session's number, `sessions` the summaries, `summary` their medians."""
    summaries = [document["summary"] for document in documents]
    summary = _median(summaries)
    if len(documents) < wanted:
        summary["is_complete"] = False
    rows = [row | {"session": number} for number, each in enumerate(documents, 1) for row in each["rows"]]
    return documents[0] | {"rows": rows, "sessions": summaries, "summary": summary}


def _spread_lines(documents: list[dict[str, Any]]) -> list[str]:
    """Every number of the summaries: the median over the sessions, and how far they lie apart."""
    found = []
    for key in documents[0]["summary"]:
        values = [value for each in documents if _is_number(value := each["summary"].get(key))]
        if len(values) > 1:
            found.append(
                f"{key}: {number_text(median(values))} ({number_text(min(values))} to {number_text(max(values))} in "
                f"{len(values)} sessions)"
            )
    return found


def _median(values: list[Any]) -> Any:
    """Numbers by their median, dictionaries key by key, everything else as the first has it."""
    if all(isinstance(value, dict) for value in values):
        keys = dict.fromkeys(key for value in values for key in value)
        return {key: _median([value.get(key) for value in values]) for key in keys}
    if any(value is False for value in values):
        return False
    numbers = [value for value in values if _is_number(value)]
    return median(numbers) if numbers else values[0]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
