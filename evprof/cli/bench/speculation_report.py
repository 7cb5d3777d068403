"""`evprof bench speculation` for people to read, in a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evprof.cli.bench.loader_report import print_table
from evprof.cli.terminal.console import Console
from evprof.core.units import ms_text

_HEADINGS = (
    "drafter",
    "γ",
    "accepted",
    "rate",
    "a round",
    "c",
    "v",
    "by the formula",
    "decoding",
    "95 %",
    "end to end",
    "same",
    "n",
)

Row = Mapping[str, Any]


def print_speculation(document: Mapping[str, Any], console: Console, *, is_markdown: bool = False) -> None:
    """A row for each drafter, the fastest first; then how predictions held, and what the columns mean."""
    settings, summary, rows = document["settings"], document["summary"], document["rows"]
    step = next((row["step_ms"] for row in rows if row.get("step_ms")), None)
    console.print(
        f"{settings['target']} drafted for by {settings['draft']} and others: {settings['samples']} samples, "
        f"{settings['repeat']} pairs each, {settings['dtype']}, a plain step takes {ms_text(step)}"
    )
    console.print()
    measured = [row for row in rows if not row.get("reason")]
    ordered = sorted(measured, key=lambda row: -(row["decode_speedup"] or 0))
    print_table(_HEADINGS, [_cells(row) for row in ordered], console, is_markdown=is_markdown)
    console.print()
    for row in rows:
        if row.get("reason"):
            console.print(f"{row['name']}: {row['reason']}")
    _print_sweep(document["sweep"], console, is_markdown=is_markdown)
    for line in _sentences(summary, measured):
        console.print(line)


def _cells(row: Row) -> list[str]:
    lossy = "" if row["is_lossless"] else " (lossy)"
    return [
        f"{row['name']}{lossy}",
        str(row["gamma"]),
        f"{row['accepted']}/{row['drafted']}",
        _share(row["draft_acceptance_rate"]),
        _number(row["mean_acceptance_length"]),
        _number(row["draft_cost"]),
        _number(row["verify_cost"]),
        _times(row["predicted"]),
        _times(row["decode_speedup"]),
        _range(row["decode_ci95"]),
        _times(row["end_to_end_speedup"]),
        f"{row['same_answers']}/{row['answers']}" if row["is_lossless"] else f"{_share(row['token_match'])} of tokens",
        f"{row['scenes']} scenes, {row['runs']} pairs",
    ]


def _print_sweep(sweep: Sequence[Row], console: Console, *, is_markdown: bool) -> None:
    """Predicted / measured by draft length, a line for each drafter."""
    drafters = list(dict.fromkeys(row["drafter"] for row in sweep))
    if not drafters:
        return
    gammas = sorted({row["gamma"] for row in sweep})
    lines = []
    for drafter in drafters:
        by_gamma = {row["gamma"]: row for row in sweep if row["drafter"] == drafter}
        cells = [
            f"{_times(row['predicted'])} / {_times(row['measured'])}" if (row := by_gamma.get(gamma)) else ""
            for gamma in gammas
        ]
        lines.append([drafter, *cells])
    console.print("Decoding speed predicted from one half of the runs / measured in the other, by draft length:")
    console.print()
    print_table(["drafter", *(f"γ {gamma}" for gamma in gammas)], lines, console, is_markdown=is_markdown)
    console.print()


def _sentences(summary: Row, rows: Sequence[Row]) -> list[str]:
    found = []
    if summary["best_lossless_speedup"] is not None:
        name = next(row["name"] for row in rows if row["drafter"] == summary["best_drafter"])
        found.append(
            f"Fastest without changing an answer: {name}; it decodes {summary['best_lossless_speedup']:.2f} times as "
            "fast as plain decoding."
        )
    if summary["predicted_vs_measured_worst"] is not None:
        found.append(
            f"Predicted / measured with the draft model as it is, farthest from 1: "
            f"{summary['predicted_vs_measured_worst']:.2f}."
        )
    if summary["answers_differ"]:
        gap = summary["largest_gap_ulps"]
        why = "" if gap is None else f"; where they part, both tokens' logits are at most {gap:g} last places apart"
        found.append(
            f"{summary['answers_differ']} of {summary['answers']} answers differ from plain decoding{why}. In float32 "
            "none should, in half precision near-ties may."
        )
    elif summary["answers"]:
        found.append(
            f"All {summary['answers']} different answers, of {summary['unique_tokens']} tokens each drafter, are plain "
            "decoding's, token for token."
        )
    found.append(
        "c and v: a drafted token and a verification in plain steps. The formula: S = tokens / (rounds · (γ c + v) + "
        "preparation). Accepted of drafted leaves the target's own token of each round out, tokens a round count it."
    )
    return found


def _share(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"


def _times(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}x"


def _range(ends: Sequence[float] | None) -> str:
    return "" if ends is None else f"{ends[0]:.2f}–{ends[1]:.2f}"
