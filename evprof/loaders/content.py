"""Content hashes of files and folders, so that a session can tell whether its samples are still the ones it saw."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.vocabulary.settings import choices_of
from evprof.loaders.paths import opened_file, reason
from evprof.loaders.pictures.frame_folder import frame_paths, is_frame_set

_CHUNK_BYTES = 1 << 20
_cache: dict[tuple[str, int, int, int, int], str] = {}
_cache_lock = threading.Lock()


def content_hash(path: str | Path, *, most_bytes: int | None = None) -> str:
    """`sha256:…` of a file's bytes, or of the relative file names of a folder or set of frames and their hashes.

    Files are read in pieces; a file is read again only when its path, size, times or inode changed. Raises
    UserError when something cannot be read, or is larger than `most_bytes` in all.
    """
    found = Path(path)
    try:
        files = content_files(found)
        if most_bytes is not None and sum(file.stat().st_size for file in files.values()) > most_bytes:
            raise UserError(f"{path}: is larger than the {most_bytes >> 20:,} MiB that are read for a hash.")
        return f"sha256:{_file_digest(found) if found.is_file() else _files_digest(files)}"
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({reason(error)}); check the path and its permissions.") from None


def content_files(path: str | Path) -> dict[str, Path]:
    """The files of a folder or set of frames by relative name; of a file itself alone. Raises OSError."""
    found = Path(path)
    if found.is_dir():
        return {entry.relative_to(found).as_posix(): entry for entry in found.rglob("*") if entry.is_file()}
    if is_frame_set(found):
        return {entry.name: entry for entry in frame_paths(found)}
    return {found.name: found}


def _files_digest(files: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{_file_digest(files[name])}  {name}\n".encode("utf-8", errors="surrogateescape"))
    return digest.hexdigest()


def _file_digest(path: Path) -> str:
    status = path.stat()
    key = (str(path.resolve()), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    with _cache_lock:
        known = _cache.get(key)
    if known is not None:
        return known
    digest = hashlib.sha256()
    with opened_file(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    with _cache_lock:
        _cache[key] = digest.hexdigest()
    return digest.hexdigest()


OFF, WARM, COLD = choices_of("prefetch")

_WARMING_BYTES = 4 << 20
_MEMORY_SHARE = 0.5
"""Of the memory that is free: what is read beyond it would drive out what was read first."""


def prefetch(paths: Iterable[str | Path], how: str, is_stopped: Callable[[], bool] = lambda: False) -> list[str]:
    """Warms or drops these files, and the files directly in these folders; what was not possible, in sentences.

    Files that cannot be opened are passed over: whoever reads them says so.
    """
    if how == OFF:
        return []
    files = [file for path in paths for file in _files(path)]
    return _warm(files, is_stopped) if how == WARM else _drop(files)


def _files(path: str | Path) -> Iterator[Path]:
    from evprof.loaders.pictures.frame_folder import frame_paths, is_frame_set

    found = Path(path)
    try:
        if is_frame_set(found):
            yield from frame_paths(found)
        elif found.is_dir():
            yield from (entry for entry in found.iterdir() if entry.is_file())
        elif found.is_file():
            yield found
    except (OSError, UserError):
        return


def _warm(files: list[Path], is_stopped: Callable[[], bool]) -> list[str]:
    left = int(_free_bytes() * _MEMORY_SHARE)
    buffer = bytearray(_WARMING_BYTES)
    for number, path in enumerate(files):
        try:
            size = path.stat().st_size
            if size > left:
                others = f" and {len(files) - number - 1:,} more" if number + 1 < len(files) else ""
                return [
                    f"{path}{others} would take more than half of the free memory, so not all of the input was read "
                    "ahead; its bytes may come from the disk."
                ]
            left -= size
            with path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    if is_stopped():
                        return []
        except OSError:
            continue
    return []


def _drop(files: list[Path]) -> list[str]:
    if not hasattr(os, "posix_fadvise"):
        return [
            "This system cannot drop files from its page cache, so nothing was read cold; --prefetch warm works here."
        ]
    for path in files:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        try:
            # Only what is on the disk already can be dropped.
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return []


def _free_bytes() -> int:
    import psutil

    return int(psutil.virtual_memory().available)
