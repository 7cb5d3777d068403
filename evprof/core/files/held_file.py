"""A file that one process at a time holds: a lock of the operating system's, which ends with whoever holds it.

A name tag can be wrong (clocks are set, process numbers are given again, containers have their own); this cannot. The
file itself means nothing: left behind by a killed program it stops nobody.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from evprof.core.errors import UserError

_PATIENCE_S, _PAUSE_S = 0.3, 0.02
"""Whoever asks whether a file is held holds it for a moment: a writer asks again before it believes the answer."""

_NO_LOCKS = frozenset([errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL])


class HeldError(Exception):
    """Another holds the file."""


class HeldFile:
    """Holds `path` from its making until `release`, or the end of the process. A context manager.

    `is_real` is False where the file system keeps no locks; then nobody is kept out.
    """

    def __init__(self, path: Path) -> None:
        """Makes the file if need be. Raises HeldError while another holds it, OSError when it cannot be made."""
        self.path = path
        self.is_real = True
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | _SAFELY, 0o666)
            try:
                is_locked = self._lock()
                # The one before may have removed the file between our opening and our locking it.
                if is_locked and _is_in_place(self._handle, path):
                    return
                if not is_locked and time.monotonic() > deadline:
                    raise HeldError
            except BaseException:
                os.close(self._handle)
                raise
            os.close(self._handle)
            if not is_locked:
                time.sleep(_PAUSE_S)

    def _lock(self) -> bool:
        try:
            return _try_lock(self._handle)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            self.is_real = False
            return True

    def release(self) -> None:
        """Lets go, and removes the file. Safe to call twice."""
        handle, self._handle = self._handle, -1
        if handle < 0:
            return
        # Removed while it is held, but on Windows: whoever opened it meanwhile sees that it is gone and makes another.
        with contextlib.suppress(OSError):
            if sys.platform != "win32" and _is_in_place(handle, self.path):
                self.path.unlink()
        os.close(handle)
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                self.path.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_held(path: Path) -> bool:
    """Whether somebody holds the file at `path` now. Nothing is made, and nothing waits."""
    try:
        handle = os.open(path, os.O_RDONLY | _SAFELY)
    except OSError:
        return False
    try:
        return not _try_lock(handle, shared=True)
    except OSError:
        return False
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(lock: Path, refusal: str) -> Iterator[None]:
    """Inside, the file `lock` is held. Raises OSError, and UserError(refusal) while another holds it."""
    try:
        held = HeldFile(lock)
    except HeldError:
        raise UserError(refusal) from None
    with held:
        yield


def _is_in_place(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


if sys.platform == "win32":
    import msvcrt

    _SAFELY = os.O_BINARY | os.O_NOINHERIT

    def _try_lock(handle: int, *, shared: bool = False) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

else:
    import fcntl

    _SAFELY = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

    def _try_lock(handle: int, *, shared: bool = False) -> bool:
        # flock, not a POSIX lock: it belongs to this opening of the file, so two writers in one process exclude each
        # other, and no other closing of the file drops it.
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
