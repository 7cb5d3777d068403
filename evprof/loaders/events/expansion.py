"""Budgets of files that are decompressed packet by packet; it knows no format."""

from __future__ import annotations

from evprof.core.budget import RATIO, Budget

_SPARE_BYTES = 160 << 20
_SPARE_PACKET_BYTES = 16 << 20


class Expansion:
    """Counts what one file was compressed to and what it became. Raises UserError where that is beyond reason."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._whole = Budget(path, 0, spare=_SPARE_BYTES)

    def expect(self, packed: int, unpacked: int) -> None:
        """Before a packet of so many bytes becomes so many at most."""
        Budget(self._path, packed, RATIO, _SPARE_PACKET_BYTES).check(unpacked)

    def count(self, packed: int, unpacked: int) -> None:
        """After decompression: all of it together must be within reason, too."""
        self._whole.take(unpacked, packed)
