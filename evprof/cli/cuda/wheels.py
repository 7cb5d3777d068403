"""The wheels of the CUDA add-on: which there are, and whether a folder holds them whole."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, cast

from evprof.core.errors import UserError
from evprof.core.plain import Plain

MOST_BYTES = 2_000_000_000
"""No file of the add-on is larger: what a FAT stick, a web form or a mail gateway of a lab still takes."""

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Wheel(Plain):
    """One file of the list. `python`: the only version it is for, such as 3.12; None: any."""

    package: str
    version: str
    file: str
    size: int
    sha256: str
    python: str | None = None


@dataclass(frozen=True)
class WheelList(Plain):
    """What the add-on of this version of evprof holds: torch for `cuda`, and the libraries that it needs beside it."""

    torch: str
    cuda: str
    wheels: tuple[Wheel, ...]

    def for_python(self, version: str) -> tuple[Wheel, ...]:
        """Those of one Python, such as 3.12. Raises UserError where there are none."""
        if version not in {wheel.python for wheel in self.wheels}:
            known = ", ".join(sorted({wheel.python for wheel in self.wheels if wheel.python}))
            raise UserError(f"The CUDA add-on is made for Python {known}, and this is {version}.")
        return tuple(wheel for wheel in self.wheels if wheel.python in (None, version))


def locked_wheels() -> WheelList:
    """The list that belongs to this version of evprof. Raises UserError on other machines than it is made for."""
    import assets

    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise UserError("The CUDA add-on is made for Linux on x86-64 only.")
    path = Path(assets.__file__).with_name("cuda") / "wheels.json"
    return WheelList.from_json(json.loads(path.read_text(encoding="utf-8")))


def running_python() -> str:
    """Such as 3.12."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def part_names(wheel: Wheel, most_bytes: int = MOST_BYTES) -> list[str]:
    """The files a wheel is kept in: its own, or numbered parts of at most `most_bytes`."""
    count = -(-wheel.size // most_bytes)
    return [wheel.file] if count <= 1 else [f"{wheel.file}.{number:03}" for number in range(1, count + 1)]


class Joined(io.RawIOBase):
    """Files read as one, one after the other."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._ends: list[int] = []
        for path in paths:
            self._ends.append((self._ends[-1] if self._ends else 0) + path.stat().st_size)
        self._place = 0

    @cached_property
    def _files(self) -> list[io.BufferedReader]:
        return [path.open("rb") for path in self._paths]

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Bytes from the start of the first file."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As in one file."""
        base = (0, self._place, self._ends[-1])[whence]
        self._place = max(base + offset, 0)
        return self._place

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]  # typeshed asks for any buffer
        """Fills `buffer` out of the file that holds the place; 0 at the end of the last."""
        for number, end in enumerate(self._ends):
            if self._place < end:
                file = self._files[number]
                file.seek(self._place - (self._ends[number - 1] if number else 0))
                count = file.readinto(buffer)
                self._place += count
                return count
        return 0

    def close(self) -> None:
        """Closes every file."""
        if not self.closed and "_files" in self.__dict__:
            for file in self._files:
                file.close()
        super().close()


def opened(folder: Path, wheel: Wheel) -> BinaryIO:
    """A wheel of the folder, whole or in parts, checked against its size and hash.

    Raises UserError for one that is missing, unfinished or another file than the list's.
    """
    paths = [folder / wheel.file]
    if not paths[0].is_file():
        paths = sorted(folder.glob(f"{wheel.file}.[0-9][0-9][0-9]"))
    if not paths:
        raise UserError(f"{folder}: {wheel.file} is not there; copy the whole folder of the CUDA add-on.")
    try:
        file: BinaryIO = cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, Joined(paths)), _BLOCK))
        if hash_of(file) != (wheel.size, wheel.sha256):
            file.close()
            raise UserError(f"{folder}: {wheel.file} is damaged or another file; copy the CUDA add-on again.")
        file.seek(0)
    except OSError as error:
        raise UserError(f"{folder}: {wheel.file} cannot be read ({error.strerror}); copy it again.") from None
    return file


def hash_of(file: BinaryIO) -> tuple[int, str]:
    """How many bytes follow, and their SHA-256."""
    digest, size = hashlib.sha256(), 0
    while block := file.read(_BLOCK):
        digest.update(block)
        size += len(block)
    return size, digest.hexdigest()
