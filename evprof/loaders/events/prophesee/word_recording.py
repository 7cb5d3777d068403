"""Recordings that are a row of words of one width, read and decoded block by block; no format is known here.

A window needs an index of blocks: the decoder's state before each and the times in it. It is made on the first need
by a scan that looks at little more than the words that carry time (some GB a second), and kept while the recording is
open. Files are read, never mapped: a file that shrinks while it is mapped would end the program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.recording import EventRecording, RecordingInfo, joined
from evprof.loaders.paths import raw_file, readable_file, unreadable

LONGEST_HEADER = 65_536
"""Bytes that header lines may take."""

_LONGEST_LINE = 4096
_MOST_LINES = 1000

_RAW_FORMATS = {"evt2": "evt2", "evt20": "evt2", "evt21": "evt2.1", "evt3": "evt3", "evt30": "evt3"}
_RAW_VERSIONS = {"2": "evt2", "2.0": "evt2", "2.1": "evt2.1", "3": "evt3", "3.0": "evt3"}
_OTHER_ENCODINGS = re.compile(r"EVT\s?\d|AER|HISTO3D|DIFF3D|\d\.\d$", re.IGNORECASE)
_RAW_SIGNS = frozenset(
    {
        *("integrator_name", "plugin_integrator_name", "camera_integrator_name", "plugin_name", "system_id"),
        *("subsystem_id", "sub_system_id", "serial_number", "firmware_version", "sensor_generation", "sensor_name"),
    }
)
_DAT_SIGNS = frozenset({"version", "width", "height"})
_DETAILS = {
    "sensor_name": "sensor",
    "sensor_generation": "sensor_generation",
    "integrator_name": "integrator",
    "camera_integrator_name": "integrator",
    "serial_number": "serial",
    "firmware_version": "firmware",
    "date": "recorded",
}


_SYSTEMS = {
    **dict.fromkeys((0x15, 0x17, 0x19, 0x1C, 0x1D, 0x21, 0x22, 0x23, 0x28, 0x29), (640, 480)),
    **dict.fromkeys((0x1A, 0x1E, 0x1F, 0x27, 0x2E, 0x30, 0x31, 0x32), (1280, 720)),
}
"""Prophesee's cameras by `system_ID`, whose headers named no size before 2021 or so (numbers and sizes: OpenEB)."""


@dataclass(frozen=True)
class PropheseeHeader:
    """Lines of a header: lower-case key -> text. `length`: bytes before what follows the lines.

    `named` is what the lines say the file is: `evt2`, `evt2.1`, `evt3`, `dat`, `raw` (a RAW file that does not name
    its encoding), `other` (one whose encoding is not read here), or None.
    """

    lines: dict[str, str] = field(default_factory=dict)
    length: int = 0

    @property
    def named(self) -> str | None:
        options = self.lines.get("format", "").split(";")
        if form := _RAW_FORMATS.get(re.sub(r"[\s._]", "", options[0]).lower()):
            return form
        if form := _RAW_VERSIONS.get(self.lines.get("evt", "")):
            return form
        if "format" in self.lines or "evt" in self.lines:
            return "other" if _OTHER_ENCODINGS.match(options[0] or self.lines.get("evt", "")) else None
        if _RAW_SIGNS & self.lines.keys():
            return "raw"
        return "dat" if _DAT_SIGNS & self.lines.keys() else None

    @property
    def options(self) -> dict[str, str]:
        """The `name=value` parts of the `format` line."""
        parts = (part.partition("=") for part in self.lines.get("format", "").split(";")[1:])
        return {name.strip().lower(): value.strip() for name, _, value in parts}

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height of the sensor, where the header says them."""
        options = self.options
        geometry = re.match(r"(\d+)\s*x\s*(\d+)", self.lines.get("geometry", ""))
        for width, height in (
            (options.get("width", ""), options.get("height", "")),
            geometry.groups() if geometry else ("", ""),
            (self.lines.get("width", ""), self.lines.get("height", "")),
        ):
            if re.fullmatch(r"\d{1,5}", width) and re.fullmatch(r"\d{1,5}", height) and int(width) and int(height):
                return int(width), int(height)
        system = self.lines.get("system_id", "")
        makers = {value for key, value in self.lines.items() if key.endswith("integrator_name")}
        return _SYSTEMS.get(int(system)) if makers == {"Prophesee"} and re.fullmatch(r"\d{1,5}", system) else None

    @property
    def is_legacy(self) -> bool | None:
        """Whether EVT2.1's words have their 32-bit halves swapped; None where the header does not say."""
        order = (self.options.get("endianness") or self.lines.get("endianness", "")).lower()
        return {"legacy": True, "little": False}.get(order)

    @property
    def offset_us(self) -> int:
        """Microseconds to add to every time; `t0`, which faery writes."""
        text = self.lines.get("t0", "0")
        return int(text) if re.fullmatch(r"\d{1,18}", text) else 0

    @property
    def details(self) -> dict[str, str | int | float]:
        """What else is said of camera and recording."""
        return {name: self.lines[key] for key, name in _DETAILS.items() if self.lines.get(key)}


