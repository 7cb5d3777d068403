"""What a command is: a name, options, and a way to run; its class docstring is its --help."""

from __future__ import annotations

import argparse
import inspect
from abc import ABC, abstractmethod
from typing import ClassVar

from evprof.cli.parser import CommandExample
from evprof.cli.terminal.console import Console


class Command(ABC):
    """One command of `evprof`. Subclasses say their name, add their options and run."""

    name: str

    examples: ClassVar[tuple[CommandExample, ...]]
    """What its help, the man page and the pages show it with; tests parse each."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:  # noqa: B027 - a command may have no options
        """Adds arguments and options to the command's own parser."""

    @abstractmethod
    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Does the work and returns the exit code. Raises UserError for what a person can mend."""

    @classmethod
    def summary(cls) -> str:
        """The docstring's first line, for the list of commands."""
        return inspect.cleandoc(cls.__doc__ or "").splitlines()[0]

    @classmethod
    def description(cls) -> str:
        """The whole docstring, for the command's --help."""
        return inspect.cleandoc(cls.__doc__ or "")


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--json`, which every command that reports something has."""
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")


def add_comparable_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--require-comparable`, which commands that put runs side by side have."""
    parser.add_argument(
        "--require-comparable",
        action="store_true",
        help="fail (exit code 1) where runs differ in machine, software, a model's files, prompt or sample",
    )


MOST_TIMEOUT_S = 86_400

MOST_SESSIONS = 1000
"""Engine processes; more are asked for by a slip."""


def add_sessions_option(group: argparse._ActionsContainer, usual: int = 1) -> None:
    """Adds in how many engine processes everything is measured; None without the option, which means `usual`."""
    group.add_argument(
        "--sessions",
        type=_count,
        metavar="N",
        help=f"measure in N fresh engine processes, one after the other (default: {usual})",
    )


def add_ray_options(
    group: argparse._ActionsContainer,
    work: str = "measure on all GPUs",
    share: str = "without GPUs: an engine for every N CPU threads of a machine (default: one with all of them)",
) -> None:
    """Adds where a list is worked on: many GPUs and machines at once, by Ray; None without the options."""
    group.add_argument(
        "--ray",
        metavar="auto|local|ADDRESS",
        help=f"{work} of this machine (local) or of a cluster of Ray, by its head's address; auto: of the cluster that "
        "runs, else of this machine; needs evprof[ray]",
    )
    group.add_argument(
        "--ray-threads",
        type=_count,
        metavar="N",
        help=share,
    )


def add_timeout_option(group: argparse._ActionsContainer) -> None:
    """Adds after how long without progress an engine is given up; None without the option."""
    group.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        help="end the engine when nothing is heard of it for so long (then it runs in a process of its own); loading, "
        "compiling or one long prefill may take minutes (default: it is told after a minute, and nothing is ended)",
    )


def _seconds(word: str) -> float:
    try:
        found = float(word)
    except ValueError:
        found = 0.0
    if not 1 <= found <= MOST_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"must be a number of seconds from 1 to {MOST_TIMEOUT_S}, not {word}")
    return found


def _count(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and 1 <= int(word) <= MOST_SESSIONS):
        raise argparse.ArgumentTypeError(f"must be a number from 1 to {MOST_SESSIONS}, not {word}")
    return int(word)
