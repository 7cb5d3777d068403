"""Token pieces put together into text; it knows pieces, not vocabularies."""

from __future__ import annotations

import re
from collections.abc import Iterable

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")


def join_pieces(pieces: Iterable[str]) -> str:
    """The text of consecutive pieces: runs of byte pieces (`<0xE2><0x82><0xAC>`) become the characters they spell.

    Bytes that spell no character become U+FFFD, as in sentencepiece's decoder. A single leading space, which
    sentencepiece's dummy prefix puts before the first word, is dropped.
    """
    parts: list[str] = []
    pending = bytearray()
    for piece in pieces:
        match = _BYTE.match(piece)
        if match:
            pending.append(int(match.group(1), 16))
            continue
        if pending:
            parts.append(pending.decode("utf-8", errors="replace"))
            pending.clear()
        parts.append(piece)
    if pending:
        parts.append(pending.decode("utf-8", errors="replace"))
    text = "".join(parts)
    return text.removeprefix(" ")
