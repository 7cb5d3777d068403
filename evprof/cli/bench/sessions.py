"""A benchmark in several fresh processes, one after the other, and what their summaries come to."""

from __future__ import annotations

import argparse
import json
import subprocess
from statistics import median
from typing import Any

from evprof.cli.setting_options import typed_words
from evprof.cli.terminal import program
from evprof.cli.terminal.console import Console
from evprof.core.errors import USAGE, UserError
from evprof.run.processes.interrupts import stop_flag

COMPARING = ("engine", "switches", "speculation", "overhead")
"""Benchmarks whose contenders take turns within each process, so that several processes may be put together."""

_NOT_PASSED = ("benchmark", "sessions", "markdown", "only")


def measure_in_sessions(options: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """The document of every process. Ctrl-C stops the one at work, keeps what was measured, and starts no other.

    Raises UserError (exit code 2) for a benchmark that compares nothing, and when a process fails.
    """
    if options.benchmark not in COMPARING:
        raise UserError(f"--sessions is for the benchmarks {', '.join(COMPARING)} and repeatability.", exit_code=USAGE)
    only = ["--only", *options.only] if options.only else []
    argv = program.program_argv("bench", options.benchmark, *typed_words(options, _NOT_PASSED), *only, "--json")
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


def together(documents: list[dict[str, Any]], wanted: int) -> dict[str, Any]:
    """One document of all: `rows` with their session's number, `sessions` the summaries, `summary` their medians."""
    summaries = [document["summary"] for document in documents]
    summary = _median(summaries)
    if len(documents) < wanted:
        summary["is_complete"] = False
    rows = [row | {"session": number} for number, each in enumerate(documents, 1) for row in each["rows"]]
    return documents[0] | {"rows": rows, "sessions": summaries, "summary": summary}


def spread_lines(documents: list[dict[str, Any]]) -> list[str]:
    """Every number of the summaries: the median over the sessions, and how far they lie apart."""
    found = []
    for key in documents[0]["summary"]:
        values = [value for each in documents if _is_number(value := each["summary"].get(key))]
        if len(values) > 1:
            found.append(
                f"{key}: {median(values):.4g} ({min(values):.4g} to {max(values):.4g} in {len(values)} sessions)"
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
