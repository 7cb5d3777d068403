"""Completions of bash, zsh and fish, written by shtab from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from evprof.cli.help.values import FILE, FOLDER, MODEL, PATH, VALUES

SHELLS = ("bash", "zsh", "fish")


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

    completed = VALUES[value].completed
    if completed in (FILE, PATH):
        return dict(shtab.FILE)
    if completed == FOLDER:
        return dict(shtab.DIRECTORY)
    if completed == MODEL:
        from engines import CATALOGUE

        return _of_words("model", [entry.name for entry in CATALOGUE], with_folders=True)
    if not completed:
        return None
    if all(word.startswith("*") for word in completed):
        return dict(shtab.glob(*completed))
    return _of_words(value.lower(), completed, with_folders=False)


def _of_words(name: str, words: Sequence[str], *, with_folders: bool) -> dict[str, Any]:
    """Known words, none of which needs quotes, and folders where these may be meant as well."""
    function, listed = f"_evprof_{name}", " ".join(words)
    folders = {
        "bash": "compgen -d -- $1",
        "zsh": "_files -/",
        "fish": "__fish_complete_directories",
    }
    end = folders if with_folders else dict.fromkeys(folders, "true")
    return {
        "bash": function,
        "zsh": function,
        "fish": f"({function})",
        "preamble": {
            "bash": f'{function}() {{\n  compgen -W "{listed}" -- $1\n  {end["bash"]}\n}}\n',
            "zsh": f"{function}() {{\n  compadd -- {listed}\n  {end['zsh']}\n}}\n",
            "fish": f"function {function}\n  printf '%s\\n' {listed}\n  {end['fish']}\nend\n",
        },
    }


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands right below a parser's; none where it has none."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
