"""Reads videos through PyAV: what a file holds, and exact frames by number from any container FFmpeg opens.

A frame is found by its presentation time, never by index / rate. It knows no models and no players.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.protocols import UNMEASURED, PartClock
from evprof.loaders.paths import readable_file
from evprof.loaders.pictures.render import Picture
from evprof.loaders.videos.decoding_plan import (
    MAX_THREADS,
    DecodingRun,
    decoders_for,
    plan_runs,
    threads_for,
    usable_threads,
)
from evprof.loaders.videos.frame_finder import FrameFinder, FrameMissingError
from evprof.loaders.videos.frame_table import FrameTable, PacketRow
from evprof.loaders.videos.source import PYAV, Choice, VideoFrames, VideoInfo, VideoSource
from evprof.loaders.videos.spare_frames import spare_frames_of
from evprof.loaders.videos.track import VideoTrack
from evprof.loaders.videos.truncation import check_complete

if TYPE_CHECKING:
    from av import VideoFrame

_ONE = Fraction(1)


class VideoFile(VideoSource):
    """One open video: open, `index()` (a pass over packets, no decoding), then `read_uniform` or `frame`.

    The three are separate so that each can be timed. Not for two threads at once. A context manager.
    """

    decoder = PYAV

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._file = readable_file(path)
        self._threads = usable_threads()
        self._table: FrameTable | None = None
        self._finder: FrameFinder | None = None
        self._bytes_beside = 0
        self._track = VideoTrack(self.path, self._file, threads=min(self._threads, MAX_THREADS))

    def close(self) -> None:
        """Lets go of the file."""
        if self._finder is not None:
            self._finder.close()
        self._track.close()

    @property
    def table(self) -> FrameTable:
        """The frame table; `index()` builds it."""
        return self._table if self._table is not None else self.index()

    @property
    def bytes_read(self) -> int:
        """Bytes of the packets that were read, for the table and for frames."""
        return self._track.bytes_read + self._bytes_beside

    def index(self) -> FrameTable:
        """Reads every packet's time and key flag. Raises UserError for a video without frames or cut short."""
        rows: list[PacketRow] = []
        context = self._track.stream.codec_context
        spare = spare_frames_of(context.name, context.extradata)
        with self._track.sentences():
            for packet in self._track.packets():
                if packet.size and not packet.is_discard:
                    if spare is not None:
                        spare.look(memoryview(packet))
                    # Animated PNGs call every frame a key frame, and draw each over the ones before.
                    is_key = packet.is_keyframe and not (rows and context.name == "apng")
                    rows.append(PacketRow(packet.pts, packet.duration, is_key, dts=packet.dts))
        if spare is not None:
            rows = [row._replace(is_spare=found) for row, found in zip(rows, spare.found(), strict=True)]
        if not rows:
            raise UserError(
                f"{self.path}: the video holds no frames; it is empty or cut short; copy or export it again."
            )
        table = self._make_table(rows)
        if not table.is_timed:
            table = self._count_frames()
        check_complete(self.path, self._file, self._track.container, self._track.stream, table)
        self._use_table(table)
        return table

    def info(self) -> VideoInfo:
        """What the file holds; decodes one frame to learn how it is turned."""
        rotation = self._ready().rotation
        if rotation is None:
            self.frame(0)
            rotation = self._ready().rotation or 0
        context = self._track.stream.codec_context
        width, height = context.width, context.height
        turned = rotation % 180 == 90
        return VideoInfo(
            codec=context.name,
            frames=len(self.table),
            width=height if turned else width,
            height=width if turned else height,
            duration_ms=self.table.duration_us / 1000,
            gop_frames=self.table.gop_frames,
            rotation=rotation,
        )

    def frame(self, index: int) -> VideoFrame:
        """Frame `index` of the presentation order, as decoded (see `to_rgb`). Raises UserError when it cannot be."""
        frame = None
        for _, frame in self.walk(index):  # noqa: B007 - the last one is what is asked for
            pass
        if frame is None:
            raise UserError(f"{self.path}: frame {index} cannot be decoded; the file is damaged, copy it again.")
        return frame

    def walk(self, index: int) -> Iterator[tuple[int, VideoFrame]]:
        """The frames passed on the way to frame `index`, it being the last; raises UserError when it never comes."""
        if not 0 <= index < len(self.table):
            raise UserError(f"{self.path}: there is no frame {index} among {len(self.table)}.")
        self._ready().skip = frozenset()
        try:
            yield from self._ready().walk(index)
            return
        except FrameMissingError:
            self._probe_thoroughly()
        try:
            yield from self._ready().walk(index)
        except FrameMissingError:
            raise UserError(
                f"{self.path}: frame {index} cannot be decoded; the file is damaged, copy or export it again."
            ) from None

    def to_rgb(self, frame: VideoFrame, *, longest_edge: int | None = None) -> Picture:
        """uint8 [H, W, 3], upright; scaled down so that no edge is longer than `longest_edge`."""
        return self._upright_rgb(frame, self._ready().rotation or 0, longest_edge)

    def _upright_rgb(self, frame: VideoFrame, rotation: int, longest_edge: int | None = None) -> Picture:
        with self._track.sentences():
            edge = max(frame.width, frame.height)
            if longest_edge is not None and edge > longest_edge:
                scale = longest_edge / edge
                width, height = max(1, round(frame.width * scale)), max(1, round(frame.height * scale))
                frame = frame.reformat(width=width, height=height, format="rgb24")
            picture: npt.NDArray[Any] = frame.to_ndarray(format="rgb24")
        turns = round(rotation / 90) % 4
        return np.ascontiguousarray(np.rot90(picture, turns)) if turns else picture

    # Many frames

    def _read(self, choose: Choice) -> VideoFrames:
        for look_closer in (self._probe_thoroughly, lambda: self._use_table(self._count_frames())):
            try:
                return self._read_once(choose)
            except FrameMissingError:
                look_closer()
        try:
            return self._read_once(choose)
        except FrameMissingError:
            raise UserError(f"{self.path}: a frame cannot be decoded; the file is damaged, copy it again.") from None

    def _read_once(self, choose: Choice) -> VideoFrames:
        indices = choose(self.table)
        targets = sorted(set(indices))
        context = self._track.stream.codec_context
        self._check_amount(len(targets), context.width, context.height)
        pictures = self._pictures(targets, context.width * context.height)
        return VideoFrames(
            frames=[pictures[index] for index in indices],
            indices=indices,
            times_us=[self.table.time_us(index) for index in indices],
            info=self.info(),
            decoder=self.decoder,
        )

    def _pictures(self, targets: list[int], pixels: int) -> dict[int, Picture]:
        """The target frames, decoded by as many decoders as pay."""
        table = self.table
        runs = plan_runs(table, targets)
        decoders = decoders_for(runs, pixels, self._threads)
        threads = threads_for(runs, decoders, self._threads)
        wanted = {int(table.pts[index]) for index in targets}
        reading = _Reading(deque(runs), table.spare_pts - wanted, self._upright_rgb)
        others = [
            threading.Thread(target=self._read_beside, args=(reading, threads), name=f"evprof-decoder-{number}")
            for number in range(1, decoders)
        ]
        for other in others:
            other.start()
        self._track.use_threads(threads)
        try:
            reading.work(self._ready(), self.parts)
        finally:
            reading.runs.clear()
            # What this decoder did is told part by part; what the others did meanwhile is decoding.
            with self.parts.part("decode") if others else nullcontext():
                for other in others:
                    other.join()
            self._bytes_beside += sum(reading.bytes_beside)
        if reading.errors:
            raise reading.errors[0]
        return reading.pictures

    def _read_beside(self, reading: _Reading, threads: int) -> None:
        """Takes part in a reading with a decoder of its own."""
        try:
            track = self._track.another(threads)
        except UserError:
            # The file changed meanwhile; who has it open goes on alone.
            return
        finder = FrameFinder(track, self.table)
        try:
            reading.work(finder)
        finally:
            finder.close()
            reading.bytes_beside.append(track.bytes_read)

    # The table and the way into the file

    def _ready(self) -> FrameFinder:
        table = self.table
        if self._finder is None:
            self._finder = FrameFinder(self._track, table)
        return self._finder

    def _probe_thoroughly(self) -> None:
        """Where neither container nor stream says how far frames are reordered, decoders lose some at the start.

        FFmpeg then has to decode a few when it opens the file.
        """
        self._track.rewind(is_thorough=True)
        self._finder = None

    def _use_table(self, table: FrameTable) -> None:
        self._table = table
        self._finder = None

    def _make_table(self, rows: list[PacketRow]) -> FrameTable:
        base = self._track.time_base
        if base is None:
            rows = [PacketRow(None, None, row.is_key) for row in rows]
        return FrameTable.from_packets(rows, base or _ONE, self._track.stream.average_rate)

    def _count_frames(self) -> FrameTable:
        """The table from really decoded frames: slow, for files whose packets do not say."""
        self._track.rewind()
        with self._track.sentences():
            rows = [PacketRow(frame.pts, frame.duration, frame.key_frame) for frame in self._track.frames()]
        if not rows:
            raise UserError(f"{self.path}: no frame of the video can be decoded; record or export it again.")
        return self._make_table(rows)


class _Reading:
    """Runs that several decoders take from a queue, and the pictures they bring."""

    def __init__(
        self, runs: deque[DecodingRun], skip: frozenset[int], to_rgb: Callable[[VideoFrame, int], Picture]
    ) -> None:
        self.runs = runs
        self.pictures: dict[int, Picture] = {}
        self.errors: list[Exception] = []
        self.bytes_beside: list[int] = []
        self._skip = skip
        self._to_rgb = to_rgb

    def work(self, finder: FrameFinder, parts: PartClock = UNMEASURED) -> None:
        """Takes run after run; an error ends everybody's work. Only one of them tells its parts."""
        finder.skip = self._skip
        try:
            while self.runs:
                try:
                    run = self.runs.popleft()
                except IndexError:
                    return
                for target in run.targets:
                    with parts.part("decode"):
                        frame = finder.find(target)
                    with parts.part("colour"):
                        self.pictures[target] = self._to_rgb(frame, finder.rotation or 0)
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread that asked for the frames raises it
            self.errors.append(error)
            self.runs.clear()
