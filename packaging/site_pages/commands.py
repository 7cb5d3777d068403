"""Every command with all its arguments and options, from the parsers themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from evprof.cli import build_parser
from site_pages.command_pages import CommandPage, OptionText, pages_of
from site_pages.markdown import code, plain, prose, table

_INTRODUCTION = """# Every command

What each command takes, as `evprof COMMAND --help` prints it. For tasks rather than lists, see
[the command line by task](../command-line.md).
"""


def page() -> str:
    return "\n".join((_INTRODUCTION, *(line for each in pages_of(build_parser()) for line in _section(each))))


def _section(command: CommandPage) -> Iterator[str]:
    yield f"{'#' * (1 + max(1, len(command.words)))} {command.name}\n"
    yield from _paragraphs(command.text)
    yield f"```text\n{command.usage}\n```\n"
    for group in command.groups:
        yield f"**{plain(group.title).capitalize()}**\n"
        yield f"{prose(group.text)}\n" if group.text else ""
        yield table(("", ""), map(_row, group.options))
    if command.examples:
        lines = (f"{example.command}  # {example.sentence}" for example in command.examples)
        yield "\n".join(("```sh", *lines, "```\n"))


def _row(option: OptionText) -> tuple[str, str]:
    named = [f"{name} {option.value}".strip() for name in option.names] or [option.value]
    return ", ".join(map(code, named)), prose(option.text)


def _paragraphs(text: str) -> Iterator[str]:
    """A docstring's paragraphs; a line of `word: …` begins one of its own."""
    for paragraph in re.sub(r"\n(?=[a-z-]+: )", "\n\n", text).split("\n\n"):
        yield f"{prose(paragraph)}\n"
