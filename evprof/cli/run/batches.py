"""`--batches` of `evprof run`: the sizes asked for, their measurement after the runs, and the rows for people."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from evprof.cli.terminal.console import Console
from evprof.core.batches import BATCHES, BatchRow
from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.request import RunRequest
from evprof.core.units import bytes_text, ms_text

MOST = 256


def batch_sizes(text: str | None) -> tuple[int, ...]:
    """`1,2,4` as numbers; none for None. Raises UserError (exit code 2)."""
    if text is None:
        return ()
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and 1 <= int(word) <= MOST for word in words):
        raise UserError(f"--batches takes sizes from 1 to {MOST}, such as 1,2,4, not '{text}'.", exit_code=USAGE)
    return tuple(dict.fromkeys(int(word) for word in words))


def measure_batches(session: Path, request: RunRequest, sizes: Sequence[int], console: Console) -> list[BatchRow]:
    """Measures the request's models in batches about its sample and adds the rows to the session, which must be closed.

    What cannot be measured is said; Ctrl-C stops it and keeps the models that were done.
    """
    from engines.suites.document_facts import batch_facts
    from evprof.run.processes.interrupts import first_interrupt
    from evprof.session.facts import add_facts

    stop = threading.Event()
    rows: list[BatchRow] = []
    with first_interrupt(stop.set):
        for role in request.reading_roles:
            console.note(f"{role}: measuring batches of {', '.join(map(str, sizes))}")
            try:
                rows += batch_facts(request, role, sizes, stop)
            except Cancelled:
                console.note("stopped; the batches that were measured are kept")
                break
            except UserError as error:
                console.note(f"No batches of the {role}: {error}")
    if rows:
        add_facts(session, {BATCHES: [row.to_json() for row in rows]})
    return rows


def print_batches(rows: Sequence[BatchRow], console: Console) -> None:
    """A line for each size; ratios are to the first size that answered the same model's same requests."""
    if not rows:
        return
    first: dict[tuple[object, ...], BatchRow] = {}
    cells = []
    for row in rows:
        alike = (row.model, row.device, row.dtype, row.positions, row.new_tokens, row.requests)
        base = first.setdefault(alike, row)
        cells.append(
            [
                row.model,
                str(row.batch),
                f"{row.samples_per_s:.2f}",
                _ratio(row.samples_per_s, base.samples_per_s),
                "n/a" if row.decode_tok_s is None else f"{row.decode_tok_s:.1f}",
                _ratio(row.decode_tok_s, base.decode_tok_s),
                ms_text(row.prefill_ms),
                bytes_text(row.cache_bytes),
                f"{bytes_text(row.peak_bytes)} {row.peak_of}",
                f"{row.n} x {row.requests}",
            ]
        )
    console.print()
    heads = ["MODEL", "batch", "samples/s", "ratio", "decode tok/s", "ratio", "prefill", "KV cache", "peak"]
    heads.append("rounds x requests")
    console.table(heads, cells, left=1)


def _ratio(value: float | None, base: float | None) -> str:
    return "n/a" if value is None or not base else f"{value / base:.2f}x"
