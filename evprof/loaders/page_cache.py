"""Brings files into the operating system's page cache before they are measured, or drops them from it.

It changes nothing of a file, only where its bytes come from the next time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.vocabulary.settings import choices_of

OFF, WARM, COLD = choices_of("prefetch")

_CHUNK_BYTES = 4 << 20
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
    buffer = bytearray(_CHUNK_BYTES)
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
