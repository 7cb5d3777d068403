"""Opens RAW captures: the header names the encoding, or the first words show which it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.loaders.events.prophesee.evt2 import Evt2, Evt21, looks_legacy
from evprof.loaders.events.prophesee.evt3 import Evt3
from evprof.loaders.events.prophesee.word_recording import (
    BLOCK_WORDS,
    LONGEST_HEADER,
    PropheseeHeader,
    WordRecording,
    read_header,
)
from evprof.loaders.events.recording import EventRecording
from evprof.loaders.paths import first_bytes

_LOOKED_AT = 64 * 1024
_EVT2_TYPES = np.isin(np.arange(16), (0, 1, 8, 10, 14, 15))
_EVT3_TYPES = np.isin(np.arange(16), (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 15))


def open_recording(path: str | Path, block_words: int = BLOCK_WORDS) -> EventRecording:
    """An open RAW file of any of the three encodings. Raises UserError."""
    header = read_header(first_bytes(path, LONGEST_HEADER))
    named = header.named
    if named == "other":
        encoding = (header.lines.get("format") or header.lines.get("evt", "")).split(";")[0][:40]
        raise UserError(
            f"{path}: is RAW in '{encoding}', which is not read; convert it to EVT2, EVT2.1 or EVT3 with the camera's "
            "software."
        )
    if named == "raw":
        named = _seen(first_bytes(path, _LOOKED_AT, header.length))
    match named:
        case "evt2":
            return WordRecording(path, header, header.length, Evt2(header.offset_us), block_words)
        case "evt2.1":
            is_legacy = _is_legacy(path, header)
            return WordRecording(path, header, header.length, Evt21(is_legacy, header.offset_us), block_words)
        case "evt3":
            return WordRecording(path, header, header.length, Evt3(header.offset_us), block_words)
    raise UserError(
        f"{path}: its header does not name EVT2, EVT2.1 or EVT3, and its words look like none of them; convert it with "
        "the camera's own software."
    )


def _is_legacy(path: str | Path, header: PropheseeHeader) -> bool:
    if header.is_legacy is not None:
        return header.is_legacy
    content = first_bytes(path, _LOOKED_AT, header.length)
    return looks_legacy(np.frombuffer(content[: len(content) // 8 * 8], "<u8"))


def _seen(content: bytes) -> str | None:
    """EVT2 or EVT3, by the types that the first words have; old headers name neither."""
    words = np.frombuffer(content[: len(content) // 4 * 4], "<u4")
    if _fits(words >> 28, _EVT2_TYPES):
        return "evt2"
    return "evt3" if _fits(words.view("<u2") >> 12, _EVT3_TYPES) else None


def _fits(kinds: npt.NDArray[Any], known: npt.NDArray[np.bool_]) -> bool:
    return len(kinds) > 0 and bool((kinds == 8).any()) and float(known[kinds].mean()) > 0.999
