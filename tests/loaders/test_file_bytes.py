"""Files that change while they are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.loaders.events.recording import FileBytes


def test_bytes_at_places(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(100)))
    file = FileBytes(tmp_path / "a")
    assert file.at(10, 3) == bytes([10, 11, 12])
    assert file.at(98, 10) == bytes([98, 99])
    assert (file.at(100, 1), file.at(-1, 1), file.bytes_read) == (b"", b"", 5)
    file.close()


def test_a_file_that_becomes_shorter_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(100))
    file = FileBytes(tmp_path / "a")
    os.truncate(tmp_path / "a", 50)
    assert file.at(0, 50) == bytes(50)
    for offset in (40, 60):
        with pytest.raises(UserError, match="became shorter while it was read"):
            file.at(offset, 20)
    file.close()
