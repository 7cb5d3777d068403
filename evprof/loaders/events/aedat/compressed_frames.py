"""How much lz4 and zstd frames may hold at most, from their block headers, before anything is decompressed.

Formats: "LZ4 Frame Format Description" and RFC 8878. It knows no event format.
"""

from __future__ import annotations

_LZ4_MAGIC = 0x184D2204
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK = 1 << 17
_LZ4_RATIO = 255


class UnreadableFrame(Exception):  # noqa: N818 - turned into a sentence where the file's name is known
    """The frames are damaged or of a kind that recordings do not use."""


def most_lz4_bytes(content: bytes) -> int:
    """An upper bound of what these frames hold, one behind the other. Raises UnreadableFrame."""
    most = place = 0
    while place < len(content):
        flags, sizes = content[place + 4 : place + 5], content[place + 5 : place + 6]
        if _u32(content, place) != _LZ4_MAGIC or not sizes or sizes[0] >> 4 & 7 < 4:
            raise UnreadableFrame
        block_most = 1 << (8 + 2 * (sizes[0] >> 4 & 7))
        place += 7 + (8 if flags[0] & 8 else 0) + (4 if flags[0] & 1 else 0)
        while size := _u32(content, place):
            # The highest bit says that a block is stored as it is.
            stored, size = size >> 31, size & 0x7FFF_FFFF
            most += size if stored else min(block_most, size * _LZ4_RATIO)
            place += 4 + size + (4 if flags[0] & 16 else 0)
        place += 4 + (4 if flags[0] & 4 else 0)
    if place > len(content):
        raise UnreadableFrame
    return most


def most_zstd_bytes(content: bytes) -> int:
    """As `most_lz4_bytes`."""
    most = place = 0
    while place < len(content):
        if _u32(content, place) != _ZSTD_MAGIC or place + 5 > len(content):
            raise UnreadableFrame
        flags = content[place + 4]
        is_single, size_code = flags >> 5 & 1, flags >> 6
        place += 5 + (0 if is_single else 1) + (0, 1, 2, 4)[flags & 3] + (is_single, 2, 4, 8)[size_code]
        is_last = False
        while not is_last:
            header = int.from_bytes(content[place : place + 3], "little")
            if place + 3 > len(content):
                raise UnreadableFrame
            is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            most += _ZSTD_BLOCK if kind == 2 else size
            place += 3 + (1 if kind == 1 else size)
        place += 4 if flags & 4 else 0
    if place > len(content):
        raise UnreadableFrame
    return most


def _u32(content: bytes, place: int) -> int:
    if place + 4 > len(content):
        raise UnreadableFrame
    return int.from_bytes(content[place : place + 4], "little")
