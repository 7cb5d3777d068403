"""What is no ordinary file is refused at once, before it is opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.core.files.whole_file import regular_file


def test_an_ordinary_file_and_a_link_to_one_pass(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for name in ("file", "link"):
        assert regular_file(tmp_path / name) == tmp_path / name


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_devices_folders_and_nothing_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    places = {
        "pipe": "a named pipe",
        "link": "a device",
        ".": "is a folder",
        "none": "no such file",
        "loop": "cannot be reached",
        "n\x00l": "cannot be reached",
    }
    for name, words in places.items():
        with pytest.raises(UserError, match=words):
            regular_file(f"{tmp_path}/{name}")
