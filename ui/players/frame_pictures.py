"""The frames a model really saw, decoded once from what the run keeps of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import QImage

from evprof.core.records import FrameRecord
from evprof.view.columns import ShownModel

if TYPE_CHECKING:
    from evprof.metrics.costs.two_clocks import SensorSpan


class FramePictures:
    """Frames of one model of a run, in order; grows with the run."""

    def __init__(self, column: ShownModel) -> None:
        self.column = column
        self.records: list[FrameRecord] = []
        self.images: list[QImage] = []
        self._slices: list[SensorSpan] = []

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

    @property
    def slices(self) -> list[SensorSpan]:
        """When each of them was sensed, on the sample's clock."""
        from evprof.metrics.costs.two_clocks import slices_of

        if len(self._slices) != len(self.records):
            self._slices = slices_of(self.column.run, self.column.role, self.records)
        return self._slices

    @property
    def span(self) -> SensorSpan | None:
        """From the first begin to the last end on the sample's clock; None without frames."""
        from evprof.metrics.costs.two_clocks import SensorSpan

        if not self.records:
            return None
        return SensorSpan(min(one.start_us for one in self.slices), max(one.stop_us for one in self.slices))

    def index_at(self, position_us: int) -> int | None:
        """The frame on show at a moment on the sample's clock; None without frames."""
        from evprof.metrics.costs.two_clocks import slice_at

        return slice_at(self.slices, position_us)
