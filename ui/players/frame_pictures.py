"""The frames a model really saw, decoded once from what the run keeps of them."""

from __future__ import annotations

from PySide6.QtGui import QImage

from evprof.core.records import FrameRecord
from evprof.metrics.configurations.settings_text import kind_read
from evprof.view.columns import ShownModel


class FramePictures:
    """Frames of one model of a run, in order; grows with the run."""

    def __init__(self, column: ShownModel) -> None:
        self.column = column
        self.records: list[FrameRecord] = []
        self.images: list[QImage] = []
        self._sample = column.run.info.sample
        self._is_video = kind_read(column.run, column.role) == "video"

    def update(self) -> bool:
        """Takes in new frames. True when there were any."""
        known = self.column.run.frames.get(self.column.role, [])
        fresh = known[len(self.records) :]
        for record in fresh:
            self.records.append(record)
            self.images.append(QImage.fromData(record.png))
        return bool(fresh)

    @property
    def origin_us(self) -> int:
        """Sensor time of the first event or frame."""
        return min((record.start_us for record in self.records), default=0)

    @property
    def duration_us(self) -> int:
        """From the first start to the last end."""
        return max((record.end_us for record in self.records), default=0) - self.origin_us

    def moment_us(self, time_us: int) -> int:
        """A frame's sensor time on the sample's clock.

        Videos count from their first frame. Recordings have clocks of their own, and a run tells of a clip what was in
        it: its first event stands for the clip's beginning.
        """
        if self._is_video:
            return time_us + self._sample.video_offset_us
        return time_us - self.origin_us + (self._sample.start_us or 0)

    def index_at(self, position_us: int) -> int | None:
        """The frame on show at a moment on the sample's clock; None without frames."""
        found = None
        for index, record in enumerate(self.records):
            if found is None or self.moment_us(record.start_us) <= position_us:
                found = index
        return found
