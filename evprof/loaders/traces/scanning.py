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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from evprof.core.budget import Budget
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
        "stack": "Call stack",
        "python_id": "Python id",
        "module": "Python module id",
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
    """What is read of an entry's `args`."""

    external_id: Any = NONE
    older_external_id: Any = NONE
    correlation: Any = NONE
    shapes: msgspec.Raw = NOTHING
    older_shapes: msgspec.Raw = NOTHING
    stack: str | None = None
    python_id: Any = None
    module: Any = NONE
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
    """What is read of an entry."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = 0
    args: Arguments | None = None


_FAST: Callable[[bytes], list[TraceEntry]] = msgspec.json.Decoder(list[TraceEntry]).decode
_RAW = {field.encode_name for field in msgspec.structs.fields(Arguments) if field.type is msgspec.Raw}
_FIELDS = {field.encode_name: field.name for field in msgspec.structs.fields(Arguments)}


def quick_entries(text: bytes) -> list[TraceEntry] | None:
    """The entries between two borders of the list; None where something is unusual, or the borders are none."""
    try:
        return _FAST(b"[%b]" % text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def with_numbers(text: bytes) -> bytes:
    """With what C++ writes for no number as null."""
    return _ODD_NUMBERS.sub(b"null", text)


def entry_of(value: object) -> TraceEntry | None:
    """An entry from what Python's reader made of it; None if it is no table."""
    if not isinstance(value, dict):
        return None
    fields: dict[str, Any] = {name: _text(value.get(name)) for name in ("ph", "cat", "name")}
    fields |= {name: value[name] for name in ("pid", "tid", "ts", "dur") if name in value}
    entry = TraceEntry(**fields)
    told = value.get("args")
    if isinstance(told, dict):
        known: dict[str, Any] = {
            _FIELDS[key]: msgspec.Raw(json.dumps(found).encode()) if key in _RAW else found
            for key, found in told.items()
            if key in _FIELDS
        }
        known["stack"] = _text(known.get("stack")) or None
        entry.args = Arguments(**known)
    return entry


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)[:_LONGEST_NUMBER]


def _whole(digits: str) -> int | None:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else None


PATIENT = json.JSONDecoder(strict=False, parse_constant=lambda _: None, parse_int=_whole)
"""Reads control characters, NaN and numbers of any length, which become None."""


RATIO = 50
"""Traces repeat themselves and shrink 10 to 30 times."""

_SPARE_BYTES = 16 << 20


class TraceBytes:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
"""Of one entry or one value beside them: longer ones are no trace's."""

NO_JSON = "it is no JSON"
"""The damage of a file that does not even begin like a trace."""

_WINDOWS = (4 << 10, 256 << 10)
"""How far from the end of a piece borders are looked for."""

_MOST_BORDERS = 3
_BORDER = re.compile(rb"\}\s*(?P<comma>,)\s*(?=\{)")
_BETWEEN = re.compile(r"[\s,]*")
_SPACE = re.compile(r"\s*")


