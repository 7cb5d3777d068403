"""What a `tokenizer.model` is made of, looked at before sentencepiece's own C++ reads it.

The file is a protocol buffer: numbered fields, one after the other. A Llama vocabulary leaves texts as they are; one
that rewrites them by a compiled table could make gigabytes of a sentence, or lead the library out of its memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from evprof.core.errors import UserError

MOST_BYTES = 25_000_000
"""Of a tokenizer.model; Llama's takes half a million."""

_MOST_PIECES = 1_000_000
_LONGEST_PIECE = 1_000
_PIECES, _REWRITING = 1, (3, 5)
"""The numbers of the fields looked at: pieces, and how texts are normalized and back."""

_PIECE_TEXT, _TABLE = 1, 2
_NUMBER, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


def check_sentencepiece(model: bytes, source: str) -> None:
    """Raises UserError naming `source` for a file that is damaged or does what no Llama vocabulary does."""
    if len(model) > MOST_BYTES:
        raise UserError(f"{source} is {len(model)} bytes long, far too long for a vocabulary.")
    try:
        problem = _problem(memoryview(model))
    except ValueError as error:
        raise UserError(f"{source} is no sentencepiece vocabulary ({error}); download it again.") from None
    if problem:
        raise UserError(f"{source} {problem}, which no supported model needs; download it again.")


def _problem(model: memoryview) -> str | None:
    pieces = 0
    for number, content in _fields(model):
        if number == _PIECES:
            pieces += 1
            for text in (bytes(text) for inner, text in _fields(content) if inner == _PIECE_TEXT):
                if len(text) > _LONGEST_PIECE:
                    return f"holds a piece of more than {_LONGEST_PIECE:,} bytes"
                text.decode("utf-8")
        elif number in _REWRITING and any(inner == _TABLE and len(table) for inner, table in _fields(content)):
            return "rewrites texts by a table of its own"
    return f"holds more than {_MOST_PIECES:,} pieces" if pieces > _MOST_PIECES else None


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of each field that holds bytes. Raises ValueError where the message ends early."""
    place = 0
    while place < len(message):
        tag, place = _number(message, place)
        kind = tag & 7
        if kind == _NUMBER:
            _, place = _number(message, place)
            continue
        if kind == _BYTES:
            length, place = _number(message, place)
        elif kind in (_EIGHT, _FOUR):
            length = 8 if kind == _EIGHT else 4
        else:
            raise ValueError("it is no protocol buffer")
        if length > len(message) - place:
            raise ValueError("it ends in the middle")
        if kind == _BYTES:
            yield tag >> 3, message[place : place + length]
        place += length


def _number(message: memoryview, place: int) -> tuple[int, int]:
    """A number of seven bits a byte at `place`, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise ValueError("it ends in the middle")
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("a number in it does not end")
