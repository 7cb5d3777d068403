"""An answer laid out once, in lines of a given width; which of its words are there depends on the moment alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from evprof.core.records import TokenRecord
from evprof.core.run_log import RunLog
from evprof.core.safe_text import plain
from evprof.core.text import is_byte, join_pieces

CUT = " …"
"""Stands where the rest of an answer does not fit."""

_MOST_TOKENS = 4_000
"""More are on no picture."""


class PlacedText(NamedTuple):
    """A piece of a line, in px from the upper left of the text; `t_ns` is when it was known, absolute."""

    left: float
    line: int
    width: float
    text: str
    origin: str
    t_ns: int


def timed_tokens(run: RunLog) -> list[TokenRecord]:
    """The tokens of an answer whose moments were measured: of imported runs those on their records are made up."""
    return run.tokens if run.info.has_token_times else []


def spoken(tokens: Sequence[TokenRecord]) -> list[tuple[TokenRecord, str]]:
    """What each token added to the text; a character of several tokens comes with the last of them."""
    found: list[tuple[TokenRecord, str]] = []
    pending: list[str] = []
    is_begun = False
    for token in tokens[:_MOST_TOKENS]:
        pending.append(token.piece)
        # Only at the very beginning a space is dropped: elsewhere something stands before it.
        text = join_pieces(["x", *pending])[1:] if is_begun else join_pieces(pending)
        if is_byte(token.piece) and text.endswith("\ufffd"):
            text = ""
        else:
            is_begun = is_begun or any(pending)
            pending.clear()
        found.append((token, text))
    return found


def laid_out(
    words: Sequence[tuple[TokenRecord, str]], width: float, lines: int, width_of: Callable[[str], float]
) -> tuple[list[PlacedText], bool]:
    """The pieces in at most `lines` lines of `width` px, broken between words; and whether all of them fit."""
    placed: list[PlacedText] = []
    left, line = 0.0, 0
    for token, text in words:
        for number, part in enumerate(plain(text).split("\n")):
            if number:
                left, line = 0.0, line + 1
            for piece in _split(part):
                shown = piece
                if left > 0 and piece.startswith(" ") and left + width_of(piece) > width:
                    left, line, shown = 0.0, line + 1, piece.lstrip()
                if line >= lines:
                    return placed, False
                if shown:
                    wide = width_of(shown)
                    placed.append(PlacedText(left, line, wide, shown, token.origin, token.t_ns))
                    left += wide
    return placed, True


def _split(text: str) -> list[str]:
    """Words with the space before them."""
    parts = text.split(" ")
    return [part for part in (parts[0], *(f" {part}" for part in parts[1:])) if part]