class TraceText:
    """Reads a trace once. `damage` says what ended the reading before the end, "" if nothing did.

    `has_list` is whether a list of entries was found.
    """

    def __init__(self, source: TraceBytes) -> None:
        self._source = source
        self._data, self._at = b"", 0
        self._is_last = self._is_mended = False
        self._known_text: str | None = None
        self._told: dict[str, Any] = {}
        self.damage = ""
        self.has_list = False

    def head(self) -> TraceHead:
        return head_of(self._told)

    def pieces(self) -> Iterator[list[TraceEntry | None] | list[TraceEntry]]:
        """The entries, some thousand at a time; None for items that are no tables."""
        try:
            yield from self._top()
        except _DamagedTextError as error:
            self.damage = self._source.failure or str(error)
        if self._source.failure and not self.damage:
            self.damage = self._source.failure

    def _top(self) -> Iterator[list[TraceEntry | None] | list[TraceEntry]]:
        self._fill()
        if self._data.startswith(b"\xef\xbb\xbf"):
            self._at = 3
        first = self._next()
        if first == "[":
            yield from self._list()
            return
        if first != "{":
            raise _DamagedTextError(NO_JSON)
        self._at += 1
        while (found := self._next(_BETWEEN)) != "}":
            if found != '"':
                raise _DamagedTextError("a key is expected")
            key = str(self._value())
            if self._next() != ":":
                raise _DamagedTextError("a colon is expected")
            self._at += 1
            if self._next() == "[" and key == "traceEvents" and not self.has_list:
                yield from self._list()
            elif key in HEAD_KEYS:
                self._told[key] = self._value()
            else:
                self._value()

    def _list(self) -> Iterator[list[TraceEntry | None] | list[TraceEntry]]:
        self._at += 1
        self.has_list = True
        while True:
            while len(self._data) - self._at < PIECE_BYTES and not self._is_last:
                self._fill()
            found = self._quick()
            if found is not None:
                yield found
                continue
            one_by_one, is_over = self._one_by_one()
            if one_by_one:
                yield one_by_one
            if is_over:
                return

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

        Raises _DamagedTextError once nothing is whole and nothing more is to come.
        """
        found: list[TraceEntry | None] = []
        while True:
            try:
                if self._next(_BETWEEN) == "]":
                    self._at += 1
                    return found, True
                found.append(entry_of(self._value(is_at_once=bool(found))))
            except _MoreNeededError:
                return found, False
            except _DamagedTextError:
                if found:
                    return found, False
                raise

    def _value(self, *, is_at_once: bool = False) -> Any:
        """The value that begins here. `is_at_once`: Raises _MoreNeededError rather than read on."""
        while True:
            try:
                found, end = self._scanned()
            except (ValueError, StopIteration, RecursionError) as error:
                failure = _told(error)
            else:
                # A number may go on in the next piece.
                if end < len(self._data) or self._is_last:
                    piece = self._data[self._at : end]
                    self._at = end
                    return found if piece.isascii() else _of_utf8(piece, found)
                failure = "it ends in the middle"
            if is_at_once and not self._is_last:
                raise _MoreNeededError
            if self._is_last or len(self._data) - self._at > LONGEST_ENTRY_BYTES:
                raise _DamagedTextError(failure)
            self._fill()

    def _scanned(self) -> tuple[Any, int]:
        """What Python's reader makes of the text from here on, as Latin-1: a character for each byte."""
        try:
            return PATIENT.raw_decode(self._text, self._at)
        except (ValueError, StopIteration):
            if self._is_mended:
                raise
            self._data = self._data[: self._at] + with_numbers(self._data[self._at :])
            self._known_text, self._is_mended = None, True
            return PATIENT.raw_decode(self._text, self._at)

    def _next(self, between: re.Pattern[str] = _SPACE) -> str:
        """The next character that is no space. Raises _DamagedTextError at the end."""
        while True:
            match = between.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._data):
                return self._text[self._at]
            if self._is_last:
                raise _DamagedTextError("it ends in the middle")
            self._fill()

    @property
    def _text(self) -> str:
        if self._known_text is None:
            self._known_text = self._data.decode("latin-1")
        return self._known_text

    def _fill(self) -> None:
        """A piece more, without what is done with."""
        more = self._source.read(PIECE_BYTES)
        self._is_last = not more
        self._data = self._data[self._at :] + more
        self._at = 0
        self._known_text, self._is_mended = None, False


class _DamagedTextError(Exception):
    """Why the text cannot be read on, as the end of a sentence."""


class _MoreNeededError(Exception):
    """What is asked for is not whole in what was read."""


def _told(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return f"{error.msg.lower()}" if isinstance(error, json.JSONDecodeError) else "it ends in the middle"


def _of_utf8(piece: bytes, found: Any) -> Any:
    try:
        return PATIENT.decode(piece.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return found
