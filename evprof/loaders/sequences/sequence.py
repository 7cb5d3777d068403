"""A folder with an event recording and its video as one sample on a common clock, whole or cut into clips.

Known by what lies in it: DSEC's folders as they are unpacked or downloaded, and any recording beside a video.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from evprof.core.errors import UsageError, UserError
from evprof.core.sample import Sample, clip_name, seconds_text
from evprof.loaders.sequences.folder_content import FolderContent, folder_content

MOST_CLIPS = 100_000
MOST_SEQUENCES = 1000
"""Sub-folders of a dataset that are looked into."""

_NO_EVENTS = frozenset({"disparity", "flow", "depth", "optical", "masks", "semantic", "semantics", "labels"})
"""Words of files that lie beside recordings and are none of what a camera saw."""


@dataclass(frozen=True)
class SequenceClock:
    """How the halves lie on the sample's clock, in µs; None where nothing tells it.

    `offset_us`: when the first video frame is shown. `is_exact`: both halves carry times of one clock; otherwise the
    offset is an assumption. `events_us` and `video_us` are how long they last. `problems` are sentences.
    """

    offset_us: int
    is_exact: bool
    events_us: int | None
    video_us: int | None
    problems: tuple[str, ...] = ()

    @property
    def common_us(self) -> tuple[int, int] | None:
        """[start, stop) that both halves cover (the only one where there is one); None while its end is unknown."""
        ends = [self.events_us] if self.events_us is not None else []
        if self.video_us is not None:
            ends.append(self.offset_us + self.video_us)
        if not ends:
            return None
        start = max(0, self.offset_us) if self.video_us is not None else 0
        return start, max(start, min(ends))


@dataclass(frozen=True)
class Sequence:
    """What was found in a folder: paths, nothing opened. `video_path` is a video or a folder of pictures."""

    folder: str
    name: str
    events_path: str
    video_path: str | None = None
    video_times_path: str | None = None
    rectify_path: str | None = None

    @cached_property
    def clock(self) -> SequenceClock:
        """Opens both halves to see how their clocks relate. Raises UserError when one cannot be opened."""
        return _clock(self)

    def sample(self, prompt: str | None = None) -> Sample:
        """The whole sequence. Raises UserError as `clock` does."""
        return Sample(
            events_path=self.events_path,
            video_path=self.video_path,
            prompt=prompt or Sample().prompt,
            name=self.name,
            video_offset_us=self.clock.offset_us,
            video_times_path=self.video_times_path,
            rectify_path=self.rectify_path,
        )

    def clips(self, duration_us: int, step_us: int | None = None, prompt: str | None = None) -> list[Sample]:
        """The common part of both halves in pieces of `duration_us`, a new one every `step_us` (default: end to end).

        A piece that would reach beyond the end is left out. Raises UserError when there is none.
        """
        step = duration_us if step_us is None else step_us
        if duration_us < 1 or step < 1:
            raise UsageError("Clips last longer than 0 ms and lie more than 0 ms apart.")
        common = self.clock.common_us
        if common is None:
            raise UserError(f"{self.folder}: nothing tells how long its events last, so it cannot be cut into clips.")
        start, stop = common
        count = max(0, (stop - start - duration_us) // step + 1)
        if count == 0:
            raise UserError(
                f"{self.folder}: events and video have {seconds_text(stop - start)} in common, shorter than a clip of "
                f"{seconds_text(duration_us)}."
            )
        if count > MOST_CLIPS:
            raise UsageError(
                f"{self.folder}: would make {count:,} clips, more than the {MOST_CLIPS:,} allowed; take longer ones."
            )
        whole = self.sample(prompt)
        return [
            replace(whole, name=clip_name(self.name, begin), start_us=begin, duration_us=duration_us)
            for begin in range(start, start + count * step, step)
        ]


def find_sequence(folder: str | Path) -> Sequence | None:
    """The sequence a folder holds; None when it holds no event recording, or several and nothing chooses among them.

    Looks at names and at the first bytes of files; of pictures that are not called images the first one is decoded.
    """
    return _sequence(folder_content(Path(folder).resolve()))


def open_sequences(folder: str | Path) -> list[Sequence]:
    """The sequence a folder holds, or those of its sub-folders by name. Raises UserError when there is none."""
    found = find_sequence(folder)
    if found is not None:
        return [found]
    try:
        below = sorted(entry for entry in Path(folder).iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError:
        below = []
    listed = [sequence for entry in below[:MOST_SEQUENCES] if (sequence := find_sequence(entry)) is not None]
    return listed or [open_sequence(folder)]


def open_sequence(folder: str | Path) -> Sequence:
    """As `find_sequence`. Raises UserError when there is none."""
    if not Path(folder).is_dir():
        raise UserError(f"{folder}: is no folder; give one that holds an event recording and its video.")
    content = folder_content(Path(folder).resolve())
    found = _sequence(content)
    if found is None:
        recordings = [str(path.relative_to(content.root)) for path in content.events]
        if len(recordings) > 1:
            raise UserError(
                f"{folder}: holds {len(recordings)} event recordings ({', '.join(recordings[:3])}"
                f"{', …' if len(recordings) > 3 else ''}); give the folder of one of them."
            )
        raise UserError(f"{folder}: holds no event recording; give a folder with one and its video, such as DSEC's.")
    return found


def _sequence(content: FolderContent) -> Sequence | None:
    events = _events(content)
    if events is None:
        return None
    path, video = _paired(content, events)
    if path is None:
        return None
    pictures = video is not None and video in content.picture_folders
    rectify = _first(content.rectify_maps, [lambda map_path: map_path.parent == path.parent])
    is_rectified = pictures and video is not None and "rectified" in content.words(video)
    return Sequence(
        folder=str(content.root),
        name=content.root.name or "sequence",
        events_path=str(path),
        video_path=None if video is None else str(video),
        video_times_path=_times(content) if pictures else None,
        # Both halves as the same lens would show them: pictures as they were taken go with events as they were.
        rectify_path=str(rectify) if rectify is not None and is_rectified else None,
    )


def _events(content: FolderContent) -> list[Path] | None:
    plain = [path for path in content.events if not _NO_EVENTS & set(content.words(path))]
    return _left(plain, content) or None


def _paired(content: FolderContent, events: list[Path]) -> tuple[Path | None, Path | None]:
    """The recording and the video that goes with it; (None, None) when several could be meant."""
    videos = [path for path in content.videos if not _NO_EVENTS & set(content.words(path))]
    if len(events) > 1 or len(videos) > 1:
        pairs = [
            (path, video)
            for path in events
            for video in videos
            if (path.parent, path.stem) == (video.parent, video.stem)
        ]
        if len(pairs) == 1:
            return pairs[0]
        if len(events) > 1:
            return None, None
    if len(videos) == 1:
        return events[0], videos[0]
    folders = [folder for folder in content.picture_folders if not _NO_EVENTS & set(content.words(folder))]
    return events[0], _first(
        _left(folders, content),
        [
            lambda folder: "rectified" in content.words(folder),
            lambda folder: _is_called_images(content.words(folder)),
            lambda folder: not videos and not _holds_event_frames(folder),
        ],
    )


def _is_called_images(said: list[str]) -> bool:
    return bool({"images", "image"} & set(said)) and not {"event", "events"} & set(said)


def _holds_event_frames(folder: Path) -> bool:
    """Whether the pictures of a folder are drawn from events, and so no video of what a camera saw."""
    from evprof.loaders.pictures.png import is_event_frame_file
    from evprof.loaders.videos.folder import picture_paths

    try:
        return is_event_frame_file(picture_paths(folder)[0])
    except UserError:
        return True


def _times(content: FolderContent) -> str | None:
    """The text with the pictures' times: the middle of each exposure before its begin and end."""
    plain = [path for path in content.times if not _NO_EVENTS & set(content.words(path))]
    found = _first(
        [path for path in plain if "right" not in content.words(path)] or plain,
        [
            lambda path: {"image", "images"} & set(content.words(path)) and not _is_exposure(path, content),
            lambda path: not _is_exposure(path, content) and "events" not in content.words(path),
            lambda path: _is_exposure(path, content),
        ],
    )
    return None if found is None else str(found)


