"""The commands that the window can have carried out, as forms made of their own options."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evprof.core.errors import UserError
from evprof.run.suites.suite import SESSION_NAME
from evprof.run.works.work_form import FILE, FLAG, FOLDER, LIST, PLACE, WORD, WorkField, WorkForm, Works


@dataclass(frozen=True)
class _Offer:
    """One form: its name, its title, the words that begin its command, and what the window can open afterwards."""

    name: str
    title: str
    words: tuple[str, ...]
    result: str | None = None


OFFERS = (
    _Offer("suite", "Measure a suite", ("suite",), SESSION_NAME),
    _Offer("convert", "Convert recordings", ("convert",), ""),
    _Offer("collect", "Collect examples for an adapter", ("adapter", "collect")),
    _Offer("train", "Train an adapter", ("adapter", "train")),
    _Offer("evaluate", "Evaluate an adapter", ("adapter", "evaluate")),
    _Offer("overhead", "Measure the observer effect", ("bench", "overhead")),
)
"""In menu order."""

_NOT_ASKED = frozenset({"help", "json", "debug", "quiet", "version", "plan", "markdown"})
_KINDS = {
    **dict.fromkeys(("IN", "MANIFEST", "FILE", "MAP.h5", "MANIFEST|DIR", "S.evprof"), FILE),
    **dict.fromkeys(("DIR", "ADAPTER"), FOLDER),
}


def works() -> Works:
    """What the window needs to have them carried out."""
    from evprof.cli.terminal.program import program_argv

    return Works(forms, lambda words: program_argv("_work", *words), check)


def forms() -> list[WorkForm]:
    """A form of every offer."""
    from evprof.cli import build_parser

    parser = build_parser()
    return [_form(offer, _below(parser, offer.words)) for offer in OFFERS]


def check(words: Sequence[str]) -> str:
    """Why a command cannot be meant so, in a sentence; "" if it can."""
    from evprof.cli import build_parser

    try:
        build_parser().parse_args(list(words))
    except UserError as error:
        return error.sentence
    return ""


def _below(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.ArgumentParser:
    for word in words:
        commands = next(act for act in parser._actions if isinstance(act, argparse._SubParsersAction))
        parser = commands.choices[word]
    return parser


def _form(offer: _Offer, parser: argparse.ArgumentParser) -> WorkForm:
    text = (parser.description or "").split("\n\n")[0].replace("\n", " ")
    fields = tuple(_fields(parser))
    return WorkForm(offer.name, offer.title, offer.words, text, fields, offer.result)


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
                choices=tuple(map(str, action.choices or ())),
                is_required=bool(action.required),
                default=_default(action),
                group="" if action.required or group in parser._action_groups[:2] else group.title or "",
            )


def _kind(action: argparse.Action) -> str:
    if action.nargs == 0:
        return FLAG
    if isinstance(action, argparse._AppendAction) or action.nargs in ("*", "+"):
        return LIST
    if action.dest == "output":
        return PLACE
    return _KINDS.get(str(action.metavar), WORD)


def _default(action: argparse.Action) -> str:
    return "" if action.default in (None, False, []) or action.nargs == 0 else str(action.default)
