"""Completions of bash, zsh and fish by shtab, and the meaning of the words in capitals that stand for values."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

SHELLS = ("bash", "zsh", "fish")

FILE, FOLDER = "file", "folder"


@dataclass(frozen=True)
class ValueKind:
    """The meaning of a word in capitals. A shell completes FILE, FOLDER, names with a suffix, or nothing."""

    meaning: str
    completed: str | tuple[str, ...] = ()


VALUES: dict[str, ValueKind] = {
    "N": ValueKind("a whole number"),
    "X": ValueKind("a number"),
    "MS": ValueKind("a time in milliseconds"),
    "US": ValueKind("a time in microseconds"),
    "SECONDS": ValueKind("a time in seconds"),
    "SECONDS|TEMPERATURE": ValueKind("a time in seconds (30), or a GPU's temperature (60C)"),
    "FPS": ValueKind("frames per second, as 30, 29.97 or 30000/1001"),
    "SHARE": ValueKind("a number from 0 to 1"),
    "SIZE": ValueKind("an amount of memory, as 24GB"),
    "WxH": ValueKind("width and height in pixels, as 1600x1000"),
    "TREE": ValueKind("children by level such as 3,2,1, or dynamic:NODES:LEVELS"),
    "N,N,…": ValueKind("whole numbers with commas between them"),
    "auto|N,N,N": ValueKind("auto, or numbers of layers with commas between them"),
    "MS,MS,…": ValueKind("times in milliseconds with commas between them"),
    "NAME=N": ValueKind("a name and its whole number"),
    "TEXT": ValueKind("words; quote them where they hold spaces"),
    "NAME": ValueKind("a name"),
    "FORMAT": ValueKind("a name of a format"),
    "LIST": ValueKind("numbers of runs, as 1,2,5-8"),
    "RUN": ValueKind("the number of a run, or the name of a configuration"),
    "DEVICE": ValueKind("auto, cpu, cuda, or cuda:1 and so on"),
    "SHAPE": ValueKind("the shape of a model"),
    "MODEL": ValueKind("a name that evprof inspect lists, a folder with a checkpoint, or a hub id", FOLDER),
    "ADAPTER": ValueKind("a folder with a trained adapter, or the name of a bundled one", FOLDER),
    "NAME|ADAPTER": ValueKind("the name of a drafter, or a trained adapter", FOLDER),
    "PATH": ValueKind("a file or a folder", FILE),
    "DIR": ValueKind("a folder", FOLDER),
    "FILE": ValueKind("a file", FILE),
    "IN": ValueKind("a file or a folder to read", FILE),
    "OUT": ValueKind("a file or a folder to write", FILE),
    "OUT.png": ValueKind("a picture to write", ("*.png",)),
    "MAP.h5": ValueKind("an HDF5 file", ("*.h5", "*.hdf5")),
    "S.evprof": ValueKind("a session", ("*.evprof",)),
    "S.evprof|TRACE": ValueKind("a session, or a torch trace", ("*.evprof", "*.json", "*.json.gz")),
    "SESSION|FILE.json": ValueKind("a session, or a result file of another program", ("*.evprof", "*.json", "*.jsonl")),
    "FILE.json": ValueKind("a result file of another program", ("*.json", "*.jsonl")),
    "FILE.md|FILE.html": ValueKind("a report to write", ("*.md", "*.html")),
    "FILE.csv|FILE.json": ValueKind("a table to write", ("*.csv", "*.json")),
    "auto|local|ADDRESS": ValueKind("auto, local, or the address of a cluster's head, as 10.0.0.1:6379"),
    "MANIFEST": ValueKind("a list of samples, a grid, or the name of a suite", FILE),
    "MANIFEST|DIR": ValueKind("a list of samples, or a folder of examples", FILE),
}
"""By the word itself."""


def completions(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script that a shell of SHELLS loads. Marks the parser's arguments with how they are completed."""
    import shtab

    _mark(parser)
    script: str = shtab.complete(parser, shell)
    return script


def _mark(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:
        if action.choices is None and action.nargs != 0 and action.metavar is not None:
            found = _completer(str(action.metavar))
            if found is not None:
                action.complete = found  # type: ignore[attr-defined] # shtab's way, which argparse does not know
    for below in commands_of(parser).values():
        _mark(below)


def _completer(value: str) -> dict[str, Any] | None:
    """How shtab completes what stands for a value; None where nothing can be offered."""
    import shtab

    match VALUES[value].completed:
        case "file":
            return dict(shtab.FILE)
        case "folder":
            return dict(shtab.DIRECTORY)
        case ():
            return None
        case suffixes:
            return dict(shtab.glob(*suffixes))


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
