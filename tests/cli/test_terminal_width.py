"""What a terminal of so many columns is shown."""

from __future__ import annotations

import fcntl
import io
import os
import struct
import sys
import termios

import pytest

from evprof.cli.terminal.console import WIDTH, Console, folded

HEAD = "  preprocess              22.3 ms   render 2.14 ms, resize 9.57 ms, normalise 8.94 ms, tokenize 472 µs"


def test_a_long_line_goes_on_below_its_last_column() -> None:
    lines = folded(HEAD, 60).splitlines()
    assert max(map(len, lines)) <= 60
    assert " ".join(" ".join(lines).split()) == " ".join(HEAD.split())
    # The last column begins past half of the room: those below keep to the one before.
    begins = HEAD.index("22.3 ms")
    assert all(line[:begins].strip() == "" and line[begins] != " " for line in lines[1:])
    wide = folded(HEAD, 90).splitlines()
    assert wide[1].index(wide[1].strip()) == HEAD.index("render")


def test_what_fits_stays_as_it_is() -> None:
    assert folded(HEAD, 200) == HEAD
    assert folded("", 10) == ""


def test_no_name_is_broken() -> None:
    path = "/a/very/long/path/that/has/no/blank/in/it"
    assert path in folded(f"torch trace: {path} and more words", 24).splitlines()[1]


@pytest.mark.skipif(sys.platform == "win32", reason="terminals of Unix")
def test_the_width_is_that_of_the_terminal_behind_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after standard output was opened anew over it, as the command line does."""
    monkeypatch.delenv("COLUMNS", raising=False)
    ours, theirs = os.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 72, 0, 0))
        before = os.fdopen(os.dup(theirs), "w")
        stream = io.TextIOWrapper(before.detach())
        monkeypatch.setattr(sys, "__stdout__", before)
        console = Console(stream)
        assert console.width == 72
        console.folded(HEAD)
        stream.flush()
        shown = os.read(ours, 10_000).decode().splitlines()
        assert len(shown) > 1
        assert max(map(len, shown)) <= 72
        monkeypatch.setenv("COLUMNS", "55")
        assert console.width == 55
        stream.close()
    finally:
        os.close(ours)
        os.close(theirs)


def test_without_a_terminal_lines_stay_whole() -> None:
    stream = io.StringIO()
    console = Console(stream)
    console.folded(HEAD * 3)
    assert stream.getvalue() == HEAD * 3 + "\n"
    assert console.width == WIDTH
