"""What a column of a table of records is: a head, a value to sort by, and a text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Column:
    """One column: its head, what it sorts by (None: last), and how it is written; texts stand left, numbers right."""

    head: str
    value: Callable[[Any], Any]
    text: Callable[[Any], str]
    tip: str = ""
    is_text: bool = False
