"""A benchmark in several fresh processes, one after the other, and what their summaries come to."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable
from statistics import median
from typing import Any

from evprof.cli.setting_options import typed_words
from evprof.cli.terminal.console import Console
from evprof.core.errors import UserError
from evprof.core.units import number_text
from evprof.run.processes.interrupts import stop_flag

_NOT_PASSED = ("benchmark", "sessions", "markdown", "plan", "only")


def measure_in_sessions(
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
