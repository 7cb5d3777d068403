"""Protocol buffers as they lie in a file: numbers, texts and messages under the numbers of their fields.

As much of the wire format as a trace takes (https://protobuf.dev/programming-guides/encoding): a field is its number
and its wire type as one varint, then a varint, eight bytes, or a length and that many bytes.
"""

from __future__ import annotations

import struct
from functools import lru_cache

_VARINT, _EIGHT_BYTES, _LENGTH = 0, 1, 2

_WORD = (1 << 64) - 1

_SHORT = [bytes([value]) for value in range(0x80)]
"""Most numbers by far."""


def varint(value: int) -> bytes:
    """Seven bits a byte, lowest first; a negative number as its two's complement of 64 bits."""
    if 0 <= value < 0x80:
        return _SHORT[value]
    value &= _WORD
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


@lru_cache
def _tag(field: int, kind: int) -> bytes:
    return varint(field << 3 | kind)


def number(field: int, value: int) -> bytes:
    """A field of type int32, int64, uint32, uint64, bool or enum."""
    return _tag(field, _VARINT) + varint(value)


def fixed64(field: int, value: int) -> bytes:
    """A field of type fixed64."""
    return _tag(field, _EIGHT_BYTES) + struct.pack("<Q", value & _WORD)


def double(field: int, value: float) -> bytes:
    """A field of type double."""
    return _tag(field, _EIGHT_BYTES) + struct.pack("<d", value)


def message(field: int, content: bytes) -> bytes:
    """A field that holds a message, or bytes."""
    return _tag(field, _LENGTH) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    """A field of type string; what is no text is written as escapes, since readers refuse it."""
    return message(field, value.encode("utf-8", "backslashreplace"))
