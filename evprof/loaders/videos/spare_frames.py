"""Tells which frames of H.264 and HEVC no other frame depends on, from the headers of their slices.

Such frames need not be decoded on the way to another one. It decodes nothing. Sources: ITU-T H.264, 7.3.1 and 7.4.1
(nal_ref_idc); ITU-T H.265, 7.3.1.2 and 7.4.2.2 (sub-layer non-reference pictures).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

_H264_SLICES = frozenset({1, 2, 5})
"""nal_unit_type of a slice: ordinary, first data partition, of a key frame."""

_LAST_HEVC_SLICE = 31
_LAST_HEVC_NON_REFERENCE = 14
"""Up to here nal_unit_type is even for pictures that others of their temporal layer do not refer to."""


class SpareFrames(Protocol):
    """Looks at every packet in the order of decoding, then says which were spare."""

    def look(self, packet: memoryview) -> None:
        """Takes one packet."""

    def found(self) -> list[bool]:
        """For each packet whether nothing depends on its frame."""


class H264SpareFrames:
    """A frame is spare when every slice of it has nal_ref_idc 0."""

    def __init__(self, length_bytes: int) -> None:
        self._length_bytes = length_bytes
        self._found: list[bool] = []

    def look(self, packet: memoryview) -> None:
        """See `SpareFrames`."""
        headers = (packet[place] for place in _units(packet, self._length_bytes))
        references = [header & 0x60 != 0 for header in headers if header & 0x1F in _H264_SLICES]
        self._found.append(bool(references) and not any(references))

    def found(self) -> list[bool]:
        """See `SpareFrames`."""
        return self._found


class HevcSpareFrames:
    """A frame is spare when it is a sub-layer non-reference picture of the highest temporal layer there is."""

    def __init__(self, length_bytes: int) -> None:
        self._length_bytes = length_bytes
        self._layers: list[int] = []
        self._is_candidate: list[bool] = []

    def look(self, packet: memoryview) -> None:
        """See `SpareFrames`."""
        layer, kinds = 0, []
        for place in _units(packet, self._length_bytes):
            kind = packet[place] >> 1 & 0x3F
            if kind <= _LAST_HEVC_SLICE and place + 1 < len(packet):
                kinds.append(kind)
                layer = max(layer, packet[place + 1] & 7)
        self._layers.append(layer)
        spare = [kind <= _LAST_HEVC_NON_REFERENCE and kind % 2 == 0 for kind in kinds]
        self._is_candidate.append(bool(spare) and all(spare))

    def found(self) -> list[bool]:
        """See `SpareFrames`."""
        highest = max(self._layers, default=0)
        return [
            candidate and layer == highest for candidate, layer in zip(self._is_candidate, self._layers, strict=True)
        ]


def spare_frames_of(codec: str, extradata: bytes | None) -> SpareFrames | None:
    """For streams of a codec whose units have lengths before them (MP4, Matroska), by its avcC or hvcC record."""
    if not extradata or extradata[0] != 1:
        return None
    if codec == "h264" and len(extradata) >= 7:
        return H264SpareFrames((extradata[4] & 3) + 1)
    if codec == "hevc" and len(extradata) >= 23:
        return HevcSpareFrames((extradata[21] & 3) + 1)
    return None


def _units(packet: memoryview, length_bytes: int) -> Iterator[int]:
    """Where each NAL unit begins, behind its length."""
    place = 0
    while place + length_bytes < len(packet):
        yield place + length_bytes
        place += length_bytes + int.from_bytes(packet[place : place + length_bytes], "big")
