"""Protocol buffers as they lie in a file: numbers, texts and messages under the numbers of their fields.

As much of the wire format as a trace takes (https://protobuf.dev/programming-guides/encoding): a field is its number
and its wire type as one varint, then a varint, eight bytes, or a length and that many bytes.
"""

from __future__ import annotations

import struct

_VARINT, _EIGHT_BYTES, _LENGTH = 0, 1, 2

_WORD = (1 << 64) - 1


def varint(value: int) -> bytes:
    """Seven bits a byte, lowest first; a negative number as its two's complement of 64 bits."""
    value &= _WORD
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def number(field: int, value: int) -> bytes:
    """A field of type int32, int64, uint32, uint64, bool or enum."""
    return varint(field << 3 | _VARINT) + varint(value)


def fixed64(field: int, value: int) -> bytes:
    """A field of type fixed64."""
    return varint(field << 3 | _EIGHT_BYTES) + struct.pack("<Q", value & _WORD)


def double(field: int, value: float) -> bytes:
    """A field of type double."""
    return varint(field << 3 | _EIGHT_BYTES) + struct.pack("<d", value)


def message(field: int, content: bytes) -> bytes:
    """A field that holds a message, or bytes."""
    return varint(field << 3 | _LENGTH) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    """A field of type string; what is no text is written as escapes, since readers refuse it."""
    return message(field, value.encode("utf-8", "backslashreplace"))
