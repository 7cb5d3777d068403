"""Events out of AEDAT4 packets: plain ones decoded here, compressed ones by the `aedat` library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import MAX_COORDINATE, EventArray
from evprof.loaders.events.aedat.aedat4_header import Damaged, FlatbufferTable, written_header
from evprof.loaders.events.aedat.compressed_frames import UnreadableFrame, most_lz4_bytes, most_zstd_bytes
from evprof.loaders.events.aedat.stage import Stage
from evprof.loaders.events.expansion import Expansion
from evprof.loaders.events.recording import NO_EVENTS
from evprof.loaders.paths import reason

_EVENT = np.dtype([("t", "<i8"), ("x", "<u2"), ("y", "<u2"), ("p", "u1"), ("", "V3")])
_MOST_BATCH_BYTES = 64 << 20


class Packets:
    """Decodes packets of one stream of one file; `width` and `height` are the sensor's, where known."""

    def __init__(self, path: str, compression: int, width: int | None, height: int | None) -> None:
        self.path = path
        self._compression = compression
        self._width, self._height = width, height
        self._stage = Stage()
        self._expansion = Expansion(path)
        self._start = written_header(compression, width or MAX_COORDINATE, height or MAX_COORDINATE)

    def events(self, packets: Sequence[bytes]) -> EventArray:
        """The packets' events in order. Raises UserError."""
        try:
            arrays = self._plain(packets) if self._compression == 0 else self._unpacked(packets)
        except (Damaged, UnreadableFrame):
            raise self._damaged("a packet makes no sense") from None
        if not arrays:
            return NO_EVENTS
        columns = (np.concatenate([part[name] for part in arrays]) for name in ("x", "y", "t", "p"))
        x, y, t, p = columns
        events = EventArray(x, y, t.view(np.int64), p.view(np.uint8))
        self._check(events)
        return events

    def close(self) -> None:
        """Lets go of what decompressing needed; may be called twice."""
        self._stage.close()

    def _check(self, events: EventArray) -> None:
        if len(events) == 0:
            return
        most_x, most_y = events.x.max(), events.y.max()
        if most_x >= (self._width or MAX_COORDINATE + 1) or most_y >= (self._height or MAX_COORDINATE + 1):
            raise self._damaged(f"events lie at x = {most_x}, y = {most_y}, outside the sensor")
        if events.p.max() > 1 or abs(int(events.t_us.min())) >> 61 or abs(int(events.t_us.max())) >> 61:
            raise self._damaged("events have impossible times or polarities")

    def _plain(self, packets: Sequence[bytes]) -> list[npt.NDArray[Any]]:
        found = []
        for packet in packets:
            place, count = plain_events(packet)
            if place + count * _EVENT.itemsize > len(packet):
                raise Damaged
            if count:
                found.append(np.frombuffer(packet, _EVENT, count, place))
        return found

    def _unpacked(self, packets: Sequence[bytes]) -> list[npt.NDArray[Any]]:
        most_bytes = most_lz4_bytes if self._compression < 3 else most_zstd_bytes
        arrays: list[npt.NDArray[Any]] = []
        batch: list[bytes] = []
        expected = 0
        for packet in packets:
            most = most_bytes(packet)
            self._expansion.expect(len(packet), most)
            if batch and expected + most > _MOST_BATCH_BYTES:
                arrays += self._batch(batch)
                batch, expected = [], 0
            batch.append(packet)
            expected += most
        return arrays + self._batch(batch) if batch else arrays

    def _batch(self, packets: Sequence[bytes]) -> list[npt.NDArray[Any]]:
        parts: list[bytes] = [self._start]
        for packet in packets:
            parts += (bytes(4), len(packet).to_bytes(4, "little"), packet)
        try:
            path = self._stage.put(b"".join(parts))
        except OSError as error:
            raise UserError(
                f"{self.path}: cannot be decompressed, for which a temporary file is written ({reason(error)}); free "
                "some space."
            ) from None
        arrays = self._library_events(path)
        self._expansion.count(sum(map(len, packets)), sum(map(len, arrays)) * _EVENT.itemsize)
        return arrays

    def _library_events(self, path: str) -> list[npt.NDArray[Any]]:
        import aedat

        try:
            return [packet["events"] for packet in aedat.Decoder(path) if "events" in packet]
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a panic of a Rust library is not an Exception
            raise self._damaged(f"a packet cannot be decompressed ({reason(error)})") from None

    def _damaged(self, what: str) -> UserError:
        return UserError(f"{self.path}: {what}; the file is damaged, so copy or export it again.")


def plain_events(packet: bytes) -> tuple[int, int]:
    """Where the events of an uncompressed packet begin, and how many it says there are. Raises Damaged.

    The packet's first bytes are enough.
    """
    return FlatbufferTable(packet, 4, b"EVTS").vector(0)
