"""How alike two models' visual features are, for people to read in a terminal."""

from __future__ import annotations

import textwrap
from typing import Any

from evprof.cli.terminal.console import Console

_LABEL = 38
_WIDTH = 110

_FIGURES = (
    ("mean cosine", "mean_cosine"),
    ("mean cosine, different positions", "mean_cosine_elsewhere"),
    ("linear CKA", "cka"),
    ("linear CKA, debiased", "cka_debiased"),
    ("linear CKA, target's rows shuffled", "cka_shuffled"),
)


def print_features(features: dict[str, Any], console: Console) -> None:
    """The part "features" of the `inspect` document of a draft against a target; cosines by position are in --json."""
    spaces = features["spaces"]
    rows = [
        ("", [space["space"] for space in spaces]),
        ("draft", [_shape(space["draft_shape"]) for space in spaces]),
        ("target", [_shape(space["target_shape"]) for space in spaces]),
        ("positions compared", [str(space["positions"]) for space in spaces]),
        *((name, [_number(space[key]) for space in spaces]) for name, key in _FIGURES),
    ]
    widths = [max(len(cells[index]) for _, cells in rows) for index in range(len(spaces))]
    console.print(f"features of {features['sample']} against {features['target']}")
    for name, cells in rows:
        line = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        console.print(f"  {name:<{_LABEL}}{line}".rstrip())
    console.print(textwrap.fill(features["definition"], _WIDTH, break_long_words=False, break_on_hyphens=False))


def _shape(shape: list[int]) -> str:
    return " x ".join(map(str, shape))


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"
