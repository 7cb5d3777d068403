"""The man page, evprof(1), in roff."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

from evprof.cli.completions import VALUES
from evprof.core.errors import EXIT_CODES
from evprof.version import __version__
from site_pages.command_pages import CommandPage, OptionGroup, OptionText, pages_of
from site_pages.files import VARIABLES


def manual(parser: argparse.ArgumentParser) -> str:
    """The whole page: one section per command, from its parser."""
    top, *commands = pages_of(parser)
    return "\n".join([*_head(top), *_commands(commands), *_tail()]) + "\n"


def _head(top: CommandPage) -> Iterator[str]:
    yield f'.TH EVPROF 1 "" "evprof {roff(__version__)}" "User Commands"'
    # Neither hyphenated nor stretched: what is to be typed must stay as it is.
    yield from (".nh", ".ad l", ".SH NAME", r"evprof \- " + roff(_small(top.summary).split(". ")[0].rstrip(".")))
    yield from (".SH SYNOPSIS", r"\fBevprof\fR [\fICOMMAND\fR] [\fIOPTIONS\fR]", ".SH DESCRIPTION")
    yield from paragraphs(top.text)
    yield from (".SH OPTIONS",)
    for group in top.groups:
        yield from _options(group)
    yield from _examples(top)


def _commands(pages: Iterable[CommandPage]) -> Iterator[str]:
    yield ".SH COMMANDS"
    for page in pages:
        yield f".SS {roff(page.name)}"
        yield from paragraphs(page.text)
        yield from (".PP", ".nf", roff(page.name) + _arguments(page), ".fi")
        for group in page.groups:
            yield from _options(group)
        yield from _examples(page)


def _tail() -> Iterator[str]:
    yield ".SH VALUES"
    for word, kind in VALUES.items():
        yield from (".TP", rf"\fI{roff(word)}\fR", roff(kind.meaning))
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES.items():
        yield from (".TP", rf"\fB{code}\fR", roff(meaning))
    yield ".SH ENVIRONMENT"
    for name, meaning in VARIABLES.items():
        yield from (".TP", rf"\fB{name}\fR", roff(meaning))
    yield from (
        ".SH FILES",
        roff("evprof doctor lists the folders of sessions, logs and models, and how full they are."),
    )


def _arguments(page: CommandPage) -> str:
    """What a command is typed with: its arguments, and that it has options."""
    places = [option.value for group in page.groups for option in group.options if not option.names]
    return "".join(f" {roff(place)}" for place in places) + " [OPTIONS]"


def _options(group: OptionGroup) -> Iterator[str]:
    title = group.title[:1].upper() + group.title[1:]
    if title not in ("Options", "Positional arguments"):
        yield from (".PP", rf"\fI{roff(title)}\fR" + (f" ({roff(group.text)})" if group.text else ""))
    for option in group.options:
        yield from (".TP", _option(option), roff(option.text) or r"\&")


def _option(option: OptionText) -> str:
    value = rf"\fI{roff(option.value)}\fR" if option.value else ""
    if not option.names:
        return value
    names = ", ".join(rf"\fB{roff(name)}\fR" for name in option.names)
    return f"{names} {value}".rstrip()


def _examples(page: CommandPage) -> Iterator[str]:
    if page.examples:
        yield from (".PP", r"\fIExamples\fR")
    for example in page.examples:
        yield from (".TP", rf"\fB{roff(example.command)}\fR", roff(example.sentence))


def paragraphs(text: str) -> Iterator[str]:
    """A text as it is written in a docstring: an empty line begins a paragraph."""
    for paragraph in text.split("\n\n"):
        yield from (".PP", roff(" ".join(paragraph.split())))


def roff(text: str) -> str:
    """A text that no letter of which means anything to roff, in ASCII."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    escaped = escaped.replace("^", r"\(ha").replace("~", r"\(ti")
    shown = "".join(letter if letter.isascii() else f"\\[u{ord(letter):04X}]" for letter in escaped)
    return rf"\&{shown}" if shown.startswith(".") else shown


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]
