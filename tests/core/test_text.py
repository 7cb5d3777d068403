"""Pieces put together: byte pieces, broken characters, the first space."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.texts import join_pieces


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([], ""),
        ([" A", " car", "."], "A car."),
        (["A", " car"], "A car"),
        (["  A"], " A"),
        ([" price", " ", "<0xE2>", "<0x82>", "<0xAC>", "5"], "price €5"),
        (["<0xE2>", "<0x82>"], "\ufffd\ufffd"),
        (["<0x20><0xE2>", "<0x82><0xAC>", "uro"], " €uro"),
        ([" ⁇ ", " a"], " ⁇  a"),
        (["", " a"], "a"),
        (["<0xE2>", "x"], "\ufffdx"),
        (["<0xC2>", "", "<0x80>"], "\ufffd\ufffd"),
        (["", "", " a", "", "b"], "ab"),
        (["<0x41>", "<0x20>"], "A "),
        (["<0xZZ>", "<0x4>"], "<0xZZ><0x4>"),
        (["x<0x41>"], "x<0x41>"),
        (["<0x41>\n"], "<0x41>\n"),
    ],
)
def test_known_cases(pieces, text):
    assert join_pieces(pieces) == text


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=20))
def test_any_text_spelled_in_bytes_comes_back(text):
    assert join_pieces(f"<0x{byte:02X}>" for byte in text.encode()) == text
