"""How a command ends that something unexpected stopped: the machine in a sentence, a defect in a report."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from evprof.core.errors import FAILURE
from evprof.core.files.user_folders import log_folder
from evprof.core.installation import missing_package
from evprof.core.texts import visible
from evprof.version import __version__

KEPT_REPORTS = 20
"""Older reports are deleted, so that a program that fails in a loop does not fill the disk."""

_OF_THE_MACHINE = frozenset(
    {
        *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ESTALE),
        *(errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EMFILE, errno.ENFILE),
    }
)
"""Errors of the machine and not of our code."""

_OURS = ("evprof", "engines", "ui", "assets")


def tell(sentence: str) -> None:
    """A line on standard error; nothing where it cannot be written."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(visible(sentence).encode("utf-8", "backslashreplace").decode(), file=sys.stderr, flush=True)


def open_missing_streams() -> None:
    """Opens streams that were closed (`>&-`) on the null device.

    The next file that is opened would get the number of a closed one, and whatever a library prints would be written
    into a session.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one; child processes inherit it.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    if getattr(sys.stdout, "write_through", False):
        # With PYTHONUNBUFFERED any print can fail, and argparse ignores that. A buffer fails when it is flushed.
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def output_problem() -> OSError | None:
    """Why standard output cannot be written; None if it can.

    Replaces standard streams that cannot be written with the null device, so that Python's own flush does not fail.
    """
    _flushed(sys.stderr)
    return _flushed(sys.stdout)


def _flushed(stream: TextIO) -> OSError | None:
    try:
        stream.flush()
    except OSError as error:
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
            stream.flush()
        return error
    except (ValueError, AttributeError):  # closed
        return None
    return None


def sentence_of(error: BaseException) -> str | None:
    """What a person can act on, where the machine or the installation is the cause; None for a defect of evprof."""
    match error:
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] not in _OURS:
            return missing_package(name)
        case ImportError() if "cannot open shared object file" in str(error):
            return f"A system library is missing ({str(error).partition(':')[0]}); install the package that holds it."
        case MemoryError():
            return "Memory ran out; close other programs, or choose smaller models or inputs."
        case OSError(errno=int(number)) if number in _OF_THE_MACHINE and not _is_ours(error.filename):
            place = f"'{os.fsdecode(error.filename)}'" if isinstance(error.filename, str | bytes) else "A file"
            return f"{place} cannot be used ({os.strerror(number)})."
    return None


def _is_ours(name: object) -> bool:
    """Whether a file belongs to the installation: a missing one is a defect."""
    if not isinstance(name, str | bytes):
        return False
    root = Path(__file__).resolve().parents[3]
    return any(root / package in Path(os.path.abspath(os.fsdecode(name))).parents for package in _OURS)


def report_crash(error: BaseException, words: list[str]) -> int:
    """Writes a report, says in one line what happened and where the report is, and returns exit code 1."""
    if "--debug" in words:
        tell("".join(traceback.format_exception(error)).rstrip())
        return FAILURE
    path = write_report(error, " ".join(words))
    where = f"the details are in {path}" if path else "the details could not be saved; --debug shows them"
    first_line = (str(error).splitlines() or [""])[0]
    tell(f"evprof: a defect of evprof: {type(error).__name__}: {first_line} ({where}).")
    return FAILURE


def write_report(error: BaseException, activity: str, facts: Sequence[str] = ()) -> Path | None:
    """The traceback, versions, the activity and `facts` as a file; None when no folder takes it."""
    text = "\n".join(
        [
            f"evprof {__version__}, Python {platform.python_version()}, {sys.platform}",
            f"doing: {activity}",
            *facts,
            "",
            *traceback.format_exception(error),
        ]
    )
    name = f"crash-{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}.txt"
    for folder in (log_folder, tempfile.gettempdir):
        try:
            path = Path(folder()) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
            for old in sorted(path.parent.glob("crash-*.txt"))[:-KEPT_REPORTS]:
                old.unlink(missing_ok=True)
        except OSError:  # no such folder, or no file in it
            continue
        return path
    return None
