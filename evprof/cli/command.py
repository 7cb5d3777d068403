"""What a command is, and argparse as every command uses it: wrong usage is one sentence with the nearest name."""

from __future__ import annotations

import argparse
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from evprof.core.errors import UsageError
from evprof.core.texts import did_you_mean, nearest

if TYPE_CHECKING:
    from evprof.cli.terminal.console import Console


@dataclass(frozen=True)
class CommandExample:
    """A command as it is typed, and what it does."""

    command: str
    sentence: str


class Command(ABC):
    """One command of `evprof`; its class docstring is its --help."""

    name: str

    examples: ClassVar[tuple[CommandExample, ...]]
    """Shown by help, man page and pages; tests parse each."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:  # noqa: B027 - a command may have no options
        """Adds arguments and options to the command's own parser."""

    @abstractmethod
    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Does the work and returns the exit code. Raises UserError for what a person can mend."""

    @classmethod
    def description(cls) -> str:
        """The whole docstring, for the command's --help."""
        return inspect.cleandoc(cls.__doc__ or "")


_MUST_BE: dict[Any, str] = {int: "a whole number", float: "a number"}


def advanced(action: argparse.Action) -> argparse.Action:
    action.is_advanced = True  # type: ignore[attr-defined]  # an attribute of ours
    return action


def is_advanced(action: argparse.Action) -> bool:
    return bool(getattr(action, "is_advanced", False))


class CommandHelp(argparse.RawDescriptionHelpFormatter):
    """Descriptions and examples as written; paragraphs wider than the terminal are filled, indented lists stay."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = []
        for paragraph in text.split("\n\n"):
            lines = paragraph.splitlines()
            is_list = any(line[:1].isspace() for line in lines)
            is_wide = max(map(len, lines), default=0) > width
            filled = fill(" ".join(lines), width, break_on_hyphens=False, break_long_words=False)
            paragraphs.append(filled if is_wide and not is_list else paragraph)
        return super()._fill_text("\n\n".join(paragraphs), width, indent)


class _HelpAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(argparse.ArgumentParser.format_help(parser), end="")
        raise SystemExit(0)


class CommandParser(argparse.ArgumentParser):
    """argparse; wrong usage is one sentence with the nearest name, and `--help` leaves advanced options out."""

    examples: tuple[CommandExample, ...] = ()
    removed: Mapping[str, str] = {}
    """Names of commands and options that were removed, and what to use instead."""

    def error(self, message: str) -> NoReturn:
        """Raises UserError (exit code 2)."""
        end = " See" if message.endswith("?") else "; see"
        message = message.removeprefix("argument ")
        raise UsageError(f"{message[:1].upper()}{message[1:]}{end} {self.prog} --help.")

    def format_help(self) -> str:
        rare = [action for action in self._actions if is_advanced(action)]
        texts = [action.help for action in rare]
        for action in rare:
            action.help = argparse.SUPPRESS
        try:
            shown = super().format_help()
        finally:
            for action, text in zip(rare, texts, strict=True):
                action.help = text
        return f"{shown}\n{len(rare)} more options: {self.prog} --help-all\n" if rare else shown

    def add_help_all(self) -> None:
        """Adds `--help-all` where an option is advanced."""
        if any(map(is_advanced, self._actions)) and "--help-all" not in self._option_string_actions:
            self.add_argument(
                "--help-all", action=_HelpAll, nargs=0, default=argparse.SUPPRESS, help="list every option, and exit"
            )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse; a command's parser rejects unknown words itself, because it knows its options."""
        self.add_help_all()
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            word = unknown[0].partition("=")[0]
            if not word.startswith("-"):
                self.error(f"'{word}' is one word too many")
            if instead := self.removed.get(word):
                self.error(f"the option {word} was removed: {instead}")
            self.error(f"there is no option {word}{did_you_mean(word, self.option_names())}")
        return options, unknown

    def option_names(self) -> list[str]:
        return [name for action in self._actions if action.help != argparse.SUPPRESS for name in action.option_strings]

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        if arg_string == "-" and "--output" in action.option_strings:
            # Elsewhere "-" is standard output; here it would be a file of that name.
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
            is_file = "gui" in action.choices and Path(value).exists()
            guess = f"; did you mean {self.prog} gui {value}?" if is_file else did_you_mean(value, action.choices)
            self.error(f"there is no command '{value}' of {self.prog}{guess}")
        known = list(map(str, action.choices))
        meant = nearest(value, known)
        guess = f"; did you mean {meant}?" if meant else ""
        raise argparse.ArgumentError(action, f"'{value}' is none of {', '.join(known)}{guess}")


def add_commands(parser: argparse.ArgumentParser, dest: str, *, metavar: str = "COMMAND", is_required: bool) -> Any:
    """Where the commands below `parser` are added by `add_command`."""
    return parser.add_subparsers(
        title="commands", metavar=metavar, dest=dest, required=is_required, parser_class=CommandParser
    )


def add_command(choices: Any, name: str, text: str, examples: Sequence[CommandExample]) -> CommandParser:
    """A command's parser: `text` is a docstring, its first line the entry in the list of commands."""
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
    lines = [f"  {example.command}\n      {example.sentence}" for example in examples]
    return "\n".join(["examples:", *lines]) if lines else None
