"""Token pieces put together into text; it knows pieces, not vocabularies."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable

UNKNOWN = " ⁇ "
"""How sentencepiece shows a token it has no text for."""

_EACH_BYTE = "evprof-each-byte"


def _replace_each_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error(_EACH_BYTE, _replace_each_byte)

_BYTES = re.compile(r"(?:<0x[0-9A-Fa-f]{2}>)+\Z")
_DIGITS = re.compile(r"x(..)")


def is_byte(piece: str) -> bool:
    """Whether a piece is raw bytes, as `<0xE2>` or `<0xE2><0x82>`."""
    return _BYTES.match(piece) is not None


_CONTROL = re.compile(r"</?s>\Z|<pad>\Z|<unk>\Z|<\|[^|]*\|>\Z")


def is_control(piece: str) -> bool:
    """Whether a piece steers and is no text, as `</s>`."""
    return _CONTROL.match(piece) is not None


def join_pieces(pieces: Iterable[str]) -> str:
    """The text of consecutive pieces: runs of byte pieces (`<0xE2><0x82><0xAC>`) become the characters they spell.

    As in sentencepiece's decoder, each byte that belongs to no character becomes U+FFFD, and a single leading space,
    which the dummy prefix puts before the first word, is dropped (the space of a byte or of "unknown" is not). An
    empty piece, a special token's, has no text, but no character reaches across it.
    """
    parts: list[str] = []
    pending = bytearray()
    for piece in pieces:
        if is_byte(piece):
            pending += bytes.fromhex("".join(_DIGITS.findall(piece)))
            continue
        if pending:
            parts.append(pending.decode("utf-8", errors=_EACH_BYTE))
            pending.clear()
        if piece:
            is_first_word = not parts and piece != UNKNOWN
            parts.append(piece.removeprefix(" ") if is_first_word else piece)
    if pending:
        parts.append(pending.decode("utf-8", errors=_EACH_BYTE))
    return "".join(parts)
