"""The commands that the window can have carried out, as forms made of their own options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from evprof.core.errors import UserError
from evprof.run.works.work_form import (
    FILE,
    FLAG,
    FOLDER,
    LIST,
    OFFERS,
    PLACE,
    WORD,
    WorkField,
    WorkForm,
    WorkOffer,
    Works,
)

_NOT_ASKED = frozenset({"help", "json", "debug", "quiet", "version", "plan", "markdown"})
_KINDS = {
    **dict.fromkeys(("IN", "MANIFEST", "FILE", "MAP.h5", "MANIFEST|DIR", "S.evprof"), FILE),
    **dict.fromkeys(("DIR", "ADAPTER"), FOLDER),
}


def works(make_parser: Callable[[], argparse.ArgumentParser]) -> Works:
    """What the window needs to have them carried out; `make_parser` makes the program's own, when that is needed."""
    from evprof.cli.terminal.program import program_argv

    parser = cache(make_parser)
    return Works(
        lambda: forms(parser()), lambda words: program_argv("_work", *words), lambda words: check(parser(), words)
    )


def forms(parser: argparse.ArgumentParser) -> list[WorkForm]:
    return [_form(offer, _below(parser, offer.words)) for offer in OFFERS]


def check(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    try:
        parser.parse_args(list(words))
    except UserError as error:
        return error.sentence
    return ""


def _below(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.ArgumentParser:
    for word in words:
        commands = next(act for act in parser._actions if isinstance(act, argparse._SubParsersAction))
        parser = commands.choices[word]
    return parser


def _form(offer: WorkOffer, parser: argparse.ArgumentParser) -> WorkForm:
    text = (parser.description or "").split("\n\n")[0].replace("\n", " ")
    fields = tuple(_fields(parser))
    return WorkForm(offer, text, fields)


def _fields(parser: argparse.ArgumentParser) -> Iterator[WorkField]:
    formatter = parser._get_formatter()
    for group in parser._action_groups:
        for action in group._group_actions:
            if action.help == argparse.SUPPRESS or action.dest in _NOT_ASKED:
                continue
            yield WorkField(
                name=action.dest,
                option=action.option_strings[-1] if action.option_strings else "",
                help=formatter._expand_help(action) if action.help else "",
                kind=_kind(action),
                choices=tuple(map(str, action.choices or _suggested(parser.prog.split()[-1], action.dest))),
                is_required=bool(action.required),
                default=_default(action),
                group="" if action.required or group in parser._action_groups[:2] else group.title or "",
                short=action.option_strings[0] if len(action.option_strings) > 1 else "",
            )


def _suggested(command: str, option: str) -> Sequence[str]:
    if (command, option) != ("suite", "suite"):
        return ()
    from evprof.run.suites.ready import READY  # not for the window's start

    return tuple(READY)


def _kind(action: argparse.Action) -> str:
    if action.nargs == 0:
        return FLAG
    if isinstance(action, argparse._AppendAction) or action.nargs in ("*", "+"):
        return LIST
    return _KINDS.get(str(action.metavar), PLACE if action.dest == "output" else WORD)


def _default(action: argparse.Action) -> str:
    return "" if action.default in (None, False, []) or action.nargs == 0 else str(action.default)
