"""Texts of others show what is in them, on one page and on one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.texts import guarded, one_line, plain, unguarded, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("scene", "scene"),
        ("é 道路 🚗", "é 道路 🚗"),
        ("photo\u202egnp.exe", "photo⟨U+202E⟩gnp.exe"),
        ("\x1b[31mred\x07\x00", "⟨U+001B⟩[31mred⟨U+0007⟩⟨U+0000⟩"),
        ("half \ud800", "half ⟨U+D800⟩"),
        ("so\xadft \u3164\u034f\U000e0100", "so⟨U+00AD⟩ft ⟨U+3164⟩⟨U+034F⟩⟨U+E0100⟩"),
        ("two\nlines\there", "two\nlines\there"),
    ],
)
def test_hidden_characters_are_told_by_number(text: str, shown: str) -> None:
    assert visible(text) == plain(text) == shown


def test_a_text_without_end_is_cut() -> None:
    assert plain("x" * 10_000_000) == "x" * 20_000 + " … [9,980,000 more characters left out]"
    assert one_line("a\n\tb", 100) == "a b"


@given(st.text(max_size=8))
def test_a_spreadsheet_computes_no_guarded_text_and_it_comes_back(text: str) -> None:
    assert not guarded(text).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert unguarded(guarded(text)) == text
    assert unguarded("'tis") == "'tis"