def _is_exposure(path: Path, content: FolderContent) -> bool:
    return "exposure" in content.words(path)


def _left(paths: list[Path], content: FolderContent) -> list[Path]:
    """The paths of the left camera where there are any, else those that are not only the right one's, else all."""
    said = {path: set(content.words(path)) for path in paths}
    return (
        [path for path in paths if "left" in said[path]]
        or [path for path in paths if "right" not in said[path]]
        or list(paths)
    )


def _first(paths: Iterable[Path], wishes: Iterable[Callable[[Path], object]]) -> Path | None:
    """The first path that the first wish holds for, then the second, …; None when no wish holds for any."""
    listed = list(paths)
    return next((path for wish in wishes for path in listed if wish(path)), None)


def _clock(sequence: Sequence) -> SequenceClock:
    from evprof.loaders.events.opening import open_recording
    from evprof.loaders.videos.opening import open_video

    with open_recording(sequence.events_path) as recording:
        origin_us, info = recording.origin_us(), recording.info
    last_us = info.t_max_us
    events_us = None if last_us is None else last_us - origin_us + 1
    if sequence.video_path is None:
        return SequenceClock(0, False, events_us, None, ("There is no video beside the events.",))
    with open_video(sequence.video_path, sequence.video_times_path) as video:
        video_us = video.index().duration_us
        first_us = video.info().first_time_us
    problems: list[str] = []
    is_exact = first_us is not None and first_us < (last_us or origin_us) + 1 and first_us + video_us > origin_us
    offset_us = first_us - origin_us if is_exact and first_us is not None else 0
    if not is_exact:
        why = "have no times of a common clock" if first_us is None else "carry times that do not overlap"
        problems.append(
            f"Events and video {why}; both are taken to begin together (--video-offset-ms tells otherwise)."
        )
    return SequenceClock(offset_us, is_exact, events_us, video_us, tuple(problems))
