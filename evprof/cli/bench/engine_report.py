"""Benchmarks of the engine for people to read, in a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.core.units import bytes_text, ms_text

_HEADINGS = ("", "time", "middle half", "tok/s", "vs hf_eager", "same tokens", "MBU", "MFU", "turns")


def print_engine(document: dict[str, Any], console: Console, *, is_markdown: bool = False) -> None:
    """What ran where, a table of phases and contenders, the machine's ceilings, and what to doubt."""
    environment, summary = document["environment"], document["summary"]
    console.print(
        f"{summary['shape']} in {summary['dtype']} on {environment['device']} · torch {environment['torch']} · "
        f"transformers {environment['transformers']} · {_threads(environment, summary)}"
        f"prompt {summary['context']} · {summary['tokens']} tokens"
    )
    console.print()
    body = [_cells(row) for row in document["rows"] if row["status"] == "measured"]
    if is_markdown:
        _print_markdown(_HEADINGS, body, console)
    else:
        console.table(_HEADINGS, body)
    console.print()
    console.print(
        f"This machine copies {_giga(summary['copy_bytes_s'])} GB/s, reads {_giga(summary['read_bytes_s'])} GB/s and "
        f"multiplies matrices at {summary['matmul_flops_s'] / 1e12:.3g} TFLOP/s."
    )
    console.print(_ceiling(summary))
    for sentence in summary["problems"]:
        console.print(sentence)


def _threads(environment: dict[str, Any], summary: dict[str, Any]) -> str:
    count = environment["threads"]
    return f"{count} thread{'' if count == 1 else 's'} · " if summary["device"] == "cpu" else ""


def _ceiling(summary: dict[str, Any]) -> str:
    if summary["decode_ceiling_tok_s"] is None:
        return f"No ceiling by memory: {summary['decode_mbu_reason']}."
    reached = summary["decode_tok_s"]
    best = "" if reached is None else f" Ours reaches {reached:.1f} ({summary['decode_mbu']:.0%})."
    weights, cache = bytes_text(summary["weight_bytes_per_token"]), bytes_text(summary["kv_bytes_per_token"])
    most = summary["decode_ceiling_tok_s"]
    return f"A step reads {weights} of weights and {cache} of cache: at most {most:.1f} tok/s.{best}"


def _print_markdown(headings: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    for cells in (headings, ["---"] * len(headings), *rows):
        console.print(f"| {' | '.join(cells)} |")


def _cells(row: dict[str, Any]) -> list[str]:
    against = row["vs_hf_eager"]
    return [
        f"{row['phase']} {row['contender']}",
        ms_text(row["ms"]) + (" / token" if row["phase"] == "decode" else ""),
        f"{ms_text(row['ms_low'])} … {ms_text(row['ms_high'])}",
        "" if row["tok_s"] is None else f"{row['tok_s']:.1f}",
        "" if against is None else f"{against:.2f}x",
        _share(row["agreement"]),
        _share(row["mbu"]),
        _share(row["mfu"]),
        str(row["turns"]),
    ]


def _giga(bytes_s: float) -> str:
    return f"{bytes_s / 1e9:.0f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"
