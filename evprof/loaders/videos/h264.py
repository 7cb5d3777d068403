"""Tells which H.264 frames no other frame depends on, from the headers of their slices (ITU-T H.264, 7.3.1 and 7.4.1).

Such frames need not be decoded on the way to another one. It decodes nothing.
"""

from __future__ import annotations

_SLICES = frozenset({1, 2, 5})
"""nal_unit_type of a slice: ordinary, first data partition, of a key frame."""


def nal_length_bytes(extradata: bytes | None) -> int | None:
    """Bytes of the length before each NAL unit, as an avcC record (MP4, Matroska) has it; None for other streams."""
    if not extradata or len(extradata) < 7 or extradata[0] != 1:
        return None
    return (extradata[4] & 3) + 1


def is_spare(packet: memoryview, length_bytes: int) -> bool:
    """Whether every slice of a packet has nal_ref_idc 0: its frame is no reference for any other."""
    place, found = 0, False
    while place + length_bytes < len(packet):
        length = int.from_bytes(packet[place : place + length_bytes], "big")
        header = packet[place + length_bytes]
        if header & 0x1F in _SLICES:
            if header & 0x60:
                return False
            found = True
        place += length_bytes + length
    return found
