"""Refuses files that would grow on decompression as no recording does; it knows no format."""

from __future__ import annotations

from evprof.core.errors import UserError

MOST_RATIO = 32
"""Of content to compressed bytes: recordings shrink three- to tenfold."""

_SPARE_BYTES = 160 << 20
_SPARE_PACKET_BYTES = 16 << 20


class Expansion:
    """Counts what one file was compressed to and what it became."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._packed = 0
        self._unpacked = 0

    def expect(self, packed: int, unpacked: int) -> None:
        """Before a packet of so many bytes becomes so many at most. Raises UserError where that is beyond reason."""
        if unpacked > _SPARE_PACKET_BYTES + MOST_RATIO * packed:
            raise self._refusal(packed, unpacked)

    def count(self, packed: int, unpacked: int) -> None:
        """After decompression. Raises UserError as soon as all of it together is beyond reason."""
        self._packed += packed
        self._unpacked += unpacked
        if self._unpacked > _SPARE_BYTES + MOST_RATIO * self._packed:
            raise self._refusal(self._packed, self._unpacked)

    def _refusal(self, packed: int, unpacked: int) -> UserError:
        return UserError(
            f"{self.path}: {packed:,} compressed bytes claim to hold implausibly much ({unpacked:,} bytes); the file "
            "is damaged or was made to fill the memory."
        )
