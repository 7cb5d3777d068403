"""How much memory one file may make its reader take: in proportion to the file, and asked before anything is taken.

A file from a stranger may claim any size and refer to one text a thousand times. Whoever reads one asks its budget
before each array or text is made; recordings that cameras and programs write stay far below it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from evprof.core.errors import UserError

RATIO = 32
"""Bytes in memory for each byte of a file: recordings shrink three- to tenfold when they are compressed."""

PACKED_RATIO = 200
"""The same for whole files that were compressed at once: arrays and texts may be emptier than packets."""

SPARE_BYTES = 64 << 20
"""What any file may take, however short."""

MOST_BYTES = 4 << 30
"""What may be held at once, however long the file."""


@dataclass
class Budget:
    """The memory of one reading; `path` is how errors call the file, `file_bytes` what was read of it.

    Raises UserError, one sentence, as soon as more is asked for than `spare` + `ratio` bytes for each of the file's, or
    more than `most`; what only passes by, piece by piece, has no such limit.
    """

    path: str
    file_bytes: int
    ratio: int = RATIO
    spare: int = SPARE_BYTES
    most: int = sys.maxsize
    taken: int = 0

    @property
    def allowed(self) -> int:
        return min(self.most, self.spare + self.ratio * self.file_bytes)

    def check(self, count: int) -> None:
        """Before `count` bytes are taken for a moment."""
        if self.taken + count > self.allowed:
            raise UserError(
                f"{self.path}: reading it would take {(self.taken + count) >> 20:,} MiB, and {self.file_bytes:,} bytes "
                f"of it account for {self.allowed >> 20:,} MiB at most; it is damaged or was made to fill the memory, "
                "so export it again, or in shorter parts."
            )

    def take(self, count: int, file_bytes: int = 0) -> None:
        """Before `count` bytes are taken for good, `file_bytes` more of the file having been read for them."""
        self.file_bytes += file_bytes
        self.check(count)
        self.taken += count
