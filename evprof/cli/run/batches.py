"""`--batches` of `evprof run`: the sizes asked for, their measurement after the runs, and the rows for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evprof.cli.terminal.blocks import Column, PrintedTable, print_blocks
from evprof.cli.terminal.console import Console
from evprof.core.batches import BATCHES, BatchRow
from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.request import RunRequest
from evprof.core.units import bytes_text

MOST = 256

_COLUMNS: tuple[Column, ...] = (
    ("MODEL", "{model}"),
    ("batch", "{batch}"),
    ("samples/s", "{samples_per_s:.2f}"),
    ("ratio", "{samples_ratio:times}"),
    ("decode tok/s", "{decode_tok_s:.1f}"),
    ("ratio", "{decode_ratio:times}"),
    ("prefill", "{prefill_ms:ms}"),
    ("KV cache", "{cache_bytes:bytes}"),
    ("peak", lambda row: f"{bytes_text(row['peak_bytes'])} {row['peak_of']}"),
    ("rounds x requests", "{n} x {requests}"),
)


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
    from evprof.run.processes.interrupts import stop_flag
    from evprof.session.facts import add_facts

    rows: list[BatchRow] = []
    with stop_flag() as stop:
        for role in request.reading_roles:
            console.note(f"{role}: measuring batches of {', '.join(map(str, sizes))}")
            try:
                rows += batch_facts(request, role, sizes, stop)
            except Cancelled:
                console.warn("stopped; the batches that were measured are kept")
                break
            except UserError as error:
                console.warn(f"No batches of the {role}: {error}")
    if rows:
        add_facts(session, {BATCHES: [row.to_json() for row in rows]})
    return rows


def print_batches(rows: Sequence[BatchRow], console: Console) -> None:
    """A line for each size; ratios are to the first size that answered the same model's same requests."""
    if not rows:
        return
    first: dict[tuple[object, ...], BatchRow] = {}
    told = []
    for row in rows:
        base = first.setdefault((row.model, row.device, row.dtype, row.positions, row.new_tokens, row.requests), row)
        ratios = {
            f"{name}_ratio": None if value is None or not of_base else value / of_base
            for name, value, of_base in (
                ("samples", row.samples_per_s, base.samples_per_s),
                ("decode", row.decode_tok_s, base.decode_tok_s),
            )
        }
        told.append(vars(row) | ratios)
    console.print()
    print_blocks([PrintedTable(_COLUMNS, told, missing="n/a")], console)
