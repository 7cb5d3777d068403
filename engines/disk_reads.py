"""How many bytes this process had to fetch from a disk, where the platform counts them: what the page cache lacked."""

from __future__ import annotations

_COUNTERS = "/proc/self/io"
_FIELD = b"read_bytes:"


def disk_bytes() -> int | None:
    """Bytes fetched from storage so far, readahead included (Linux); None elsewhere."""
    try:
        with open(_COUNTERS, "rb", buffering=0) as file:
            text = file.read(1024)
    except OSError:
        return None
    found = next((line for line in text.splitlines() if line.startswith(_FIELD)), None)
    return None if found is None else int(found[len(_FIELD) :])


def bytes_since(before: int | None) -> int | None:
    """What was fetched since `before`; None where nothing counts."""
    now = disk_bytes()
    return None if before is None or now is None else now - before
