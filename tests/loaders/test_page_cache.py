"""Files are brought into the page cache and dropped from it; nothing of them changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evprof.loaders import content
from evprof.loaders.content import prefetch


def fetched(path: Path) -> int:
    def so_far() -> int:
        return int(Path("/proc/self/io").read_text().partition("read_bytes:")[2].split()[0])

    before = so_far()
    path.read_bytes()
    return so_far() - before


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "folder" / "data.raw"
    path.parent.mkdir()
    path.write_bytes(os.urandom(4 << 20))
    return path


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="nothing counts reads here")
def test_cold_files_come_from_the_disk_and_warm_ones_do_not(data: Path) -> None:
    assert prefetch([data], "cold") == []
    if not fetched(data):
        pytest.skip("this file system has no disk under it")
    for place in (data, data.parent):
        assert prefetch([place], "cold") == []
        assert fetched(data) >= 4 << 20
        assert prefetch([place], "cold") == []
        assert prefetch([place], "warm") == []
        assert fetched(data) == 0
    prefetch([data], "cold")
    assert prefetch([data], "off") == []
    assert fetched(data) >= 4 << 20


def test_what_does_not_fit_is_told(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "_free_bytes", lambda: 1 << 20)
    (sentence,) = prefetch([data, data], "warm")
    assert "data.raw and 1 more would take more than half of the free memory" in sentence


def test_a_platform_that_cannot_drop_says_so(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    (sentence,) = prefetch([data], "cold")
    assert "cannot drop files" in sentence


def test_what_is_not_there_is_left_to_who_reads_it(tmp_path: Path) -> None:
    for how in ("warm", "cold"):
        assert prefetch([tmp_path / "gone", tmp_path / "gone_*.png"], how) == []


def test_a_stop_is_heard_between_pieces(data: Path) -> None:
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return True

    assert prefetch([data, data], "warm", stop) == []
    assert len(asked) == 1
