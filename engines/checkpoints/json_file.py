"""Reads JSON files of checkpoints, which are somebody else's: of bounded size, and an object or nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.files.whole_file import regular_file

_MOST_BYTES = 25_000_000
"""Ten times the index of the largest model there is; parsed, a file takes some fifty times its size."""


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file. Raises UserError naming the file when it is missing or is something else."""
    try:
        if path.exists():
            regular_file(path, "download the checkpoint again")
        if path.stat().st_size > _MOST_BYTES:
            raise UserError(f"{path} is {path.stat().st_size} bytes long, far too long for what it should describe.")
        values = parse_json(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path} is missing; a checkpoint folder needs it beside its weights.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON ({error}); download the checkpoint again.") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no JSON object; download the checkpoint again.")
    return values


def parse_json(content: bytes) -> Any:
    """The value that UTF-8 JSON spells. Raises ValueError for whatever it does not, too deep a nesting included."""
    try:
        return json.loads(content.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
