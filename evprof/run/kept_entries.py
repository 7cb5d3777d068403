"""What was measured of this machine, kept as a list of JSON objects in a file of the user's data folder."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from evprof.core.files.user_folders import data_folder

_MOST_BYTES = 1 << 20


class KeptEntries:
    """The entries of one file; of those that are alike in `keys` the newest is kept."""

    def __init__(self, name: str, keys: tuple[str, ...]) -> None:
        self._name = name
        self._keys = keys

    @property
    def path(self) -> Path:
        """Where they lie."""
        return data_folder() / self._name

    def read(self) -> list[dict[str, Any]]:
        """All of them; [] where nothing can be read."""
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if self.path.stat().st_size <= _MOST_BYTES:
                found = json.loads(self.path.read_text(encoding="utf-8"))
                return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
        return []

    def keep(self, entry: dict[str, Any]) -> Path:
        """Keeps one in place of an earlier one like it. Raises OSError."""
        path = self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        others = [other for other in self.read() if any(other.get(key) != entry.get(key) for key in self._keys)]
        part.write_text(json.dumps([*others, entry], indent=1), encoding="utf-8")
        os.replace(part, path)
        return path
