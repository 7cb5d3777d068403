"""The command line of the benchmarks, and the processes that they start of themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from evprof.core.errors import CANCELLED, UserError


def main(words: Sequence[str]) -> int:
    """Runs a benchmark, or a part of one, and returns its exit code."""
    try:
        if words and words[0] in _PARTS:
            return _PARTS[words[0]](list(words[1:]))
        # Imported here: a window whose first paint is timed imports what `evprof gui` does.
        from benchmarks.table import measure

        return measure(list(words))
    except UserError as error:
        sys.stderr.write(f"{error.sentence}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return CANCELLED


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
