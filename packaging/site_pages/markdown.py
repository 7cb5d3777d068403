"""Text of the program as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_\[\]<>|])")


def plain(text: object) -> str:
    """Text that is shown as it is, on one line."""
    return _escaped(" ".join(str(text).split()))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text).replace("\\<", "&lt;").replace("\\>", "&gt;")


def code(text: object) -> str:
    """Text in a code span that may stand in a table; "" for none."""
    return f"`{str(text).replace('|', chr(92) + '|')}`" if str(text) else ""


def prose(text: str) -> str:
    """Text in which what stands between backquotes, and options, are code."""
    parts = re.split(r"(`[^`]+`|(?<![\w-])--[a-z][a-z-]*)", " ".join(text.split()))
    return "".join(code(part.strip("`")) if number % 2 else _escaped(part) for number, part in enumerate(parts))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
