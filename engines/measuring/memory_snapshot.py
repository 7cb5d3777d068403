"""What CUDA's allocator did in one run, as a file for pytorch.org/memory_viz.

The file is a pickle, which only that page is to read: evprof writes it and never opens one.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch

from evprof.core.errors import UserError
from evprof.core.files.new_file import make_part
from evprof.core.files.whole_file import whole_path

_ENTRIES = 200_000
"""The latest allocations that are kept: each takes some KB."""


class MemorySnapshot:
    """A context: records allocations and where they come from, and writes them to `path` however it is left."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_written = False

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            make_part(self.path.parent).unlink()
        except OSError as error:
            raise _unwritable(self.path, error) from None
        torch.cuda.memory._record_memory_history(stacks="python", max_entries=_ENTRIES)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with whole_path(self.path) as unfinished:
                torch.cuda.memory._dump_snapshot(str(unfinished))
            self._is_written = True
        except OSError as problem:
            if kind is None:
                raise _unwritable(self.path, problem) from None
        finally:
            torch.cuda.memory._record_memory_history(None)

    def facts(self) -> dict[str, Any]:
        """Where the snapshot lies, for the run's record; nothing when none was written."""
        return {"snapshot_path": str(self.path)} if self._is_written else {}


def _unwritable(path: Path, error: OSError) -> UserError:
    return UserError(
        f"The memory snapshot {path} cannot be written ({error.strerror}); name another --memory-snapshot."
    )
