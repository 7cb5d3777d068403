"""What the documents say about commands and JSON is what the program does."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from evprof.cli import build_parser
from shown_commands import PAGES, shown_in

ROOT = Path(__file__).resolve().parents[2]


def commands_in(page: str) -> list[str]:
    """Lines of shell blocks that call evprof."""
    return [command.line for command in shown_in(page)]


def options_of() -> dict[str, set[str]]:
    return {name: words_of(entry) for name, entry in parts_of(build_parser()).items()}


def parts_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser, none where it has none."""
    found = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def words_of(parser: argparse.ArgumentParser) -> set[str]:
    """Options of a command and of the commands below it, but those that help hides."""
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    words = {word for action in shown for word in action.option_strings}
    return words.union(*(words_of(part) for part in parts_of(parser).values()))


@pytest.mark.parametrize("page", PAGES)
def test_every_command_shown_is_understood(page: str) -> None:
    for line in commands_in(page):
        words = shlex.split(line)[1:]
        options = build_parser().parse_args(words or ["gui"])
        assert options.command


def test_the_page_shows_every_command() -> None:
    shown = {shlex.split(line)[1] for line in commands_in("docs/command-line.md") if " " in line}
    assert shown == set(options_of())


def test_every_option_of_run_is_explained() -> None:
    text = (ROOT / "docs/command-line.md").read_text(encoding="utf-8")
    covered = {"--draft-device", "--target-device", "--draft-dtype", "--target-dtype", "--output", "--help", "--debug"}
    missing = {word for word in options_of()["run"] - covered if word.startswith("--") and word not in text}
    assert missing == set()


def test_the_json_page_names_every_key(evprof, session) -> None:
    text = (ROOT / "docs/json.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_0-9]+)", text))
    document = evprof("show", session, "--json").document
    assert set(document) <= named
    assert set(document["runs"][0]) <= named
    compared = evprof("compare", session, "--json").document
    assert set(compared) - {"baseline"} <= named
