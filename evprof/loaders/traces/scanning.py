"""A trace's text piece by piece: lists of entries, and beside them what else the file says of itself.

A piece is cut where a table ends and another begins; what is cut there parses only if the cut lies between two entries.
Where that fails, entries are read one by one, so that everything before a damage is kept.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from evprof.core.budget import Budget
from evprof.core.protocols import Closing
from evprof.core.rows.trace_columns import NONE, TraceDevice, TraceHead
from evprof.loaders.paths import raw_file

_OPTIONS = ("record_shapes", "with_stack", "with_modules", "with_flops", "profile_memory")

HEAD_KEYS = frozenset({"deviceProperties", *_OPTIONS})
"""What is kept of the file's top level."""

_MOST_DEVICES = 64
_LONGEST_TEXT = 200


def head_of(told: Mapping[str, Any]) -> TraceHead:
    """From the values by key; what is missing or odd is left out."""
    devices = told.get("deviceProperties")
    return TraceHead(
        recorded=tuple(option for option in _OPTIONS if told.get(option)),
        devices=tuple(
            _device(place, device)
            for place, device in enumerate(devices[:_MOST_DEVICES] if isinstance(devices, list) else [])
            if isinstance(device, dict)
        ),
    )


def _device(place: int, told: Mapping[str, Any]) -> TraceDevice:
    number, name = told.get("id"), told.get("name")
    number = number if isinstance(number, int) and 0 <= number < _MOST_DEVICES else place
    return TraceDevice(number, name[:_LONGEST_TEXT] if isinstance(name, str) else "")


NOTHING = msgspec.Raw(b"")
"""A table or list that was not written; others are kept as the text they are."""

_LONGEST_NUMBER = 40
_ODD_NUMBERS = re.compile(
    rb"(?<=[:\[,])\s*(?:N/A|[-+]?nan(?:\([^)]*\))?|[-+]?inf(?:inity)?)\s*(?=[,}\]])", re.IGNORECASE
)
"""As C++ prints what is no number, where only a value can stand."""


class Arguments(
    msgspec.Struct,
    gc=False,
    rename={
        "external_id": "External id",
        "older_external_id": "external id",
        "shapes": "Input Dims",
        "older_shapes": "Input dims",
        "registers": "registers per thread",
        "shared_memory": "shared memory",
        "blocks_per_sm": "blocks per SM",
        "occupancy": "est. achieved occupancy %",
        "address": "Addr",
        "allocation": "Bytes",
        "allocated": "Total Allocated",
        "reserved": "Total Reserved",
        "device_type": "Device Type",
        "device_id": "Device Id",
    },
):
    external_id: Any = NONE
    older_external_id: Any = NONE
    correlation: Any = NONE
    shapes: msgspec.Raw = NOTHING
    older_shapes: msgspec.Raw = NOTHING
    device: Any = None
    grid: msgspec.Raw = NOTHING
    block: msgspec.Raw = NOTHING
    registers: Any = NONE
    shared_memory: Any = NONE
    blocks_per_sm: Any = math.nan
    occupancy: Any = math.nan
    bytes: Any = NONE
    address: Any = NONE
    allocation: Any = 0
    allocated: Any = NONE
    reserved: Any = NONE
    device_type: Any = NONE
    device_id: Any = NONE
    name: Any = None
    labels: Any = None


