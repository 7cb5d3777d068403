"""How many bytes this process had to fetch from a disk, where the platform counts them: what the page cache lacked."""

from __future__ import annotations

from engines.measuring.proc_file import ProcFile

_COUNTERS = ProcFile("io")
_FIELD = b"\nread_bytes: "


def disk_bytes() -> int | None:
    """Bytes fetched from storage so far, readahead included (Linux); None elsewhere. Takes a few µs."""
    try:
        text = _COUNTERS.read()
    except (OSError, AttributeError):
        return None
    _, found, rest = text.partition(_FIELD)
    return int(rest.split(b"\n", 1)[0]) if found else None


def bytes_since(before: int | None) -> int | None:
    """What was fetched since `before`; None where nothing counts."""
    now = disk_bytes()
    return None if before is None or now is None else now - before
