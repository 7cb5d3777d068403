"""Tables and facts in a terminal of so many columns, and in a pipe."""

from __future__ import annotations

import fcntl
import io
import json
import os
import struct
import sys
import termios
from collections.abc import Iterator

import pytest

from evprof.cli.terminal.console import Console
from evprof.metrics.document import StreamedList

KERNELS = [
    ("name", "calls", "total", "mean", "occupancy"),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_64", "42", "402 µs", "9.6 µs", "13.0 %"),
    ("pytorch_flash::flash_fwd_splitkv_kernel<Flash>", "6", "33 µs", "5.5 µs", "50.0 %"),
]


@pytest.mark.skipif(sys.platform == "win32", reason="terminals of Unix")
@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_table_is_no_wider_than_the_terminal_and_loses_nothing(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    ours, theirs = os.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        monkeypatch.setenv("COLUMNS", str(width))
        with os.fdopen(theirs, "w", encoding="utf-8") as stream:
            Console(stream).table(KERNELS)
            stream.flush()
            shown = os.read(ours, 100_000).decode()
    finally:
        os.close(ours)
    assert max(map(len, shown.splitlines())) <= width
    for row in KERNELS[1:]:
        letters = iter("".join(shown.split()))
        assert all(letter in letters for letter in "".join(row[0].split()))


def test_a_pipe_gets_whole_lines_without_colours() -> None:
    stream = io.StringIO()
    Console(stream).table([(("name", "bold"), "n"), ("x" * 300, ("1", "red"))], left=1)
    assert stream.getvalue().splitlines() == [f"name{' ' * 298}n", f"{'x' * 300}  1"]


def test_control_characters_and_markup_of_names_are_shown() -> None:
    stream = io.StringIO()
    console = Console(stream)
    console.table([("name",), ("[red]a\x1b[2J\u202e",)])
    console.line(("[b]c\x1b", "bold"))
    assert stream.getvalue() == "name\n[red]a⟨U+001B⟩[2J⟨U+202E⟩\n[b]c⟨U+001B⟩\n"


def test_a_document_has_no_character_that_a_terminal_obeys() -> None:
    stream, document = io.StringIO(), {"name": "a\x9b31m\u202e\u200b\U000e0001 é\n"}
    Console(stream, is_json=True).document(document)
    assert json.loads(stream.getvalue()) == document
    assert not set("\x9b\u202e\u200b\U000e0001") & set(stream.getvalue())
    assert "é" in stream.getvalue()


def test_a_long_document_is_written_while_it_is_made() -> None:
    stream = io.StringIO()

    def entries() -> Iterator[str]:
        yield "first"
        assert "first" in stream.getvalue()
        yield "second"

    Console(stream, is_json=True).document({"runs": StreamedList(2, entries)})
    assert json.loads(stream.getvalue()) == {"runs": ["first", "second"]}


def test_facts_are_lines_of_name_and_value() -> None:
    stream = io.StringIO()
    Console(stream).facts({"events": 132268, "duration_ms": 1200.0, "is_there": True, "size": [640, 480], "a": ["b"]})
    lines = [line.split(maxsplit=1) for line in stream.getvalue().splitlines()]
    assert lines == [
        ["events", "132,268"],
        ["duration_ms", "1,200"],
        ["is_there", "yes"],
        ["size", "640, 480"],
        ["a:"],
        ["b"],
    ]
