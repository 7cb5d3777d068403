"""Which of a bundle's two programs carries out what."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from evprof.cli.terminal import program


@pytest.fixture
def console_program(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "evprof"))
    return tmp_path / "evprof"


@pytest.mark.parametrize("words", [("gui", "a.evprof"), ("_examine", "window")])
def test_what_needs_qt_goes_to_the_window_program(console_program, words) -> None:
    assert program.program_argv(*words) == [str(console_program.with_name("evprof-window")), *words]


@pytest.mark.parametrize("words", [("_engine",), ("_examine", "engine"), ("bench", "gpu"), ("_video",)])
def test_everything_else_stays_with_the_console_program(console_program, words) -> None:
    assert program.program_argv(*words) == [str(console_program), *words]


def test_the_console_program_leaves_the_window_to_the_other(console_program, monkeypatch) -> None:
    started = []
    monkeypatch.setattr(os, "execv", lambda path, argv: started.append((path, argv)))
    monkeypatch.setattr(sys, "argv", ["evprof", "gui", "a b.evprof"])
    monkeypatch.setattr(subprocess, "call", lambda argv: 0)
    with pytest.raises(SystemExit):
        program.leave_to_window_program()
    window = str(console_program.with_name("evprof-window"))
    assert started == [(window, [window, "gui", "a b.evprof"])]
