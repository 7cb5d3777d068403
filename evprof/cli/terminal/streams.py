"""Standard streams as they may be found: closed, full, or with a reader that has gone."""

from __future__ import annotations

import io
import os
import sys
import threading
from typing import Any


def open_missing_streams() -> None:
    """Has streams that were closed (`>&-`) lead nowhere, and standard error outlive what it is written to.

    A closed one's number would be given to the next file that is opened: whatever a library prints would go into a
    session.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken, which is this one; children are to have it, too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    output: Any = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if isinstance(output, io.TextIOWrapper):
        whole = output.line_buffering, output.write_through
        output = RememberingStream(output.detach(), "utf-8", "backslashreplace", None, *whole)
    sys.stdout = output
    errors: Any = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    if isinstance(errors, io.TextIOWrapper):
        errors = LastingStream(errors.detach(), encoding="utf-8", errors="backslashreplace", line_buffering=True)
    sys.stderr = errors


class RememberingStream(io.TextIOWrapper):
    """Standard output that remembers why it could not be written: argparse, for one, drops such errors."""

    problem: OSError | None = None

    def write(self, text: str) -> int:
        """Takes `text`. Raises OSError."""
        try:
            return super().write(text)
        except OSError as error:
            self.problem = self.problem or error
            raise

    def flush(self) -> None:
        """Writes what it holds. Raises OSError."""
        try:
            super().flush()
        except OSError as error:
            self.problem = self.problem or error
            raise


class LastingStream(io.TextIOWrapper):
    """Standard error that may be full: nothing that is measured ends because a line about it cannot be written.

    That its reader has gone (`2>&1 | head`) is told to the main thread alone, which then stops in good order.
    """

    def write(self, text: str) -> int:
        """Takes `text`, whatever becomes of it. Raises BrokenPipeError in the main thread."""
        try:
            return super().write(text)
        except OSError as error:
            self._judge(error)
            return len(text)

    def flush(self) -> None:
        """Writes what it holds, if that can be done. Raises BrokenPipeError in the main thread."""
        try:
            super().flush()
        except OSError as error:
            self._judge(error)

    def _judge(self, error: OSError) -> None:
        if isinstance(error, BrokenPipeError) and threading.current_thread() is threading.main_thread():
            raise error


def output_problem() -> OSError | None:
    """Why what was printed on standard output cannot be written; None when all of it is."""
    return getattr(sys.stdout, "problem", None) or _flushed(sys.stdout)


def give_up_streams() -> None:
    """Has streams that cannot be written lead nowhere, so that Python's end does not try again."""
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "problem", None) is None and _flushed(stream) is None:
            continue
        try:
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())
        except (OSError, ValueError):
            continue
        _flushed(stream)


def tell(sentence: str) -> None:
    """A line on standard error, if anybody can have it."""
    try:
        print(sentence.encode("utf-8", "backslashreplace").decode(), file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        give_up_streams()


def _flushed(stream: Any) -> OSError | None:
    try:
        if stream is not None and not stream.closed:
            stream.flush()
    except OSError as error:
        return error
    return None
