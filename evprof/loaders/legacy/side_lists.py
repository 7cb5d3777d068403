"""Lists side by side, an entry of each for every request, put together as rows.

Serving benchmarks write their requests so: all first tokens, then all gaps, then all texts. A list may be larger than
the memory, so entries wait in temporary files until the lists are at their ends.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from evprof.core.errors import UserError
from evprof.loaders.paths import reason

KEPT_LISTS = frozenset(
    {
        *("input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "queue_times"),
        *("generated_texts", "errors"),
    }
)
PASSED_LISTS = frozenset({"cached_tokens", "cached_tokens_details"})
"""Lists of requests whose entries nobody reads: they count as nothing, however long they are."""

IN_MEMORY = 4 << 20
"""Bytes of one list that wait in memory."""


class SideLists:
    """The lists of one benchmark, in the making; `most` entries of each are kept (None: all)."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._files: dict[str, IO[bytes]] = {}
        self._counts: dict[str, int] = {}

    def add(self, name: str, entry: Any) -> None:
        """The next entry of a list. Raises UserError when there is no room for it."""
        count = self._counts.get(name, 0)
        self._counts[name] = count + 1
        if self._most is not None and count >= self._most:
            return
        if name not in self._files:
            # A name is one of a few, and `close` ends them all.
            self._files[name] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
        try:
            self._files[name].write(json.dumps(entry, ensure_ascii=True).encode() + b"\n")
        except OSError as error:
            raise UserError(
                f"{tempfile.gettempdir()}: has no room for lists of requests ({reason(error)}); free some space there, "
                "or name another folder with the environment variable TMPDIR."
            ) from None

    @property
    def count(self) -> int:
        """Entries of the longest list."""
        return max(self._counts.values(), default=0)

    @property
    def names(self) -> frozenset[str]:
        """The lists that hold anything."""
        return frozenset(self._counts)

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each request: its entries by the names of their lists; where a list is over, it lacks that one."""
        for file in self._files.values():
            file.seek(0)
        files = dict(self._files)
        while files:
            row = {name: json.loads(line) for name, file in files.items() if (line := file.readline())}
            files = {name: files[name] for name in row}
            if row:
                yield row

    def close(self) -> None:
        """Gives the temporary files back."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._counts.clear()
