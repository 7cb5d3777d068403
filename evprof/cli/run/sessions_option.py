"""The option `--sessions` of commands that measure."""

from __future__ import annotations

import argparse

MOST_SESSIONS = 1000
"""Engine processes; more are asked for by a slip."""


def add_sessions_option(group: argparse._ActionsContainer) -> None:
    """Adds in how many engine processes everything is measured; None without the option."""
    group.add_argument(
        "--sessions",
        type=_count,
        metavar="N",
        help="measure in N fresh engine processes, one after the other (default: 1)",
    )


def _count(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and 1 <= int(word) <= MOST_SESSIONS):
        raise argparse.ArgumentTypeError(f"must be a number from 1 to {MOST_SESSIONS}, not {word}")
    return int(word)
