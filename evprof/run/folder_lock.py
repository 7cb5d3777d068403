"""A folder that one process at a time writes into."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.files.held_file import HeldError, HeldFile


@contextmanager
def locked(lock: Path, refusal: str) -> Iterator[None]:
    """Inside, the file `lock` is held. Raises OSError, and UserError(refusal) while another holds it."""
    try:
        held = HeldFile(lock)
    except HeldError:
        raise UserError(refusal) from None
    with held:
        yield
