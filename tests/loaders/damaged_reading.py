"""Reads every file of a folder as an event recording or video, in a process of its own; says what did not end well.

Usage: python damaged_reading.py FOLDER events|video. Prints one line of JSON per file: its name and how it ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from evprof.core.errors import UserError
from evprof.loaders.events.opening import open_recording
from evprof.loaders.events.recording import EventRecording
from evprof.loaders.videos.opening import open_video

SECONDS_PER_FILE = 60
PICTURES = (".png", ".jpg", ".bmp", ".tiff", ".webp")
SPARE_BYTES = 200 << 20


def ask_everything(recording: EventRecording) -> None:
    """Whole, by time and by count, as players and runs do; each refusal is a sentence of its own."""
    info = recording.info
    for ask in (
        recording.read,
        lambda: recording.read_time((info.t_min_us or 0), (info.t_min_us or 0) + 1_000),
        lambda: recording.read_time(-(2**62), 2**62),
        recording.origin_us,
    ):
        with contextlib.suppress(UserError):
            ask()


def read_recording(path: Path) -> None:
    with open_recording(path) as recording:
        ask_everything(recording)


def read_video(path: Path) -> None:
    if path.suffix in PICTURES:
        folder = path.with_name(f"folder of {path.name}")
        folder.mkdir()
        try:
            os.link(path, folder / path.name)
            with open_video(folder) as video:
                video.read_uniform(2)
        finally:
            shutil.rmtree(folder)
        return
    with open_video(path) as video:
        video.index()
        for ask in (
            lambda: video.read_uniform(5),
            lambda: video.read_uniform(3, (100_000, 200_000)),
            lambda: video.read_at([0, 2**60, -(2**60)]),
            video.info,
        ):
            with contextlib.suppress(UserError):
                ask()


def outcome(path: Path, read: Callable[[Path], None]) -> str:
    signal.alarm(SECONDS_PER_FILE)
    try:
        read(path)
    except UserError as error:
        return "refused" if "\n" not in error.sentence and len(error.sentence) < 600 else f"rambles: {error.sentence!r}"
    except BaseException as error:  # noqa: BLE001 - a panic of a Rust library is not an Exception
        return f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return "read"


def too_slow(*_: object) -> None:
    raise TimeoutError(f"took longer than {SECONDS_PER_FILE} s")


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    folder = Path(sys.argv[1])
    read = read_video if sys.argv[2:] == ["video"] else read_recording
    signal.signal(signal.SIGALRM, too_slow)
    for path in sorted(folder.glob("good-*")):
        # Brings in what readers import, so that it does not count.
        outcome(path, read)
    start = peak_bytes()
    for path in sorted(entry for entry in folder.iterdir() if entry.is_file()):
        ended = outcome(path, read)
        grown = peak_bytes() - start
        if grown > 10 * path.stat().st_size + SPARE_BYTES:
            print(json.dumps([path.name, f"took {grown >> 20} MiB"]), flush=True)
            os._exit(1)
        print(json.dumps([path.name, ended]), flush=True)


if __name__ == "__main__":
    main()
