"""Completions of bash, zsh and fish by shtab."""

from __future__ import annotations

import argparse
from typing import Any

SHELLS = ("bash", "zsh", "fish")

_FILE = frozenset({"PATH", "FILE", "IN", "OUT", "MANIFEST", "MANIFEST|DIR"})
_FOLDER = frozenset({"DIR", "MODEL", "ADAPTER", "NAME|ADAPTER"})
_SUFFIXES = {
    "OUT.png": ("*.png",),
    "MAP.h5": ("*.h5", "*.hdf5"),
    "S.evprof": ("*.evprof",),
    "S.evprof|TRACE": ("*.evprof", "*.json", "*.json.gz"),
    "SESSION|FILE.json": ("*.evprof", "*.json", "*.jsonl"),
    "FILE.json": ("*.json", "*.jsonl"),
    "FILE.md|FILE.html": ("*.md", "*.html"),
    "FILE.csv|FILE.json": ("*.csv", "*.json"),
}
"""What stands for a value in help, and what a shell offers for it; for other words it offers nothing."""


def completions(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script that a shell of SHELLS loads. Marks the parser's arguments with how they are completed."""
    import shtab

    _mark(parser)
    script: str = shtab.complete(parser, shell)
    return script


def _mark(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:
        if action.choices is None and action.nargs != 0 and (completer := _completer(str(action.metavar))):
            action.complete = completer  # type: ignore[attr-defined] # shtab's way, which argparse does not know
    for below in commands_of(parser).values():
        _mark(below)


def _completer(value: str) -> dict[str, Any] | None:
    import shtab

    if value in _SUFFIXES:
        return dict(shtab.glob(*_SUFFIXES[value]))
    return dict(shtab.FILE) if value in _FILE else dict(shtab.DIRECTORY) if value in _FOLDER else None


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
