"""A file that one process at a time holds: a lock of the operating system's, which ends with whoever holds it.

A name tag can be wrong (clocks are set, process numbers are given again, containers have their own); this cannot. The
file itself means nothing: left behind by a killed program it stops nobody.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any, Self

_PATIENCE_S, _PAUSE_S = 0.3, 0.02
"""Whoever asks whether a file is held holds it for a moment: a writer asks again before it believes the answer."""

_NO_LOCKS = frozenset([errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL])

_LONGEST_TAG = 4096


class HeldError(Exception):
    """Another holds the file; `holder` is its host and pid as far as it says."""

    def __init__(self, holder: dict[str, Any]) -> None:
        super().__init__("held by another")
        self.holder = holder


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
                if is_locked and self._is_in_place():
                    self._say_who()
                    return
                if not is_locked and time.monotonic() > deadline:
                    raise HeldError(_tag_in(self._handle))
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

    def _is_in_place(self) -> bool:
        """The one before may have removed the file between our opening and our locking it."""
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(self.path))
        except OSError:
            return False

    def _say_who(self) -> None:
        with contextlib.suppress(OSError):  # a full disk: the lock holds, it only says less
            os.ftruncate(self._handle, 0)
            os.write(self._handle, json.dumps(name_tag()).encode())

    def release(self) -> None:
        """Lets go, and removes the file. Safe to call twice."""
        handle, self._handle = self._handle, -1
        if handle < 0:
            return
        with contextlib.suppress(OSError):
            # Removed while it is held: whoever opened it meanwhile sees that it is gone and makes another.
            if os.path.samestat(os.fstat(handle), os.stat(self.path)):
                _remove_held(self.path)
        os.close(handle)
        with contextlib.suppress(OSError):
            _remove_after(self.path)

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


def name_tag() -> dict[str, Any]:
    """Who we are, for a sentence: nothing is decided by it."""
    return {"host": socket.gethostname(), "pid": os.getpid()}


def _tag_in(handle: int) -> dict[str, Any]:
    try:
        os.lseek(handle, 0, os.SEEK_SET)
        tag = json.loads(os.read(handle, _LONGEST_TAG))
    except (OSError, ValueError, RecursionError):
        return {}
    return tag if isinstance(tag, dict) else {}


if sys.platform == "win32":
    import msvcrt

    _SAFELY = os.O_BINARY | os.O_NOINHERIT
    _LOCKED_BYTE = 1 << 30
    """Past the end: Windows lets nobody read what is locked, and the tag is to be read."""

    def _try_lock(handle: int, *, shared: bool = False) -> bool:
        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        os.lseek(handle, 0, os.SEEK_SET)
        return True

    def _remove_held(path: Path) -> None:
        """Windows removes no open file."""

    def _remove_after(path: Path) -> None:
        path.unlink()

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

    def _remove_held(path: Path) -> None:
        path.unlink()

    def _remove_after(path: Path) -> None:
        """It is gone already."""
