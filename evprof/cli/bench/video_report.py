"""`evprof bench video` for people to read, in a terminal or as Markdown."""

from __future__ import annotations

from typing import Any

from evprof.cli.terminal.console import Console
from evprof.core.units import ms_text

_HEADINGS = ("", "median", "best", "ours takes", "right frames")


def print_video(document: dict[str, Any], console: Console, *, is_markdown: bool = False) -> None:
    """A table per clip, who could not take part, and how ours fares where it fares worst."""
    summary, rows = document["summary"], document["rows"]
    console.print(f"{document['settings']['frames']} evenly spread frames, from opening the file to RGB")
    for clip in summary["clips"]:
        measured = [row for row in rows if row["clip"] == clip["clip"] and row["median_ms"] is not None]
        console.print()
        console.print(f"**{clip['clip']}**" if is_markdown else clip["clip"])
        body = [_cells(row) for row in sorted(measured, key=lambda row: float(row["median_ms"]))]
        if is_markdown:
            console.print()
            for cells in (_HEADINGS, ["---"] * len(_HEADINGS), *body):
                console.print(f"| {' | '.join(cells)} |")
        else:
            console.table(_HEADINGS, body)
    console.print()
    took_part = {row["reader"] for row in rows if row["reason"] is None}
    for reason in dict.fromkeys(
        f"{row['reader']}{', ' + row['clip'] if row['reader'] in took_part else ''}: {row['reason']}"
        for row in rows
        if row["reason"]
    ):
        console.print(reason)
    console.print(
        f"evprof takes at most {summary['worst_vs_best_strategy']:.2f}x the time of the best fixed strategy "
        f"({summary['worst_clip']})."
    )
    if summary["short_gop_vs_full_decode"] is not None:
        console.print(
            f"On short GOPs it is {summary['short_gop_vs_full_decode']:.1f} times as fast as decoding it all."
        )


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["reader"],
        ms_text(row["median_ms"]),
        ms_text(row["best_ms"]),
        f"{row['ours_vs_this']:.2f}x",
        "yes" if row["exact"] else "no",
    ]
