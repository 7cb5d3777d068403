"""Tells a video that was cut short from one that is merely short, by what the file says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evprof.core.errors import UserError
from evprof.loaders.paths import opened_file
from evprof.loaders.videos.frame_table import FrameTable

if TYPE_CHECKING:
    from av import VideoStream
    from av.container import InputContainer


def check_complete(name: str, file: Path, container: InputContainer, stream: VideoStream, table: FrameTable) -> None:
    """Raises UserError when the file's own directory speaks of more bytes, or its header of more time, than is there.

    Formats without either (transport streams, bare H.264) cannot be told from shorter videos. To be called after a pass
    over all packets: some directories are read on the way.
    """
    size = file.stat().st_size
    announced = max((entry.pos + entry.size for entry in stream.index_entries), default=0)
    with opened_file(file) as opened:
        head = opened.read(8)
    if head.startswith(b"RIFF"):
        announced = max(announced, int.from_bytes(head[4:], "little"))
    if announced > size:
        raise UserError(
            f"{name}: the video is cut short: it speaks of {announced:,} bytes and has {size:,}; copy it again."
        )
    # Matroska writes its length when it is closed. With sound beside the pictures either may be the longer one.
    if "matroska" in container.format.name and len(container.streams) == 1 and table.is_timed and container.duration:
        start_us = max(0, round(int(table.pts[0]) * table.time_base * 1_000_000))
        missing_us = container.duration - table.duration_us - start_us
        if missing_us > max(container.duration // 20, 250_000):
            raise UserError(
                f"{name}: the video is cut short: {container.duration / 1e6:.1f} s are announced and "
                f"{table.duration_us / 1e6:.1f} s are there; copy it again."
            )
