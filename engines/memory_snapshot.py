"""A snapshot of CUDA's allocator over one run, in the file pytorch.org/memory_viz opens.

Recording costs about 2 µs an allocation, so the run that is recorded is one of its own, left out of comparisons.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch

from engines.device import choose_device
from evprof.core.errors import USAGE, UserError
from evprof.core.request import RunRequest

MAX_ENTRIES = 200_000
"""Allocations kept, a few kilobytes each; the default would be without end."""


class MemorySnapshot:
    """A context: records what happens inside and writes it to `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Self:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{self.path.parent} cannot be made ({error.strerror}); name another file.") from None
        torch.cuda.memory._record_memory_history(max_entries=MAX_ENTRIES, stacks="python")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            torch.cuda.memory._dump_snapshot(str(self.path))
        except OSError as problem:
            raise UserError(f"{self.path} cannot be written ({problem.strerror}); name another file.") from None
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)

    def facts(self) -> dict[str, Any]:
        """Where it lies, for the run's record."""
        return {"trace_path": str(self.path)} if self.path.is_file() else {}


def check_device(request: RunRequest) -> None:
    """Raises UserError (exit code 2) when a snapshot is asked for and no model of the request runs on CUDA."""
    if request.memory_snapshot is None:
        return
    choices = [choice for choice in (request.draft, request.target) if choice is not None]
    if not any(choose_device(choice.device).type == "cuda" for choice in choices):
        raise UserError("A memory snapshot shows CUDA's allocator, and this runs on the CPU.", exit_code=USAGE)


def snapshot_path(path: str, role: str, answers: int) -> Path:
    """The file itself, or one per role where a mode gives several answers."""
    given = Path(path)
    return given if answers == 1 else given.with_name(f"{given.stem}-{role}{given.suffix or '.pickle'}")
