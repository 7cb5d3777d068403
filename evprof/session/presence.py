"""The lock beside a session, held as long as its writer lives, and whether its file system supports SQLite's log."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.files.held_file import HeldError, HeldFile, is_held

ENDING = "-lock"
"""Of the name of the lock, after the session's own, as SQLite names its logs."""

_reserved: dict[Path, HeldFile] = {}
_in_use: set[Path] = set()
_registry = threading.Lock()


class Hold:
    """The right to write a session; `is_real` is False where the file system keeps no locks."""

    def __init__(self, held: HeldFile, give_back: Callable[[], None]) -> None:
        self.is_real = held.is_real
        self._give_back: Callable[[], None] | None = give_back

    def release(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()


def lock_path(path: Path) -> Path:
    """The lock of the session at `path`: of the file itself, whichever link leads there."""
    real = path.resolve()
    return real.with_name(real.name + ENDING)


def hold(path: Path) -> Hold:
    """Makes the caller the one writer of `path`. Raises UserError while there is another, and where
    nothing can be written."""
    lock = lock_path(path)
    with _registry:
        if lock in _reserved and lock not in _in_use:
            _in_use.add(lock)
            return Hold(_reserved[lock], lambda: _in_use.discard(lock))
    held = _held(path)
    return Hold(held, held.release)


@contextmanager
def reserved(path: Path) -> Iterator[None]:
    """Inside, only this process writes `path`: one writer after the other, and nobody else in between.

    Raises UserError while another process writes it, and where nothing can be written.
    """
    lock, held = lock_path(path), _held(path)
    with held:
        with _registry:
            _reserved[lock] = held
        try:
            yield
        finally:
            with _registry:
                del _reserved[lock]
                _in_use.discard(lock)


def _held(path: Path) -> HeldFile:
    if not path.parent.is_dir():
        raise UserError(f"{path} cannot be written: the folder {path.parent} does not exist; create it first.")
    try:
        return HeldFile(lock_path(path))
    except HeldError:
        raise UserError(
            f"{path} is being recorded by another evprof; wait until it has ended, or choose another name."
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}; choose another place.") from error


def is_written(path: Path) -> bool:
    """Whether another process, or this one, writes the session at `path` now."""
    return is_held(lock_path(path))


# Network file systems, on which SQLite's write-ahead log does not work.

_KINDS = (
    "nfs nfs3 nfs4 cifs smbfs smb2 smb3 9p afs ncpfs davfs ceph lustre gpfs beegfs glusterfs ocfs2 gfs2 pvfs2 "
    "fuse.sshfs fuse.glusterfs fuse.cephfs fuse.s3fs fuse.gcsfuse fuse.rclone fuse.davfs2"
)
NETWORK_KINDS = frozenset(_KINDS.split())


def network_kind(path: Path, mounts: str | None = None) -> str | None:
    """The kind of network file system `path` is on (`nfs4`), or None on a local one or where nobody can say.

    `mounts` is text as in /proc/mounts, read from there by default; other systems than Linux have none.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
    # The real folder: a link may point from a local disk to a remote one.
    place = path.resolve()
    best, kind = -1, ""
    for fields in map(str.split, mounts.splitlines()):
        # Spaces and the like are octal escapes.
        mount = Path(re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), fields[1])) if len(fields) > 2 else None
        # A later mount on the same point hides the earlier one.
        if mount is not None and place.is_relative_to(mount) and len(mount.parts) >= best:
            best, kind = len(mount.parts), fields[2]
    return kind if kind in NETWORK_KINDS else None
