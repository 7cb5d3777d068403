"""Samples that failed: what a file's list of errors says, as rows that failed, and never as rows of zeros."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.loaders.legacy.checks import FileProblems, RowCheck, sample_name
from evprof.loaders.legacy.rows import SIDE_BY_SIDE, LegacyModel, LegacyRow

_ERRORS = {"egpt_error": DRAFT, "vl_error": TARGET}

UNKNOWN_MODEL = "both models"
"""The cell of a failure that names no model."""


def failed_rows(
    raw: Any, number: int, problems: FileProblems, cells: Mapping[str, tuple[str, LegacyModel]]
) -> list[LegacyRow]:
    """The rows of one entry of `errors`: one per model that the entry names, one in all when it names none.

    `cells` are the configurations by role: name and model.
    """
    if not isinstance(raw, dict):
        problems.of_row("errors: an entry is no object and was left out", number)
        return []
    check = RowCheck(raw, number, problems, "errors")
    named = {role: text for key, role in _ERRORS.items() if (text := check.text(key))}
    by_role = named or {TARGET: check.text("error") or "the file says that this sample failed, and not why"}
    for text in by_role.values():
        problems.of_row(f"errors: failed samples: {error_kind(text)}", number)
    return [
        LegacyRow(
            row=number,
            group=number,
            side="errors",
            role=role,
            mode=SIDE_BY_SIDE,
            cell=cells[role][0] if named and role in cells else UNKNOWN_MODEL,
            sample=sample_name(raw.get("sample_idx"), number),
            models={role: cells[role][1]} if named and role in cells else {},
            error=text,
        )
        for role, text in by_role.items()
    ]


_NUMBER = re.compile(r"\d[\d.,]*\d|\d")


def error_kind(text: str) -> str:
    """An error without its numbers, so that the same one of many samples counts as one."""
    return shortened(_NUMBER.sub("…", shortened(text, 400)))


def shortened(text: str, most: int = 160) -> str:
    """The first sentences of an error, for lists: printable, on one line."""
    words = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 4 * most]).split())
    return words if len(words) <= most else f"{words[: most - 1].rsplit(' ', 1)[0]}…"
