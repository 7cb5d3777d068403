"""What the commands say of themselves: help, examples, and completions."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evprof.cli import build_parser, parser_for
from evprof.cli.commands import REMOVED
from evprof.cli.completions import SHELLS, commands_of, completions
from site_pages.command_pages import CommandPage, pages_of

PAGES = list(pages_of(build_parser()))


def parsers(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[argparse.ArgumentParser]:
    """A parser and all below it."""
    yield parser
    for name, below in commands_of(parser).items():
        yield from parsers(below, (*words, name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_has_examples_that_are_understood(page: CommandPage) -> None:
    assert page.examples
    for example in page.examples:
        words = shlex.split(example.command.partition(" > ")[0])
        assert words[0] == "evprof"
        whole, needed = (parser.parse_args(words[1:]) for parser in (build_parser(), parser_for(words[1:])))
        assert whole.command == needed.command
        assert {**vars(whole), "instance": None} == {**vars(needed), "instance": None}


@pytest.mark.parametrize("parser", list(parsers(build_parser())), ids=lambda parser: parser.prog)
def test_all_that_can_be_typed_has_help(parser) -> None:
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            assert action.help, f"{parser.prog} {action.dest}"


def test_a_benchmark_of_evprof_itself_names_its_program(evprof) -> None:
    found = evprof("bench", "events", "--only", "dat")
    assert found.code == 2
    assert "was removed: run tests/benchmarks/run.py events in a checkout" in found.errors


@pytest.mark.parametrize(("name", "instead"), REMOVED.items())
def test_a_removed_command_names_what_to_use_instead(evprof, name: str, instead: str) -> None:
    found = evprof(name, "x")
    assert (found.code, found.output) == (2, "")
    assert found.errors == f"evprof: The command '{name}' was removed: {instead}; see evprof --help.\n"


def test_a_file_in_a_commands_place_is_opened_in_the_window(evprof, tmp_path, monkeypatch) -> None:
    path = tmp_path / "demo.evprof"
    path.touch()
    opened: list[str] = []
    monkeypatch.setattr("evprof.cli.gui.GuiCommand.run", lambda _, options, __: opened.extend(options.paths) or 0)
    assert evprof(path).code == 0
    assert opened == [str(path)]
    assert f"did you mean evprof gui {tmp_path}?" in evprof(tmp_path).errors


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["rnu"], "run"),
        (["run", "--ganma", "3"], "--gamma"),
        (["run", "--mode", "paralel-prefil"], "parallel-prefill"),
        (["bench", "speculatio"], "speculation"),
        (["bench", "overhead", "--pair", "3"], "--pairs"),
        (["adapter", "tran"], "train"),
        (["export", "s.evprof", "--format", "crome", "-o", "x"], "chrome"),
    ],
)
def test_a_slip_is_answered_with_the_nearest_name(evprof, words, nearest) -> None:
    found = evprof(*words)
    assert (found.code, found.output, len(found.errors.splitlines())) == (2, "", 1)
    assert f"did you mean {nearest}?" in found.errors


@pytest.mark.parametrize("shell", SHELLS)
def test_completions_name_every_command_and_option(shell: str) -> None:
    script = completions(build_parser(), shell)
    for page in PAGES:
        for group in page.groups:
            for option in group.options:
                for name in option.names:
                    assert name.lstrip("-") in script, (page.name, name)
        assert all(word in script for word in page.words)
    assert "parallel-prefill" in script
    assert "*.evprof" in script


def completed(script: Path, line: str) -> list[str]:
    """What bash offers at the end of a line."""
    words = line.split(" ")
    listed = " ".join(shlex.quote(word) for word in words)
    code = (
        f"source {shlex.quote(str(script))}; COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; "
        f'$(complete -p evprof | sed "s/.*-F \\([^ ]*\\).*/\\1/"); printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None or sys.platform == "win32", reason="bash is not installed")
def test_bash_completes_commands_options_values_and_files(tmp_path: Path, monkeypatch) -> None:
    script = tmp_path / "script"
    script.write_text(completions(build_parser(), "bash"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scene.evprof").touch()
    (tmp_path / "scene.txt").touch()
    assert completed(script, "evprof sui") == ["suite"]
    assert completed(script, "evprof bench re") == ["repeatability"]
    assert completed(script, "evprof run --mode spec") == ["speculative"]
    assert completed(script, "evprof run --gam") == ["--gamma"]
    assert completed(script, "evprof show sce") == ["scene.evprof"]
