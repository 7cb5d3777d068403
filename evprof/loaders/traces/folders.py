"""The trace that a folder holds."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from evprof.core.errors import UserError

ENDINGS = (".pt.trace.json", ".pt.trace.json.gz")

_DEPTHS = ("", "*/", "*/*/")
"""`--torch-trace` writes a folder for each run, and several runs may lie in one folder."""

_MOST_TOLD = 8


def trace_at(path: str | Path) -> Path:
    """The file itself, or the only trace in a folder. Raises UserError, which names them, where it holds several."""
    place = Path(path)
    if not place.is_dir():
        return place
    patterns = (f"{depth}*{ending}" for depth in _DEPTHS for ending in ENDINGS)
    found = sorted(chain.from_iterable(map(place.glob, patterns)))
    if not found:
        raise UserError(f"{place} holds no *.pt.trace.json[.gz]; name a trace, or a folder with one.")
    if len(found) > 1:
        more = f" and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
        named = ", ".join(map(str, found[:_MOST_TOLD]))
        raise UserError(f"{place} holds {len(found)} traces; name one: {named}{more}.")
    return found[0]
