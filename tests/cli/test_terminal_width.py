"""What a terminal of so many columns is shown."""

from __future__ import annotations

import fcntl
import io
import os
import struct
import sys
import termios

import pytest

from evprof.cli.terminal.console import WIDTH, Console
from evprof.cli.terminal.facts import facts_lines
from evprof.cli.terminal.fitting import fitted, folded, piece, total_width

HEAD = "  preprocess              22.3 ms   render 2.14 ms, resize 9.57 ms, normalise 8.94 ms, tokenize 472 µs"


def test_a_long_line_goes_on_below_its_last_column() -> None:
    lines = folded(HEAD, 90).splitlines()
    assert max(map(len, lines)) <= 90
    assert " ".join(" ".join(lines).split()) == " ".join(HEAD.split())
    begins = HEAD.index("render")
    assert all(line[:begins].strip() == "" and line[begins] != " " for line in lines[1:])


def test_a_last_column_without_room_stands_below() -> None:
    lines = folded(HEAD, 60).splitlines()
    assert lines[0] == HEAD[: HEAD.index("   render")]
    assert lines[1].startswith("      render 2.14 ms, resize")
    assert max(map(len, lines)) <= 60
    assert " ".join(" ".join(lines).split()) == " ".join(HEAD.split())


def test_a_figure_is_not_parted_where_a_column_before_it_fits() -> None:
    line = "    draft acceptance rate                  30.3 %       10 / 33  accepted / drafted"
    assert folded(line, 60).splitlines() == [
        "    draft acceptance rate                  30.3 %",
        "        10 / 33  accepted / drafted",
    ]


def test_a_sentence_goes_on_somewhat_indented() -> None:
    lines = folded("  Run the target alone on this sample, then this line says whether it pays.", 40).splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("    ")
    assert lines[1][4] != " "


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


KERNELS = [
    ("name", "calls", "total", "mean", "min", "max", "blocks/SM", "occupancy", "cores"),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_64",
        "42",
        "402 µs",
        "9.6 µs",
        "5.5 µs",
        "9 µs",
        "0.48",
        "13.0 %",
        "y",
    ),
    (
        "pytorch_flash::flash_fwd_splitkv_kernel<Flash>",
        "6",
        "33 µs",
        "5.5 µs",
        "5 µs",
        "6 µs",
        "1.00",
        "50.0 %",
        "n",
    ),
]


@pytest.mark.parametrize("width", [60, 80, 100, 130, 200])
def test_a_table_is_no_wider_than_the_terminal_and_loses_no_figure(width: int) -> None:
    tables = fitted(KERNELS, 1, width)
    assert all(total_width(table) <= width for table in tables)
    for number, row in enumerate(KERNELS):
        assert tuple(cell for table in tables for cell in table[number][1:]) == row[1:]
    (name,) = {piece(table[1][0])[0] for table in tables}  # each begins with the same names
    assert name.startswith("sm90_")
    assert (len(tables) == 1) == (width >= 100)


def test_a_name_gives_way_before_a_column_does_but_not_the_one_that_is_called_by() -> None:
    rows = [
        ("adapter", "drafts for", "size"),
        ("evprof-tiny-hidden", "a-name-that-is-rather-long-for-its-column", "4 KiB"),
    ]
    (table,) = fitted(rows, 2, 60)
    assert (table[1][0], table[1][2]) == ("evprof-tiny-hidden", "4 KiB")
    name, _ = piece(table[1][1])
    assert name.startswith("a-name-that")
    assert name.endswith("column")
    assert "…" in name


@pytest.mark.parametrize("width", [60, 70, 80, 100])
def test_names_that_are_shortened_stay_different(width: int) -> None:
    names = [f"Video-LLaVA 4bit, L{number}+VL · end_to_end.json" for number in range(1, 5)]
    rows = [
        ("configuration", "runs", "failed", "total, model-only", "a token"),
        *((name, "10", "", "1.04 s", "15.3 ms") for name in names),
    ]
    for table in fitted(rows, 1, width):
        assert total_width(table) <= width
        assert len({piece(line[0])[0] for line in table}) == len(rows)


def test_names_that_are_the_same_are_shortened_as_ever() -> None:
    (table,) = fitted([("a", "b"), *[("the same name, and long " * 2, "1")] * 2], 1, 30)
    assert total_width(table) <= 30
    assert table[1] == table[2]


def test_a_table_without_a_terminal_is_whole() -> None:
    stream = io.StringIO()
    Console(stream).table(KERNELS)
    assert KERNELS[1][0] in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == len(KERNELS)


def test_counts_are_written_as_everywhere_else() -> None:
    shown = {"events": 132268, "duration_ms": 1200.0, "is_there": True, "size": [640, 480]}
    assert [line.split(maxsplit=1)[1] for line in facts_lines(shown)] == ["132,268", "1,200", "yes", "[640, 480]"]
