"""Reads AEDAT4 captures of iniVation's DV: the first stream of events, by packets.

What is not compressed is decoded here; lz4 and zstd packets are handed to `aedat`, a batch at a time after a header of
our own, because that library trusts what a file's header says and would decode the frames between the events too.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import MAX_COORDINATE, EventArray
from evprof.loaders.events.aedat.aedat4_header import (
    COMPRESSIONS,
    LONGEST_HEADER,
    MAGIC,
    Aedat4Header,
    Aedat4Stream,
    Damaged,
    FlatbufferTable,
    UnreadableFrame,
    most_lz4_bytes,
    most_zstd_bytes,
    read_header,
    written_header,
)
from evprof.loaders.events.pieces import PiecedRecording, Pieces, sampled
from evprof.loaders.events.recording import NO_EVENTS, Expansion, FileBytes, RecordingInfo, joined
from evprof.loaders.paths import reason


class Stage:
    """In memory where the system has such files, else in its folder for temporary ones; made when first used."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._path = ""
        self._is_on_disk = False

    def put(self, content: bytes) -> str:
        """The path of a file with this content, until the next call. Raises OSError."""
        if self._file is None:
            self._file = self._made()
        # Written over and not anew: pages of memory the file has already cost nothing.
        self._file.seek(0)
        self._file.write(content)
        self._file.truncate()
        return self._path

    def close(self) -> None:
        """Removes the file; may be called twice."""
        if self._file is None:
            return
        self._file.close()
        self._file = None
        if self._is_on_disk:
            with suppress(OSError):
                os.unlink(self._path)

    def _made(self) -> IO[bytes]:
        create = getattr(os, "memfd_create", None)
        self._is_on_disk = create is None
        if create is None:
            handle, self._path = tempfile.mkstemp(prefix="evprof-")
        else:
            handle = create("evprof")
            self._path = f"/proc/self/fd/{handle}"
        return open(handle, "w+b", buffering=0)


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


_PACKET_HEADER = 8
_BATCH_BYTES = 1 << 20
_PEEKED_BYTES = 256
_EVENT_BYTES = 16


