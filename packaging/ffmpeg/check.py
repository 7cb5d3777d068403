"""Holds an installed PyAV against what a bundle may hold: an FFmpeg under the LGPL that reads what evprof reads.

Usage: python packaging/ffmpeg/check.py      (in the environment whose PyAV is looked at)
"""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterable
from pathlib import Path

import av
from av._core import library_meta

DECODERS = (
    *("h264", "hevc", "vp8", "vp9", "libdav1d", "mpeg4", "mpeg2video", "mpeg1video"),
    *("mjpeg", "gif", "apng", "png", "ffv1"),
)
GPL = ("x264", "x265", "xvid", "postproc", "vidstab", "rubberband", "frei0r", "davs2", "xavs")
SAMPLES = Path(__file__).parents[2] / "assets" / "samples"


def linked(folder: Path) -> Iterable[str]:
    """The names of all libraries that the files of a folder load."""
    for library in folder.glob("*.so*"):
        said = subprocess.run(["ldd", str(library)], capture_output=True, text=True, check=True).stdout
        yield from (line.split()[0] for line in said.splitlines() if line.split())


def problems() -> list[str]:
    """A sentence for each thing that is not as it must be."""
    found = []
    for name, facts in library_meta.items():
        if not facts["license"].startswith("LGPL version 2.1"):
            found.append(f"{name} is under {facts['license']}")
        if "enable-gpl" in facts["configuration"] or "enable-nonfree" in facts["configuration"]:
            found.append(f"{name} was configured with {facts['configuration']}")
    libraries = set(linked(Path(av.__file__).parents[1] / "av.libs"))
    found += [f"links {name}" for name in sorted(libraries) if any(word in name for word in GPL)]
    found += [f"has {name}" for name in ("libx264", "libx265") if name in av.codecs_available]
    found += [f"cannot read {name}" for name in DECODERS if name not in av.codecs_available]
    for video in sorted(SAMPLES.rglob("*.mp4")):
        with av.open(str(video)) as container:
            if not sum(1 for _ in container.decode(video=0)):
                found.append(f"reads nothing of {video.name}")
    if written_frames() != 5:
        found.append("does not read what it writes")
    return found


def written_frames() -> int:
    """Frames of an MPEG-4 video written and read again."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=30)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for _ in range(5):
            container.mux(stream.encode(av.VideoFrame(32, 32, "yuv420p")))
        container.mux(stream.encode())
    buffer.seek(0)
    with av.open(buffer, "r") as container:
        return len(list(container.decode(video=0)))


def main() -> int:
    """Prints every problem, or what was found."""
    found = problems()
    for problem in found:
        print(f"PyAV {av.__version__} {problem}")
    if not found:
        print(f"PyAV {av.__version__}: {library_meta['libavcodec']['license']}, reads all {len(DECODERS)} formats")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
