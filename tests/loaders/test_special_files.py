"""Pipes, devices and folders under a file's name are refused at once, in a sentence, by whoever reads it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.loaders.adapters import read_adapter
from evprof.loaders.content import content_hash
from evprof.loaders.events.opening import open_recording
from evprof.loaders.legacy.family import is_legacy, open_legacy
from evprof.loaders.manifests.manifest import is_manifest, read_manifest
from evprof.loaders.paths import opened_file
from evprof.loaders.pictures.png import read_png
from evprof.loaders.probe import probe
from evprof.loaders.sequences.folder_content import folder_content
from evprof.loaders.videos.folder import read_times_us
from evprof.loaders.videos.opening import open_video

READERS: dict[str, Callable[[Path], object]] = {
    "any": probe,
    "events": open_recording,
    "video": open_video,
    "manifest": read_manifest,
    "results": open_legacy,
    "picture": read_png,
    "times": read_times_us,
    "hash": content_hash,
    "bytes": opened_file,
}

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")


@pytest.fixture(autouse=True)
def _not_for_ever() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize("reader", READERS)
def test_a_pipe(pipe: Path, reader: str) -> None:
    with pytest.raises(UserError, match=r"not an ordinary file|is no file"):
        READERS[reader](pipe)


@pytest.mark.parametrize("reader", READERS)
def test_a_device_without_an_end(reader: str) -> None:
    with pytest.raises(UserError, match=r"not an ordinary file|is no file"):
        READERS[reader](Path("/dev/zero"))


def test_whoever_only_looks_sees_nothing(pipe: Path) -> None:
    assert not is_legacy(pipe)
    assert not is_manifest(pipe)
    assert folder_content(pipe.parent).events == []


def test_an_adapter_whose_description_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "adapter.json")
    with pytest.raises(UserError):
        read_adapter(str(tmp_path))
