"""The one place that says whether a path is an ordinary file, asked before anything is opened.

Opening a named pipe waits for ever, and a device such as /dev/zero never ends: both can lie in a folder from elsewhere.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from evprof.core.errors import UserError


def regular_file(path: str | Path, remedy: str = "copy it to one first") -> Path:
    """The path of an existing ordinary file; links are followed. Raises UserError for a missing file, a folder, a pipe,
    a device or a socket, with `remedy` as the way out where the path is there."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; check the path.") from None
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{path}: cannot be reached ({words}); check the path and its permissions.") from None
    if stat.S_ISDIR(mode):
        raise UserError(f"{path}: is a folder, where a file is expected; name the file in it.")
    if not stat.S_ISREG(mode):
        raise UserError(f"{path}: is {_kind(mode)}, no ordinary file; {remedy}.")
    return Path(path)


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"