def read_header(head: bytes) -> PropheseeHeader:
    """Parses the lines that `head`, the start of a file, begins with.

    The lines end with `% end`, or before the first line that is no text after a `%`: what follows may be anything.
    """
    lines: dict[str, str] = {}
    position = 0
    while head.startswith(b"%", position) and len(lines) < _MOST_LINES:
        end = head.find(b"\n", position, position + _LONGEST_LINE)
        if end < 0:
            break
        text = _text(head[position + 1 : end])
        if text is None:
            break
        position = end + 1
        key, _, value = text.strip().partition(" ")
        if key.lower() == "end" and not value:
            break
        if key:
            lines[key.lower()] = " ".join(value.split())
    return PropheseeHeader(lines, position)


def _text(line: bytes) -> str | None:
    try:
        text = line.decode("utf-8").replace("\t", " ").rstrip("\r")
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def names(form: str, head: bytes) -> bool:
    """Whether a file that begins with `head` says that it is of format `form`."""
    if not head.startswith(b"%"):
        return False
    header = read_header(head)
    if form != "dat":
        return header.named == form or (header.named in ("raw", "other") and form == "evt2")
    # Type and size of a record follow the lines; there is no other size.
    return header.named == "dat" and head[header.length + 1 : header.length + 2] in (b"\x08", b"")


BLOCK_WORDS = 1 << 17
"""Words decoded at once: intermediate arrays stay in the processor's cache, three to four times faster than all."""

Words = npt.NDArray[Any]
State = TypeVar("State")


class BlockScan(NamedTuple):
    """What a scan says of a block: bounds of its times in µs (None without any), and whether time ran backwards."""

    low_us: int | None
    high_us: int | None
    is_backwards: bool


class Decoded(NamedTuple, Generic[State]):
    """A block's events, the state after it, and how many events have no time or address and were left out."""

    events: EventArray
    state: State
    dropped: int


class WordDecoder(Protocol[State]):
    """A format. A state is all that decoding a block needs from those before it; immutable."""

    name: str
    word: np.dtype[Any]
    start: State

    def decode(self, words: Words, state: State) -> Decoded[State]:
        """A block's events."""

    def scan(self, words: Words, state: State) -> tuple[BlockScan, State]:
        """Only what an index needs."""


@dataclass
class _Index(Generic[State]):
    """States before the blocks 0…len(blocks), and what is known of each."""

    states: list[State]
    blocks: list[BlockScan]


