"""Journals: one JSON value a line, the first of which says whose they are; half a line tells nothing."""

from __future__ import annotations

import json
import re
import tomllib
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.loaders.paths import opened_file, reason

_LONGEST_BYTES = 1 << 30


def json_line(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True) + "\n"


def read_lines(path: Path, mark: str, version: int, kind: str, way: str) -> tuple[dict[str, Any], list[object]]:
    """The first line, whose `mark` is `version`, and all others; None for what is no JSON.

    Raises UserError, with `way` out, when this is no journal of that `kind`.
    """
    try:
        if path.stat().st_size > _LONGEST_BYTES:
            raise UserError(f"{path}: is far too long to be the journal of a {kind}; choose another folder.")
        with opened_file(path) as file:
            lines = file.read().decode("utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({reason(error)}); choose another folder.") from None
    head, *others = map(_parsed, lines or [""])
    if not isinstance(head, dict) or head.get(mark) != version:
        raise UserError(f"{path}: is no journal of a {kind} by this version; {way}, or begin anew with --overwrite.")
    return head, others


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


MOST_PARTS = 32
"""A dotted key has a handful; one with very many keeps the parser busy for minutes."""

_ENDLESS_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}""")


def parse_toml(text: str) -> dict[str, Any]:
    """What the text holds. Raises ValueError where it is no TOML, RecursionError where it is nested too deeply."""
    if _ENDLESS_KEY.search(text):
        raise ValueError(f"a key in it has more than {MOST_PARTS} parts")
    return tomllib.loads(text)


_LONGEST = 40
_MOST_PLACES = 1000


def decimal_of(text: str) -> Decimal | None:
    """The finite number that a text is; None for others, and for those with a thousand places or more.

    Of 1e999999999 nothing can be computed: Decimal raises even where it is only compared.
    """
    try:
        number = Decimal(text.strip()) if len(text) <= _LONGEST else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() and abs(number.adjusted()) < _MOST_PLACES else None
