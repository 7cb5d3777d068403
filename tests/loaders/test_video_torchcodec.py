"""The torchcodec decoder, without and with the library: the same frames as PyAV's, or PyAV's and said so."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evprof.core.errors import USAGE, UserError
from evprof.loaders.videos.opening import open_video
from painted_videos import number_of


class Tensor:
    """As much of a torch tensor as is used."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def numpy(self) -> np.ndarray:
        return self.values

    def __array__(self, dtype: Any = None, copy: object = None) -> np.ndarray:
        return np.asarray(self.values, dtype=dtype)


class Library:
    """Stands in for torchcodec.decoders: decodes with PyAV, and can be told to count wrongly."""

    def __init__(self, shift: int = 0, rotation: int | None = None, error: Exception | None = None) -> None:
        self.shift, self.rotation, self.error = shift, rotation, error
        self.asked: list[list[int]] = []

    def VideoDecoder(self, path: str, **options: object) -> object:
        assert options["dimension_order"] == "NHWC"
        assert options["device"] == "cpu"
        library = self
        video = open_video(path)

        class Decoder:
            metadata = types.SimpleNamespace(rotation=library.rotation)

            def __len__(self) -> int:
                return len(video.table)

            def get_frames_at(self, indices: list[int]) -> object:
                library.asked.append(indices)
                if library.error is not None:
                    raise library.error
                shifted = [min(index + library.shift, len(video.table) - 1) for index in indices]
                frames = video.read_at([video.table.time_us(index) for index in shifted])
                video.close()
                seconds = [video.table.pts[index] * float(video.table.time_base) for index in shifted]
                return types.SimpleNamespace(
                    data=Tensor(np.stack(frames.frames)), pts_seconds=Tensor(np.array(seconds))
                )

        return Decoder()


def use(monkeypatch: pytest.MonkeyPatch, library: Library) -> Library:
    module = types.ModuleType("torchcodec.decoders")
    module.VideoDecoder = library.VideoDecoder  # type: ignore[attr-defined]  # that is how a module is made up
    monkeypatch.setitem(sys.modules, "torchcodec", types.ModuleType("torchcodec"))
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", module)
    return library


def test_torchcodec_decodes_when_asked(videos: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    library = use(monkeypatch, Library())
    with open_video(videos["gop12"], decoder="torchcodec") as video:
        found = video.read_uniform(4)
        again = video.read_at([0, 0])
    assert [number_of(picture) for picture in found.frames] == [0, 33, 66, 99]
    assert library.asked == [[0, 33, 66, 99], [0]]
    assert [found.decoder, again.decoder] == ["torchcodec", "torchcodec"]
    assert found.info.rotation == 0


@pytest.mark.parametrize(
    "library", [Library(shift=1), Library(rotation=90), Library(error=RuntimeError("no such frame"))]
)
def test_other_frames_are_not_taken(videos: dict[str, Path], monkeypatch: pytest.MonkeyPatch, library: Library) -> None:
    use(monkeypatch, library)
    with open_video(videos["gop12"], decoder="torchcodec") as video:
        found = video.read_uniform(4)
    assert [number_of(picture) for picture in found.frames] == [0, 33, 66, 99]
    assert found.decoder == "pyav"


def test_without_the_library(videos: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", None)
    with pytest.raises(UserError, match=r"gop12\.mp4: torchcodec cannot be used .* choose the decoder pyav"):
        open_video(videos["gop12"], decoder="torchcodec")
    with open_video(videos["gop12"]) as video:
        assert video.read_uniform(1).decoder == "pyav"
    with pytest.raises(UserError, match="no video decoder decord") as caught:
        open_video(videos["gop12"], decoder="decord")
    assert caught.value.exit_code == USAGE


def test_nobody_imports_it_unasked(videos: dict[str, Path]) -> None:
    program = (
        "import sys; from evprof.loaders.videos.opening import open_video; "
        "open_video(sys.argv[1]).read_uniform(2); "
        "print(sorted({'torch', 'torchcodec'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(videos["one"])], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_real_library_gives_the_same_frames(videos: dict[str, Path]) -> None:
    try:
        import torchcodec  # noqa: F401
    except (ImportError, RuntimeError, OSError) as error:
        pytest.skip(f"torchcodec does not load: {type(error).__name__}")
    for path in videos.values():
        with open_video(path) as ours, open_video(path, decoder="torchcodec") as theirs:
            for first, second in zip(ours.read_uniform(8).frames, theirs.read_uniform(8).frames, strict=True):
                # Where versions of FFmpeg differ, converting colours rounds otherwise.
                assert np.abs(first.astype(int) - second).max() <= 2
