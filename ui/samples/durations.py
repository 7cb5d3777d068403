"""How long samples are, found out by a thread that reads one after the other; it knows no widget."""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.sample import Sample

LARGEST_READ = 64 << 20
"""Event files above this are not read just to learn their length."""

_READ_WHOLE = ("npy", "npz")
"""Formats of which some files can only be opened by reading them."""


class Durations:
    """Lengths in µs by sample; asked for once each, there when they are there."""

    def __init__(self) -> None:
        self.known: dict[Sample, int | None] = {}
        self.problems: dict[Sample, str] = {}
        """Why a sample cannot be read, in a sentence."""
        self._waiting: deque[Sample] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether some are still being read."""
        with self._lock:
            return self._thread is not None

    def ask(self, sample: Sample) -> None:
        """Asks for a sample's length, unless it was asked for before."""
        with self._lock:
            if sample in self.known:
                return
            self.known[sample] = None
            self._waiting.append(sample)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="evprof-durations", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Ends the thread after the file in hand."""
        self._is_closed = True

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting or self._is_closed:
                    self._thread = None
                    return
                sample = self._waiting.popleft()
            try:
                self.known[sample] = duration_us(sample)
            except UserError as error:
                self.problems[sample] = error.sentence


def duration_us(sample: Sample) -> int | None:
    """Length of the events, or without events of the video; None where it is not cheap to know. Raises UserError."""
    from evprof.loaders.events.file_head import HEAD_BYTES
    from evprof.loaders.events.formats import format_of
    from evprof.loaders.events.opening import open_recording
    from evprof.loaders.paths import first_bytes
    from evprof.loaders.pictures.frame_folder import is_frame_set
    from evprof.loaders.videos.opening import open_video

    path = sample.events_path
    if path is not None and Path(path).is_file() and not is_frame_set(path):
        form = format_of(first_bytes(path, HEAD_BYTES))
        is_small = Path(path).stat().st_size <= LARGEST_READ
        if is_small or (form is not None and form.name not in _READ_WHOLE):
            with open_recording(path) as recording:
                info = recording.info
                if info.t_min_us is not None and info.t_max_us is not None:
                    return info.t_max_us - info.t_min_us
                if is_small:
                    return recording.read().duration_us
    if sample.video_path is not None:
        with open_video(sample.video_path, sample.video_times_path) as video:
            return round(video.info().duration_ms * 1000)
    return None
