"""The pictures a model would be shown of an input, before its own resizing, as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.loaders.clips import clip_frames, read_clip
from evprof.loaders.pictures.frame_folder import is_frame_set, load_event_frames
from evprof.loaders.pictures.png import encode_png
from evprof.loaders.pictures.render import EVENTGPT_FRAMES, Picture, render_event_frames
from evprof.loaders.probe import probe
from evprof.loaders.videos.opening import open_video

VIDEO_FRAMES = 8
"""Video-LLaVA's number of frames."""


def save_model_frames(path: str | Path, count: int | None, folder: str | Path) -> list[Path]:
    """Writes the frames a model would be shown, before its own resizing, as lossless PNGs; returns their paths.

    Events become `count` (default 5) EventGPT renderings, a video or a folder of frames `count` (default 8; all)
    evenly spread ones. Files are called `frame_00.png` on; raises UserError before overwriting any that is there.
    """
    kind = probe(path)
    if kind == "video":
        frames = _video_pictures(Sample(video_path=str(path)), count)
    elif kind == "events":
        frames = _event_pictures(Sample(events_path=str(path)), count)
    else:
        raise UserError(f"{path}: is a {kind}, which has no frames; give an event recording or a video.")
    return _save(frames, Path(folder))


def save_frames_at(path: str | Path, times_us: Sequence[int], folder: str | Path) -> list[Path]:
    """As `save_model_frames`, of a video or a folder of pictures: the frame on show at each time since its first one.

    Before the first frame and after the last one it is that one. Raises UserError for what is no video.
    """
    kind = "video" if Path(path).is_dir() or is_frame_set(path) else probe(path)
    if kind != "video":
        raise UserError(f"{path}: is a {kind}, whose frames have no times; --at-ms takes frames of a video.")
    with open_video(path) as video:
        frames = video.read_at(times_us).frames
    return _save(frames, Path(folder))


def save_event_frames(sample: Sample, count: int | None, folder: str | Path) -> list[Path]:
    """As `save_model_frames`, of the events that the sample means: of its clip, rectified where it says so."""
    return _save(_event_pictures(sample, count), Path(folder))


def _event_pictures(sample: Sample, count: int | None) -> list[Picture]:
    path = sample.events_path
    if path is None:
        raise UserError(f"'{sample.name}' has no event recording, so no event frames can be drawn.")
    if Path(path).is_dir() or is_frame_set(path):
        return load_event_frames(path, count).frames
    return render_event_frames(read_clip(sample), EVENTGPT_FRAMES if count is None else count)


def _video_pictures(sample: Sample, count: int | None) -> list[Picture]:
    with open_video(str(sample.video_path), sample.video_times_path) as video:
        video.index()
        return clip_frames(video, sample, VIDEO_FRAMES if count is None else count).frames


def _save(frames: list[Picture], target: Path) -> list[Path]:
    paths = [target / f"frame_{index:0{max(2, len(str(len(frames) - 1)))}d}.png" for index in range(len(frames))]
    taken = next((existing for existing in paths if existing.exists()), None)
    if taken is not None:
        raise UserError(f"{taken}: already there; give --save-frames an empty folder.")
    try:
        target.mkdir(parents=True, exist_ok=True)
        for frame_path, frame in zip(paths, frames, strict=True):
            frame_path.write_bytes(encode_png(frame))
    except OSError as error:
        raise UserError(f"{target}: frames cannot be written there ({error.strerror or error}).") from None
    return paths