class Aedat4(PiecedRecording):
    """Pieces are packets; of compressed files groups of them, because a packet's times show only when it is decoded."""

    def _begin(self) -> None:
        self._header = _header(self._file)
        self._stream = _event_stream(self._header, self.path)
        self._is_plain = self._header.compression == 0
        self._decoder = Packets(self.path, self._header.compression, self._stream.width, self._stream.height)
        self._is_cut = False
        self._found: npt.NDArray[np.int64] | None = None

    @cached_property
    def info(self) -> RecordingInfo:
        """The number of events is known where they are not compressed."""
        stream, streams = self._stream, self._header.streams
        earliest, latest = self._limits_us()
        counts = self._pieces.counts
        events = None if counts is None else int(counts.sum())
        details: dict[str, str | int | float] = {"compression": COMPRESSIONS[self._header.compression]}
        if stream.source:
            details["sensor"] = stream.source
        if len(streams) > 1:
            details["streams"] = ", ".join(f"{each.number} {each.kind}" for each in streams[:16])
        size = stream.width, stream.height
        return RecordingInfo("aedat4", events, *size, earliest, latest, details, self._problems())

    def chunks(self) -> Iterator[EventArray]:
        """Batches of packets of 1 MB, as the file has them."""
        return self._batches(self._walk() if self._found is None else self._found.tolist())

    def close(self) -> None:
        super().close()
        self._decoder.close()

    def _problems(self) -> tuple[str, ...]:
        if self._is_cut:
            return ("The file ends within a packet, which was left out.",)
        return () if self._header.data_stop else ("The file was not closed by its recorder; its packets were read.",)

    def _first_share(self) -> float:
        sizes = self._packets[:, 1]
        ends = np.cumsum(sizes)
        batch = ends[min(int(np.searchsorted(ends, _BATCH_BYTES)), len(ends) - 1)] if len(ends) else 1
        return float(batch / max(1, sizes.sum()))

    @cached_property
    def _pieces(self) -> Pieces:
        return self._plain_pieces(self._packets) if self._is_plain else sampled(len(self._packets), self._first_us)

    def _plain_pieces(self, packets: npt.NDArray[np.int64]) -> Pieces:
        first_us, counts, numbers = array("q"), array("q"), array("q")
        for number, (place, size) in enumerate(packets.tolist()):
            head = self._file.at(place, min(size, _PEEKED_BYTES))
            try:
                start, count = plain_events(head)
            except Damaged:
                raise self._damaged(place) from None
            if start + count * _EVENT_BYTES > size or (count and start + 8 > len(head)):
                raise self._damaged(place)
            if count:
                first_us.append(int.from_bytes(head[start : start + 8], "little", signed=True))
                counts.append(count)
                numbers.append(number)
        edges = np.array([*numbers, len(packets)], np.int64)
        return Pieces(np.array(first_us, np.int64), np.array(counts, np.int64), edges)

    def _first_us(self, number: int) -> int | None:
        place, size = self._packets[number].tolist()
        events = self._decoder.events([self._file.at(place, size)])
        return int(events.t_us[0]) if len(events) else None

    def _decoded(self, start: int, stop: int) -> EventArray:
        edges = self._pieces.edges
        packets: list[tuple[int, int]] = self._packets[edges[start] : edges[stop]].tolist()
        return joined(self._bounded(self._batches(packets)))

    def _batches(self, packets: Iterable[tuple[int, int]]) -> Iterator[EventArray]:
        """The events of packets at these places and of these sizes, decoded some at a time."""
        batch: list[bytes] = []
        gathered = 0
        for place, size in packets:
            batch.append(self._file.at(place, size))
            gathered += size
            if gathered >= _BATCH_BYTES:
                events = self._decoder.events(batch)
                batch, gathered = [], 0
                if len(events):
                    yield events
        events = self._decoder.events(batch)
        if len(events):
            yield events

    @property
    def _packets(self) -> npt.NDArray[np.int64]:
        """Place and size of the stream's packets, int64 [M, 2]."""
        if self._found is None:
            fields = array("q")
            for packet in self._walk():
                fields.extend(packet)
            self._found = np.array(fields, np.int64).reshape(-1, 2)
        return self._found

    def _walk(self) -> Iterator[tuple[int, int]]:
        """Place and size of each packet of the stream, in the file's order."""
        numbers = {stream.number for stream in self._header.streams}
        place = self._header.data_start
        stop = min(self._header.data_stop or self._file.size, self._file.size)
        self._is_cut = self._is_cut or (self._header.data_stop or 0) > self._file.size
        while place < stop:
            header = self._file.at(place, _PACKET_HEADER)
            number, size = int.from_bytes(header[:4], "little"), int.from_bytes(header[4:], "little")
            if len(header) < _PACKET_HEADER or place + _PACKET_HEADER + size > stop:
                # A recorder that was killed leaves half a packet; a table's wrong place looks the same.
                self._is_cut = True
                return
            if number not in numbers:
                raise self._damaged(place)
            place += _PACKET_HEADER
            if number == self._stream.number:
                yield place, size
            place += size

    def _damaged(self, place: int) -> UserError:
        return UserError(f"{self.path}: the packet at byte {place:,} is damaged; copy or export the file again.")


def _header(file: FileBytes) -> Aedat4Header:
    start = file.at(0, len(MAGIC) + 4)
    length = int.from_bytes(start[len(MAGIC) :], "little")
    try:
        return read_header(start + file.at(len(start), min(length, LONGEST_HEADER)))
    except Damaged as damage:
        raise UserError(f"{file.path}: {damage}; copy or export the file again.") from None


def _event_stream(header: Aedat4Header, path: str) -> Aedat4Stream:
    for stream in header.streams:
        if stream.kind == "events":
            return stream
    held = ", ".join(stream.kind for stream in header.streams[:8]) or "no streams"
    raise UserError(f"{path}: holds no event stream, only {held}; give a capture with events.")
