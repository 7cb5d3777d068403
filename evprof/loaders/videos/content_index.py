"""Remembers what files hold from run to run, so that a file is hashed once and not every time its frames are wanted."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from evprof.core.errors import UserError
from evprof.loaders.content import content_hash
from evprof.loaders.paths import reason

MOST_FILES = 20_000

_MAX_BYTES = 32 << 20


class ContentIndex:
    """Content hashes by path, size, times and inode of a file, in one small JSON file.

    A file that changed in any of these is read again. Two programs may share it: each writes it whole, and what one of
    them loses is only hashed once more.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, path: str | Path) -> str:
        """What tells the content of a file, a folder of pictures or a set of them from any other.

        Of pictures: their names, sizes and times, because reading them all would cost more than decoding a few. Raises
        UserError.
        """
        from evprof.loaders.videos.folder import picture_paths

        found = Path(path)
        try:
            if found.is_file():
                return self._file(found)
            stats = [(entry.name, *_identity(entry)) for entry in picture_paths(path)]
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({reason(error)}); check the path and its permissions.") from None
        return f"pictures:{hashlib.sha256(json.dumps(stats).encode()).hexdigest()}"

    def _file(self, path: Path) -> str:
        name, identity = str(path.resolve()), _identity(path)
        known = self._entries()
        entry = known.pop(name, None)
        if isinstance(entry, list) and entry[:-1] == identity and isinstance(entry[-1], str):
            return entry[-1]
        content = content_hash(path)
        # Changed while it was read: true of neither state, so it is not remembered.
        if _identity(path) == identity:
            self._write({**known, name: [*identity, content]})
        return content

    def _entries(self) -> dict[str, object]:
        try:
            if self._path.stat().st_size > _MAX_BYTES:
                return {}
            entries = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return entries if isinstance(entries, dict) else {}

    def _write(self, entries: dict[str, object]) -> None:
        """Replaces the file; a folder that cannot be written to costs time only."""
        newest = dict(list(entries.items())[-MOST_FILES:])
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(dir=self._path.parent, suffix=".part")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(newest, file)
                os.replace(part, self._path)
            except OSError:
                with suppress(OSError):
                    os.unlink(part)
                raise


def _identity(path: Path) -> list[int]:
    """What changes when a file does, without reading it."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
