"""The commands as pages, which the reference is written from. The parsers alone say what a command takes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from evprof.cli.command import CommandExample, CommandParser
from evprof.cli.completions import commands_of


@dataclass(frozen=True)
class OptionText:
    """An option or argument: its names (none: it stands in a place), what stands for its value, what it does."""

    names: tuple[str, ...]
    value: str
    text: str


@dataclass(frozen=True)
class OptionGroup:
    """Options under one heading; `text` adds to it."""

    title: str
    text: str
    options: tuple[OptionText, ...]


@dataclass(frozen=True)
class CommandPage:
    """A command: its words (none: evprof itself), its one line, its whole text, how it is typed, and what it takes."""

    words: tuple[str, ...]
    summary: str
    text: str
    usage: str
    groups: tuple[OptionGroup, ...]
    examples: tuple[CommandExample, ...]

    @property
    def name(self) -> str:
        """As it is typed: `evprof adapter train`."""
        return " ".join(("evprof", *self.words))


def pages_of(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[CommandPage]:
    """The page of a parser's own command, then those of the commands below it."""
    text = parser.description or ""
    yield CommandPage(
        words=words,
        summary=text.splitlines()[0] if text else "",
        text=text,
        usage=_usage(parser),
        groups=tuple(group for group in map(_group, parser._action_groups) if group.options),
        examples=parser.examples if isinstance(parser, CommandParser) else (),
    )
    for name, below in commands_of(parser).items():
        yield from pages_of(below, (*words, name))


def _usage(parser: argparse.ArgumentParser) -> str:
    """On one line, without the word "usage"."""
    return " ".join(parser.format_usage().split()[1:])


def _group(group: argparse._ArgumentGroup) -> OptionGroup:
    shown = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
    options = [
        OptionText(tuple(action.option_strings), value_of(action), help_of(action))
        for action in shown
        if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
    ]
    return OptionGroup(group.title or "", group.description or "", tuple(options))


def value_of(action: argparse.Action) -> str:
    """What stands for an option's value; "" where it takes none."""
    if action.nargs == 0:
        return ""
    if action.metavar is not None:
        return str(action.metavar)
    return "|".join(map(str, action.choices)) if action.choices else action.dest


def help_of(action: argparse.Action) -> str:
    """An option's help with its default put in, as argparse prints it."""
    text = action.help or ""
    return text % {**vars(action), "prog": "evprof"} if "%" in text else text
