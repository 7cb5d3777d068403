"""A folder that one process at a time writes into."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.whole_file import whole_file
from evprof.session.presence import is_alive, name_tag


@contextmanager
def locked(lock: Path, refusal: str) -> Iterator[None]:
    """Inside, the file `lock` holds our name tag. Raises OSError, and UserError(refusal) while another holds it."""
    try:
        tag = json.loads(lock.read_text(encoding="utf-8")) if lock.exists() else None
    except ValueError:
        tag = None
    if is_alive(tag) and tag != name_tag():
        raise UserError(refusal)
    with whole_file(lock) as stream:
        json.dump(name_tag(), stream)
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink(missing_ok=True)
