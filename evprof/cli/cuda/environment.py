"""The CUDA add-on in an environment made by pip: its wheels are installed in place of the CPU torch, offline."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from evprof.cli.cuda.wheels import Wheel, WheelList, opened, running_python
from evprof.core.errors import UserError

_OFFLINE = {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INDEX": "1"}


def install(folder: Path, wheels: WheelList, say: Callable[[str], None]) -> None:
    """Has pip install the wheels of `folder` into this program's environment. Raises UserError when it fails."""
    chosen = wheels.for_python(running_python())
    say("Checking the files of the add-on.")
    with _whole_files(folder, chosen) as files:
        say(f"Installing {len(files)} packages into {sys.prefix}.")
        done = pip("install", "--no-deps", "--force-reinstall", *map(str, files))
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise UserError(f"pip could not install the CUDA add-on: {lines[-1] if lines else 'it said nothing'}")


def pip(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs this environment's pip without an index."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")} | _OFFLINE
    return subprocess.run(
        [sys.executable, "-m", "pip", "--isolated", *words],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


@contextmanager
def _whole_files(folder: Path, wheels: tuple[Wheel, ...]) -> Iterator[list[Path]]:
    """The wheels as files that pip can read; those in parts are put together in a temporary folder."""
    with tempfile.TemporaryDirectory() as temporary:
        files = []
        for wheel in wheels:
            with opened(folder, wheel) as file:
                path = folder / wheel.file
                if not path.is_file():
                    path = Path(temporary, wheel.file)
                    with path.open("wb") as sink:
                        while block := file.read(1 << 20):
                            sink.write(block)
                files.append(path)
        yield files
