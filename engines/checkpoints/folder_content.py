"""What tells one checkpoint folder from any other by its content, wherever it lies; it reads little of large files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from engines.checkpoints.shards import weight_files
from evprof.core.errors import UserError
from evprof.loaders.paths import reason

_SMALL_FILES = ("config.json", "tokenizer.model", "tokenizer.json")
_WHOLE_BYTES = 32 << 20
_BLOCK_BYTES, _BLOCKS = 64 << 10, 128


def folder_content(folder: Path, kept_layers: tuple[int, ...] = ()) -> str:
    """`blake2b:…` of a checkpoint's configuration, tokenizer and weights; `kept_layers` where not all are kept.

    Of weight files above 32 MiB 128 blocks of 64 KiB are read, evenly spread, with the size: two trainings of one
    model differ everywhere. Raises UserError when a file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    if kept_layers:
        digest.update(f"layers {kept_layers}\n".encode())
    try:
        for path in (*(folder / name for name in _SMALL_FILES), *weight_files(folder)):
            if path.is_file():
                _add(digest, path)
    except OSError as error:
        raise UserError(f"{folder}: cannot be read ({reason(error)}); check its permissions.") from None
    return f"blake2b:{digest.hexdigest()}"


def _add(digest: hashlib.blake2b, path: Path) -> None:
    size = path.stat().st_size
    digest.update(f"{path.name} {size}\n".encode())
    with path.open("rb") as file:
        if size <= _WHOLE_BYTES:
            while piece := file.read(1 << 20):
                digest.update(piece)
            return
        for number in range(_BLOCKS):
            file.seek(number * (size - _BLOCK_BYTES) // (_BLOCKS - 1))
            digest.update(file.read(_BLOCK_BYTES))
