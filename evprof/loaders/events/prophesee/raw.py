"""Opens RAW captures (EVT2, EVT2.1, EVT3) and DAT: the header, the choice of the decoder, and blocks of words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.events.blocks import Scan, StatefulRecording
from evprof.loaders.events.prophesee.evt2 import Dat, Evt2, Evt21, WordDecoder, Words, looks_legacy
from evprof.loaders.events.prophesee.evt3 import Evt3
from evprof.loaders.events.recording import EventRecording, FileBytes, RecordingInfo

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
        name = self.lines.get("sensor_name", "")
        return {"sensor": name} if name else {}


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

_LOOKED_AT = 64 * 1024
_EVT2_TYPES = np.isin(np.arange(16), (0, 1, 8, 10, 14, 15))
_EVT3_TYPES = np.isin(np.arange(16), (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 15))
_DAT_CHANGES, _DAT_BYTES = (0x00, 0x0C), 8
"""Types of DAT records that are changes of contrast, and the size of a record."""

State = TypeVar("State")


def open_raw(path: str | Path, block_words: int = BLOCK_WORDS) -> EventRecording:
    """An open RAW file of any of the three encodings. Raises UserError."""
    file = FileBytes(path)
    with file.kept():
        header = read_header(file.at(0, LONGEST_HEADER))
        named = header.named
        if named == "other":
            encoding = (header.lines.get("format") or header.lines.get("evt", "")).split(";")[0][:40]
            raise UserError(
                f"{path}: is RAW in '{encoding}', which is not read; convert it to EVT2, EVT2.1 or EVT3 with the "
                "camera's software."
            )
        begin = file.at(header.length, _LOOKED_AT)
        return WordRecording(file, header, header.length, _raw_decoder(path, header, begin), block_words)


def _raw_decoder(path: str | Path, header: PropheseeHeader, begin: bytes) -> WordDecoder[Any]:
    words = np.frombuffer(begin[: len(begin) // 8 * 8], "<u8")
    match _encoding(begin) if header.named == "raw" else header.named:
        case "evt2":
            return Evt2(header.offset_us)
        case "evt2.1":
            is_legacy = looks_legacy(words) if header.is_legacy is None else header.is_legacy
            return Evt21(header.offset_us, is_legacy=is_legacy)
        case "evt3":
            return Evt3(header.offset_us)
    raise UserError(
        f"{path}: its header does not name EVT2, EVT2.1 or EVT3, and its words look like none of them; convert it with "
        "the camera's own software."
    )


def _encoding(begin: bytes) -> str | None:
    """EVT2 or EVT3, by the types of the first words: old headers name neither."""
    words = np.frombuffer(begin[: len(begin) // 4 * 4], "<u4")

    def fits(kinds: npt.NDArray[Any], known: npt.NDArray[np.bool_]) -> bool:
        return len(kinds) > 0 and bool((kinds == 8).any()) and float(known[kinds].mean()) > 0.999

    if fits(words >> 28, _EVT2_TYPES):
        return "evt2"
    return "evt3" if fits(words.view("<u2") >> 12, _EVT3_TYPES) else None


def open_dat(path: str | Path, block_words: int = BLOCK_WORDS) -> EventRecording:
    """An open DAT file of pixel changes. Raises UserError."""
    file = FileBytes(path)
    with file.kept():
        header = read_header(file.at(0, LONGEST_HEADER))
        record = file.at(header.length, 2)
        if len(record) < 2:
            raise UserError(f"{path}: ends within its header; copy or record it again.")
        kind, size = record
        if size != _DAT_BYTES:
            raise UserError(
                f"{path}: its records are {size} bytes long, where DAT has {_DAT_BYTES}; the file is damaged."
            )
        if kind not in _DAT_CHANGES:
            raise UserError(
                f"{path}: holds records of type 0x{kind:02X} (triggers are 0x0E), not pixel changes; give the CD file."
            )
        text = header.lines.get("version", "2")
        if text not in ("1", "1.0", "2", "2.0"):
            raise UserError(f"{path}: is DAT of version '{text[:20]}'; versions 1 and 2 are read.")
        decoder = Dat(header.offset_us, version=int(text[0]))
        return WordRecording(file, header, header.length + 2, decoder, block_words)


class WordRecording(StatefulRecording[State]):
    """An open file of words after a header. It is not mapped: a mapped file that shrinks ends the program."""

    def __init__(
        self, file: FileBytes, header: PropheseeHeader, start: int, decoder: WordDecoder[State], block_words: int
    ) -> None:
        super().__init__(file)
        self._header = header
        self._decoder = decoder
        self._block_bytes = block_words * decoder.word.itemsize
        self._dropped: dict[int, int] = {}
        self._is_outside = False
        self._rest = max(0, file.size - start) % decoder.word.itemsize
        self._begin_at(start, decoder.start, file.size - self._rest)

    @property
    def info(self) -> RecordingInfo:
        """The number of events is known only after decoding all of the file."""
        limits = self._limits_us
        width, height = self._header.size or (None, None)
        details = self._header.details
        return RecordingInfo(self._decoder.name, None, width, height, *limits, details, self._problems())

    def _words(self, place: int) -> Words:
        return np.frombuffer(self._file.at(place, min(self._block_bytes, self._end - place)), self._decoder.word)

    def _block(self, place: int, state: State) -> tuple[EventArray, int, State]:
        words = self._words(place)
        events, after, self._dropped[place] = self._decoder.decode(words, state)
        if len(events) and self._header.size:
            width, height = self._header.size
            self._is_outside = self._is_outside or bool(events.x.max() >= width or events.y.max() >= height)
        return events, place + words.nbytes, after

    def _scan(self, place: int, state: State) -> Scan[State]:
        words = self._words(place)
        low_us, high_us, after = self._decoder.scan(words, state)
        return Scan(low_us, high_us, place + words.nbytes, after)

    def _problems(self) -> tuple[str, ...]:
        problems = []
        if self._rest:
            problems.append(
                f"The file ends in the middle of a word ({self._rest} bytes of it are there); what is whole is read."
            )
        if dropped := sum(self._dropped.values()):
            problems.append(
                f"{dropped:,} events come before the stream's first time or address, or have an impossible address, "
                "and are left out."
            )
        if self._is_outside:
            width, height = self._header.size or (0, 0)
            problems.append(
                f"Some events lie outside the {width}x{height} pixels that the header names; they are kept."
            )
        return tuple(problems)