class TraceEntry(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = 0
    args: Arguments | None = None


_LIST = msgspec.json.Decoder(list[TraceEntry])
_ENTRY = msgspec.json.Decoder(TraceEntry)
_FAILURES = (msgspec.MsgspecError, ValueError, RecursionError)


def _whole(digits: str) -> int | None:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else None


PATIENT = json.JSONDecoder(strict=False, parse_constant=lambda _: None, parse_int=_whole)
"""Reads control characters, NaN and numbers of any length. NaN and very long numbers become None."""


def quick_entries(text: bytes) -> list[TraceEntry] | None:
    """The entries between two borders of the list; None where something is unusual, or the borders are none."""
    try:
        return _LIST.decode(b"[%b]" % text)
    except _FAILURES:
        return None


def entry_of(text: bytes) -> TraceEntry | None:
    """The entry of a value, read patiently if it is unusual; None if it is no entry."""
    try:
        return _ENTRY.decode(text)
    except _FAILURES:
        pass
    try:
        plain = json.dumps(PATIENT.decode(text.decode("utf-8", errors="replace")), allow_nan=False, ensure_ascii=False)
        return _ENTRY.decode(plain.encode("utf-8", errors="replace"))
    except _FAILURES:
        return None


_ESCAPES = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\(?=[^u]|u.{4})', re.DOTALL)
"""A backslash of JSON with its letter, or one that begins no escape, such as those of Windows paths."""


def mended(text: bytes) -> bytes:
    """With null in place of what C++ writes for no number, and backslashes that begin no escape as such."""
    escaped = _ESCAPES.sub(lambda escape: escape[0] if len(escape[0]) > 1 else rb"\\", text)
    return _ODD_NUMBERS.sub(b"null", escaped)


RATIO = 50
"""Traces repeat themselves and shrink 10 to 30 times."""

_SPARE_BYTES = 16 << 20


class TraceBytes(Closing):
    """A trace's file, to be read once. `text_bytes` were made of it so far.

    `failure` describes damage of the packing, "" while it is whole. Raises UserError for what unpacks without end.
    """

    def __init__(self, path: Path) -> None:
        self._raw = raw_file(path)
        self.file_bytes = path.stat().st_size
        self.text_bytes = 0
        self.failure = ""
        is_packed = self._raw.read(2) == b"\x1f\x8b"
        self._raw.seek(0)
        self._unpacked = gzip.GzipFile(fileobj=self._raw, mode="rb") if is_packed else None
        self._budget = Budget(str(path), self.file_bytes, RATIO, _SPARE_BYTES)

    def close(self) -> None:
        self._raw.close()

    @property
    def taken_bytes(self) -> int:
        """How much of the file the text so far came from."""
        return self._raw.tell()

    def read(self, size: int) -> bytes:
        """Up to `size` bytes more of the text; b"" only at its end."""
        if self._unpacked is None:
            data = self._raw.read(size)
        else:
            data = self._unpack(self._unpacked, size)
            self._budget.take(len(data))
        self.text_bytes += len(data)
        return data

    def _unpack(self, unpacked: gzip.GzipFile, size: int) -> bytes:
        parts: list[bytes] = []
        try:
            while size > 0 and (part := unpacked.read1(size)):
                parts.append(part)
                size -= len(part)
        except EOFError:
            self.failure = "it ends too early"
        except (zlib.error, gzip.BadGzipFile) as error:
            self.failure = str(error)
        return b"".join(parts)


PIECE_BYTES = 1 << 20
LONGEST_ENTRY_BYTES = 4 << 20
"""Of one entry, or of what is before or after the list: no trace has longer ones."""

NO_JSON = "it is no JSON"
"""The damage of a file that does not even begin like a trace."""

_WINDOWS = (4 << 10, 256 << 10)
"""How far from the end of a piece borders are looked for."""

_MOST_BORDERS = 3
_BORDER = re.compile(rb"\}\s*(?P<comma>,)\s*(?=\{)")
_BETWEEN = re.compile(r"[\s,]*")
_BEGIN = re.compile(rb"(?:\xef\xbb\xbf)?\s*([\[{]?)")
_LIST_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[')


class TraceText:
    """Reads a trace once. `damage` is what ended the reading before the end, "" if nothing did.

    `has_list` is whether a list of entries was found.
    """

    def __init__(self, source: TraceBytes) -> None:
        self._source = source
        self._data, self._at = b"", 0
        self._is_last = False
        self._before = b""
        self._told: dict[str, Any] = {}
        self.damage = ""
        self.has_list = False

    def head(self) -> TraceHead:
        return head_of(self._told)

    def pieces(self) -> Iterator[Sequence[TraceEntry | None]]:
        """The entries, some thousand at a time; None for items that are no entries."""
        try:
            self._find_list()
            if self.has_list:
                yield from self._entries()
                self._read_head()
        except _DamagedTextError as error:
            self.damage = self._source.failure or str(error)
        self.damage = self.damage or self._source.failure

    def _find_list(self) -> None:
        """Moves to the first entry: of a list alone, or of the list `traceEvents`."""
        self._fill()
        begin = _BEGIN.match(self._data)
        if begin is None or not begin[1]:
            raise _DamagedTextError(NO_JSON)
        found = begin if begin[1] == b"[" else None
        while found is None:
            found = _LIST_BEGIN.search(self._data)
            if found is None and (self._is_last or len(self._data) > LONGEST_ENTRY_BYTES):
                return
            if found is None:
                self._fill()
        self.has_list = True
        self._before, self._at = self._data[begin.start(1) : found.end()], found.end()

    def _read_head(self) -> None:
        """What the file says of itself: the text around the list, read as if the list were empty."""
        while not self._is_last and len(self._data) - self._at <= LONGEST_ENTRY_BYTES:
            self._fill()
        text = self._before + b"]" + self._data[self._at :]
        try:
            told = PATIENT.decode(mended(text).decode("utf-8", errors="replace"))
        except (ValueError, RecursionError) as error:
            raise _DamagedTextError(_reason(error)) from None
        self._told = told if isinstance(told, dict) else {}

    def _entries(self) -> Iterator[Sequence[TraceEntry | None]]:
        is_over = False
        while not is_over:
            while len(self._data) - self._at < PIECE_BYTES and not self._is_last:
                self._fill()
            found: Sequence[TraceEntry | None] | None = self._quick()
            if found is None:
                found, is_over = self._one_by_one()
            if found:
                yield found

    def _quick(self) -> list[TraceEntry] | None:
        """Everything up to one of the last borders; None where they are none, and nothing is taken."""
        for comma in self._borders():
            found = quick_entries(self._data[self._at : comma])
            if found is not None:
                self._at = comma + 1
                return found
        return None

    def _borders(self) -> list[int]:
        for window in _WINDOWS:
            start = max(len(self._data) - window, self._at)
            found = [match.start("comma") for match in _BORDER.finditer(self._data, start)]
            if found:
                return found[: -_MOST_BORDERS - 1 : -1]
        return []

    def _one_by_one(self) -> tuple[list[TraceEntry | None], bool]:
        """Entries that are whole in what was read, and whether the list ends after them.

        Raises _DamagedTextError if nothing is whole and nothing more comes.
        """
        found: list[TraceEntry | None] = []
        while True:
            failure = self._take_whole(found)
            if failure is not None and not found:
                self._data, self._at = mended(self._data[self._at :]), 0
                failure = self._take_whole(found)
            if failure is None or found:
                return found, failure is None
            if self._is_last or len(self._data) > LONGEST_ENTRY_BYTES:
                raise _DamagedTextError(failure)
            self._fill()

    def _take_whole(self, found: list[TraceEntry | None]) -> str | None:
        """Appends the entries that are whole. Returns None at the end of the list, or why the next one is not whole."""
        text = self._data.decode("latin-1")  # each byte is a character
        while True:
            between = _BETWEEN.match(text, self._at)
            self._at = between.end() if between else self._at
            if text.startswith("]", self._at):
                self._at += 1
                return None
            try:
                _, end = PATIENT.raw_decode(text, self._at)
            except (ValueError, StopIteration, RecursionError) as error:
                return _reason(error)
            # A number can go on in the next piece.
            if end == len(text) and not self._is_last:
                return "it ends in the middle"
            found.append(entry_of(self._data[self._at : end]))
            self._at = end

    def _fill(self) -> None:
        more = self._source.read(PIECE_BYTES)
        self._is_last = not more
        self._data = self._data[self._at :] + more
        self._at = 0


class _DamagedTextError(Exception):
    """Why the text cannot be read on, as the end of a sentence."""


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return f"{error.msg.lower()}" if isinstance(error, json.JSONDecodeError) else "it ends in the middle"
