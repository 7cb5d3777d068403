"""The text of a JSON file on its way to a strict parser: as it is, or mended where Python and pandas write more.

No text in it may be so long that the parser, which takes the square of its length, would not come back.
"""

from __future__ import annotations

import re
from typing import BinaryIO

from evprof.core.errors import UserError

MAX_TEXT_BYTES = 4 << 20

_WORD = re.compile(rb'"(?:[^"\\]++|\\.)*+(?P<end>"|\\?\Z)|-?Infinity|NaN', re.DOTALL)
_TAIL = re.compile(rb"[A-Za-z-]+\Z")
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


class JsonText:
    """A file to be read as it is. Raises UserError where it goes on for MAX_TEXT_BYTES without a quotation mark."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._unquoted = 0

    def read(self, size: int = -1) -> bytes:
        """`size` bytes more; b"" only at the end."""
        data = self._file.read(size)
        self._unquoted = 0 if b'"' in data else self._unquoted + len(data)
        if self._unquoted > MAX_TEXT_BYTES:
            raise _too_long()
        return data


class MendedJson:
    """The same with NaN and infinities as null and lone surrogates as question marks."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._held = b""

    def read(self, size: int = -1) -> bytes:
        """About `size` bytes more; b"" only at the end."""
        if size == 0:
            return b""
        while True:
            more = self._file.read(size)
            data = self._held + more
            if not more:
                self._held = b""
                return _WORD.sub(_mended, data)
            cut = _cut(data)
            self._held = data[cut:]
            if len(self._held) > MAX_TEXT_BYTES:
                raise _too_long()
            if cut:
                return _WORD.sub(_mended, data[:cut])


def _too_long() -> UserError:
    return UserError(f"a text in it is longer than {MAX_TEXT_BYTES >> 20} MiB, which nothing that is read here holds.")


def _cut(data: bytes) -> int:
    """Where what is whole ends: before a text without its end, or before a word that may go on."""
    for match in _WORD.finditer(data):
        if match["end"] is not None and match["end"] != b'"':
            return match.start()
    tail = _TAIL.search(data, max(0, len(data) - 16))
    return tail.start() if tail else len(data)


def _mended(match: re.Match[bytes]) -> bytes:
    text = match[0]
    if not text.startswith(b'"'):
        return b"null"
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda found: b"?" if found["lone"] else found[0], text)
