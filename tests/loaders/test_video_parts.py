"""Readers of videos tell what they are doing to whoever measures, and give the same pictures then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evprof.loaders.videos.opening import open_video
from evprof.loaders.videos.source import VideoFrames


def frames_of(path: Path, count: int) -> VideoFrames:
    with open_video(path) as video:
        return video.read_uniform(count)


class Notes:
    """Parts in the order they began; none may begin inside another."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._open = 0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        assert self._open == 0
        self._open += 1
        self.names.append(name)
        yield
        self._open -= 1


@pytest.mark.parametrize("clip", ["gop12", "gop250", "mkv"])
def test_decoding_and_colour_take_turns(videos: dict[str, Path], clip: str) -> None:
    with open_video(videos[clip]) as video:
        video.index()
        notes = video.parts = Notes()
        found = video.read_uniform(8)
    assert "decode" in notes.names
    assert "colour" in notes.names
    assert notes.names[: 2 * notes.names.count("colour")] == ["decode", "colour"] * notes.names.count("colour")
    for mine, plain in zip(found.frames, frames_of(videos[clip], 8).frames, strict=True):
        assert (mine == plain).all()
