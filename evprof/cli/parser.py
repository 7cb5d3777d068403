"""argparse as every command uses it: one sentence for wrong usage with the nearest name, examples in every help."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any, NoReturn

from evprof.core.errors import USAGE, UserError
from evprof.core.suggestions import did_you_mean, nearest


@dataclass(frozen=True)
class CommandExample:
    """A command as it is typed, and what it does."""

    command: str
    sentence: str


_MUST_BE: dict[Any, str] = {int: "a whole number", float: "a number"}
"""What a word must be that is read as a number."""


class CommandHelp(argparse.RawDescriptionHelpFormatter):
    """Descriptions and examples as they are written, except that paragraphs wider than the terminal are filled anew;
    what is indented is a list and stays."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = []
        for paragraph in text.split("\n\n"):
            lines = paragraph.splitlines()
            is_list = any(line[:1].isspace() for line in lines)
            is_wide = max(map(len, lines), default=0) > width
            filled = fill(" ".join(lines), width, break_on_hyphens=False, break_long_words=False)
            paragraphs.append(filled if is_wide and not is_list else paragraph)
        return super()._fill_text("\n\n".join(paragraphs), width, indent)


class CommandParser(argparse.ArgumentParser):
    """argparse, except that wrong usage is one sentence with the nearest name and the way to the help."""

    examples: tuple[CommandExample, ...] = ()
    removed: Mapping[str, str] = {}
    """Names of commands that were removed, and what to use instead."""

    def error(self, message: str) -> NoReturn:
        """Raises UserError (exit code 2)."""
        end = " See" if message.endswith("?") else "; see"
        message = message.removeprefix("argument ")
        raise UserError(f"{message[:1].upper()}{message[1:]}{end} {self.prog} --help.", exit_code=USAGE)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse; a command's parser refuses what it does not know by itself, because it knows its options."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            word = unknown[0].partition("=")[0]
            if not word.startswith("-"):
                self.error(f"'{word}' is one word too many")
            self.error(f"there is no option {word}{did_you_mean(word, self.option_names())}")
        return found, unknown

    def option_names(self) -> list[str]:
        """Every option that may be typed."""
        return [name for action in self._actions if action.help != argparse.SUPPRESS for name in action.option_strings]

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        if arg_string == "-" and "--output" in action.option_strings:
            # Elsewhere that is standard output; here it would be a file of that name.
            raise argparse.ArgumentError(action, "must name a file or folder, not '-'")
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            if action.type not in _MUST_BE:
                raise
            raise argparse.ArgumentError(action, f"must be {_MUST_BE[action.type]}, not '{arg_string}'") from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        if isinstance(action, argparse._SubParsersAction):
            if instead := self.removed.get(value):
                self.error(f"the command '{value}' was removed: {instead}")
            # Who writes a file where a command stands wants to see it.
            is_file = "gui" in action.choices and Path(value).exists()
            guess = f"; did you mean {self.prog} gui {value}?" if is_file else did_you_mean(value, action.choices)
            self.error(f"there is no command '{value}' of {self.prog}{guess}")
        known = list(map(str, action.choices))
        others: Mapping[str, str] = getattr(action.choices, "other_names", {})
        meant = nearest(value, [*known, *others])
        guess = f"; did you mean {others.get(meant, meant)}?" if meant else ""
        raise argparse.ArgumentError(action, f"'{value}' is none of {', '.join(known)}{guess}")


def add_commands(parser: argparse.ArgumentParser, dest: str, *, metavar: str = "COMMAND", is_required: bool) -> Any:
    """Where the commands below `parser` are added by `add_command`."""
    return parser.add_subparsers(
        title="commands", metavar=metavar, dest=dest, required=is_required, parser_class=CommandParser
    )


def add_command(choices: Any, name: str, text: str, examples: Sequence[CommandExample]) -> CommandParser:
    """A command's parser: `text` is a docstring, its first line what the list of commands says."""
    description = inspect.cleandoc(text)
    entry: CommandParser = choices.add_parser(
        name,
        help=description.splitlines()[0].replace("%", "%%"),
        description=description,
        epilog=epilog(examples),
        formatter_class=CommandHelp,
        allow_abbrev=False,
    )
    entry.examples = tuple(examples)
    entry.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    entry.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        default=argparse.SUPPRESS,
        help="print no progress, only the result and warnings",
    )
    return entry


def epilog(examples: Iterable[CommandExample]) -> str | None:
    """The examples as a help ends with them."""
    lines = [f"  {example.command}\n      {example.sentence}" for example in examples]
    return "\n".join(["examples:", *lines]) if lines else None
