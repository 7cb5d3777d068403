"""What no defect of evprof ended a command with: a disk, a folder, memory, an installation; as a sentence each."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from evprof.core.installation import missing_package

_OF_THE_MACHINE = {
    errno.EACCES: "choose a place that may be written to and files that may be read",
    errno.EPERM: "choose a place that may be written to and files that may be read",
    errno.EROFS: "choose a place that may be written to",
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "choose a place that takes larger files",
    errno.EIO: "look after the disk or the connection to it",
    errno.ESTALE: "look after the connection to the folder",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOENT: "look whether it is still there",
    errno.ENOTDIR: "choose another place",
    errno.EISDIR: "name a file",
    errno.ELOOP: "choose another place",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENFILE: "close other programs",
}
"""Errors that tell about the machine and not about our code, and the way out."""

_OURS = ("evprof", "engines", "ui", "assets")


def sentence_of(error: BaseException) -> str | None:
    """What a person can act on, where the machine or the installation is to blame; None for a defect of evprof."""
    match error:
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] not in _OURS:
            return missing_package(name)
        case MemoryError():
            return "Memory ran out; close other programs, or choose smaller models or inputs."
        case OSError(errno=int(number)) if number in _OF_THE_MACHINE and not _is_ours(error.filename):
            place = f"'{os.fsdecode(error.filename)}'" if isinstance(error.filename, str | bytes) else "A file"
            return f"{place} cannot be used ({os.strerror(number)}); {_OF_THE_MACHINE[number]}."
    return None


def _is_ours(name: object) -> bool:
    """Whether a file belongs to the installation: that it is missing is no business of the person's."""
    if not isinstance(name, str | bytes):
        return False
    root = Path(__file__).resolve().parents[3]
    return any(root / package in Path(os.path.abspath(os.fsdecode(name))).parents for package in _OURS)
