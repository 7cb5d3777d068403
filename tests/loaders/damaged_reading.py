"""Reads every file of a folder as an event recording, in a process of its own, and says what did not end well.

Usage: python damaged_reading.py FOLDER. Prints one line of JSON per file: its name and how it ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
from pathlib import Path

from evprof.core.errors import UserError
from evprof.loaders.events.opening import open_recording
from evprof.loaders.events.recording import Recording

SECONDS_PER_FILE = 20
SPARE_BYTES = 200 << 20


def ask_everything(recording: Recording) -> None:
    """Whole, by time and by count, as players and runs do; each refusal is a sentence of its own."""
    info = recording.info
    for ask in (
        recording.read,
        lambda: recording.read_time((info.t_min_us or 0), (info.t_min_us or 0) + 1_000),
        lambda: recording.read_time(-(2**62), 2**62),
        lambda: recording.read_count(0, 10),
        lambda: recording.read_count(2**40, 2**40 + 10),
        recording.origin_us,
    ):
        with contextlib.suppress(UserError):
            ask()


def outcome(path: Path) -> str:
    """ "read", "refused", or what went wrong."""
    signal.alarm(SECONDS_PER_FILE)
    try:
        with open_recording(path) as recording:
            ask_everything(recording)
    except UserError as error:
        return "refused" if "\n" not in error.sentence and len(error.sentence) < 600 else f"rambles: {error.sentence!r}"
    except BaseException as error:  # noqa: BLE001 - a panic of a Rust library is not an Exception
        return f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return "read"


def too_slow(*_: object) -> None:
    """The alarm's answer."""
    raise TimeoutError(f"took longer than {SECONDS_PER_FILE} s")


def peak_bytes() -> int:
    """The most memory this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    """See the top."""
    folder = Path(sys.argv[1])
    signal.signal(signal.SIGALRM, too_slow)
    for path in sorted(folder.glob("good-*")):
        # Brings in what readers import, so that it does not count.
        outcome(path)
    start = peak_bytes()
    for path in sorted(folder.iterdir()):
        ended = outcome(path)
        grown = peak_bytes() - start
        if grown > 10 * path.stat().st_size + SPARE_BYTES:
            print(json.dumps([path.name, f"took {grown >> 20} MiB"]), flush=True)
            os._exit(1)
        print(json.dumps([path.name, ended]), flush=True)


if __name__ == "__main__":
    main()