class WordRecording(EventRecording, Generic[State]):
    """An open file of words after a header."""

    def __init__(
        self,
        path: str | Path,
        header: PropheseeHeader,
        start: int,
        decoder: WordDecoder[State],
        block_words: int = BLOCK_WORDS,
    ) -> None:
        found = readable_file(path)
        self.path = str(path)
        self._header = header
        self._start = start
        self._decoder = decoder
        self._block_words = block_words
        self._bytes_read = start
        self._index: _Index[State] = _Index([decoder.start], [])
        self._counts: dict[int, int] = {}
        self._dropped: dict[int, int] = {}
        self._outside = False
        self._bounds: tuple[int | None, int | None] | None = None
        try:
            # Unbuffered: blocks go straight into arrays.
            self._file = raw_file(found)
            self._size = found.stat().st_size
        except OSError as error:
            raise unreadable(path, error) from None
        self._words = max(0, self._size - start) // decoder.word.itemsize

    @property
    def bytes_read(self) -> int:
        return self._bytes_read

    @property
    def info(self) -> RecordingInfo:
        low, high = self._time_bounds()
        width, height = self._header.size or (None, None)
        return RecordingInfo(
            self._decoder.name, self._known_count(), width, height, low, high, self._header.details, self._problems()
        )

    def chunks(self) -> Iterator[EventArray]:
        state = self._decoder.start
        for block in range(self._blocks):
            events, state = self._decode(block, state)
            if len(events):
                yield events

    def read_time(self, start_us: int, stop_us: int) -> EventArray:
        return joined(self._bounded(self._within(start_us, stop_us)))

    def close(self) -> None:
        self._file.close()

    @property
    def _blocks(self) -> int:
        return -(-self._words // self._block_words)

    def _read_words(self, block: int) -> Words:
        """A block as it lies in the file; fewer words when the file has shrunk."""
        if self._file.closed:
            raise UserError(f"{self.path}: the recording was closed; open it again.")
        first = block * self._block_words
        count = min(self._block_words, self._words - first)
        words = np.empty(count, self._decoder.word)
        view = memoryview(words.view(np.uint8).data)
        filled = 0
        try:
            self._file.seek(self._start + first * words.itemsize)
            while filled < len(view) and (count := self._file.readinto(view[filled:])):
                filled += count
        except OSError as error:
            raise unreadable(self.path, error) from None
        self._bytes_read += filled
        return words[: filled // words.itemsize]

    def _decode(self, block: int, state: State) -> tuple[EventArray, State]:
        events, after, self._dropped[block] = self._decoder.decode(self._read_words(block), state)
        self._counts[block] = len(events)
        if len(events) and self._header.size:
            width, height = self._header.size
            self._outside = self._outside or bool(events.x.max() >= width or events.y.max() >= height)
        if block + 1 == len(self._index.states):
            self._index.states.append(after)
        return events, after

    def _scan(self) -> _Index[State]:
        index = self._index
        for block in range(len(index.blocks), self._blocks):
            before = index.states[block]
            found, after = self._decoder.scan(self._read_words(block), before)
            index.blocks.append(found)
            if block + 1 == len(index.states):
                index.states.append(after)
        return index

    def _within(self, start_us: int, stop_us: int) -> Iterator[EventArray]:
        index = self._scan()
        for block, (low, high, _) in enumerate(index.blocks):
            if low is not None and high is not None and low < stop_us and high >= start_us:
                events, _ = self._decode(block, index.states[block])
                yield events if start_us <= low and high < stop_us else events.slice_time(start_us, stop_us)

    def _known_count(self) -> int | None:
        return sum(self._counts.values()) if len(self._counts) == self._blocks else None

    def _time_bounds(self) -> tuple[int | None, int | None]:
        """Exact first and last time: the scan's bounds say in which blocks they must be looked for."""
        if self._bounds is None:
            blocks = [(number, block) for number, block in enumerate(self._scan().blocks)]
            low: int | None = None
            high: int | None = None
            for number, block in sorted(blocks, key=lambda each: _or(each[1].low_us, 1 << 62)):
                if block.low_us is None or (low is not None and block.low_us >= low):
                    break
                if (found := self._decode(number, self._index.states[number])[0].t_min_us) is not None:
                    low = found if low is None else min(low, found)
            for number, block in sorted(blocks, key=lambda each: -_or(each[1].high_us, -(1 << 62))):
                if block.high_us is None or (high is not None and block.high_us <= high):
                    break
                if (found := self._decode(number, self._index.states[number])[0].t_max_us) is not None:
                    high = found if high is None else max(high, found)
            self._bounds = low, high
        return self._bounds

    def _problems(self) -> tuple[str, ...]:
        problems = []
        if rest := (self._size - self._start) % self._decoder.word.itemsize:
            problems.append(
                f"The file ends in the middle of a word ({rest} bytes of it are there); what is whole is read."
            )
        if dropped := sum(self._dropped.values()):
            problems.append(
                f"{dropped:,} events come before the stream's first time or address, or have an impossible address, "
                "and are left out."
            )
        if any(block.is_backwards for block in self._index.blocks):
            problems.append("Time runs backwards in places; events are kept in the file's order.")
        if self._outside:
            width, height = self._header.size or (0, 0)
            problems.append(
                f"Some events lie outside the {width}x{height} pixels that the header names; they are kept."
            )
        return tuple(problems)


def _or(value: int | None, other: int) -> int:
    return other if value is None else value
