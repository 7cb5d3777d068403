"""The text of a TOML file on its way to Python's parser, which takes the square of a dotted key's length."""

from __future__ import annotations

import re
import tomllib
from typing import Any

MOST_PARTS = 32
"""A dotted key has a handful; one with very many keeps the parser busy for minutes."""

_ENDLESS_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}""")


def parse_toml(text: str) -> dict[str, Any]:
    """What the text holds. Raises ValueError where it is no TOML, RecursionError where it is nested too deeply."""
    if _ENDLESS_KEY.search(text):
        raise ValueError(f"a key in it has more than {MOST_PARTS} parts")
    return tomllib.loads(text)
