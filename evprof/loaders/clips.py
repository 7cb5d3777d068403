"""The part of a recording, or of a video, that a sample means; nothing of what lies outside it is kept."""

from __future__ import annotations

from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.core.sample import Sample, seconds_text
from evprof.loaders.events.recording import EventRecording
from evprof.loaders.pictures.frame_folder import is_frame_set, load_event_frames
from evprof.loaders.pictures.png import encode_png
from evprof.loaders.pictures.render import EVENTGPT_FRAMES, render_event_frames
from evprof.loaders.videos.source import VideoFrames, VideoSource


def clip_events(recording: EventRecording, sample: Sample) -> EventArray:
    """The events of the sample's clip, or all of them. Raises UserError for a clip in which nothing happened."""
    if not sample.is_clip:
        return recording.read()
    window = sample.window_us(recording.origin_us())
    events = recording.read() if window is None else recording.read_time(*window)
    if len(events) == 0:
        raise _outside(recording, sample)
    return events


def check_clip(recording: EventRecording, sample: Sample) -> None:
    """Raises UserError for a clip outside what the recording says it spans; nothing is read for it."""
    info = recording.info
    window = sample.window_us(recording.origin_us()) if sample.is_clip else None
    if window is None or info.t_min_us is None or info.t_max_us is None:
        return
    if window[0] > info.t_max_us or window[1] <= info.t_min_us:
        raise _outside(recording, sample)


def clip_frames(video: VideoSource, sample: Sample, count: int) -> VideoFrames:
    """`count` frames spread evenly over the sample's clip, or over the whole video. Raises UserError."""
    return video.read_uniform(count, video_window(sample))


def video_window(sample: Sample) -> tuple[int, int] | None:
    """The sample's clip on its video's own clock, in µs; None: the whole video."""
    return sample.window_us(-sample.video_offset_us)


def read_clip(sample: Sample) -> EventArray:
    """The events that the sample means, from its file, rectified where it says so. Raises UserError."""
    from evprof.loaders.events.opening import open_recording

    if sample.events_path is None:
        raise UserError(f"'{sample.name}' has no event recording.")
    with open_recording(sample.events_path) as recording:
        return rectified(clip_events(recording, sample), sample)


def rectified(events: EventArray, sample: Sample) -> EventArray:
    """The events at their rectified pixels where the sample names a map, otherwise as they are. Raises UserError."""
    if sample.rectify_path is None:
        return events
    from evprof.loaders.events.rectification import RectifyMap

    found = RectifyMap.load(sample.rectify_path).apply(events)
    if len(found) == 0:
        raise UserError(
            f"{sample.events_path}: rectification leaves no event in the picture; is {sample.rectify_path} its map?"
        )
    return found


def _outside(recording: EventRecording, sample: Sample) -> UserError:
    place = f"in {sample.clip_text}" if sample.duration_us is not None else f"{sample.clip_text} on"
    info, spanned = recording.info, ""
    if info.t_min_us is not None and info.t_max_us is not None:
        spanned = f", which spans {seconds_text(info.t_max_us - info.t_min_us)}; choose a part inside it"
    return UserError(f"{recording.path}: no event lies {place} of the recording{spanned}.")


def save_event_frames(sample: Sample, count: int | None, folder: str | Path) -> None:
    """Writes the event frames that a model is shown of the sample's clip as `frame_00.png` on, 5 by default.

    They are EventGPT's renderings. Raises UserError.
    """
    path, folder = sample.events_path, Path(folder)
    if path is None:
        raise UserError(f"'{sample.name}' has no event recording, so no event frames can be drawn.")
    if Path(path).is_dir() or is_frame_set(path):
        frames = load_event_frames(path, count).frames
    else:
        frames = render_event_frames(read_clip(sample), EVENTGPT_FRAMES if count is None else count)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for index, frame in enumerate(frames):
            (folder / f"frame_{index:02d}.png").write_bytes(encode_png(frame))
    except OSError as error:
        raise UserError(f"{folder}: frames cannot be written there ({error.strerror or error}).") from None
