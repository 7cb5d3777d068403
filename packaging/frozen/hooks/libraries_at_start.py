"""Runs in both programs before anything else: which libraries are the machine's own, and what programs we start see.

Libraries that belong to the machine (graphics, C++ run time) are taken from it, because its drivers need its own. Where
there are none they come from the bundle's folder `fallback`, so that nothing need be installed. A library that is
loaded answers to its name from then on, whoever asks.
"""

import ctypes
import os
import sys
from pathlib import Path


def _load_libraries(folder: Path) -> None:
    for name in (folder / "order.txt").read_text(encoding="utf-8").split():
        for place in (name, str(folder / name)):
            try:
                ctypes.CDLL(place)
            except OSError:
                continue
            break


def _mend_environment(folder: Path) -> None:
    # A browser that we open must find its own libraries, not ours.
    before = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    if before:
        os.environ["LD_LIBRARY_PATH"] = before
    else:
        os.environ.pop("LD_LIBRARY_PATH", None)
    # Without it this very program, started by itself, would think that it finds its libraries by that variable.
    os.environ["PYINSTALLER_RESET_ENVIRONMENT"] = "1"
    if not Path("/etc/fonts/fonts.conf").exists():
        os.environ.setdefault("FONTCONFIG_FILE", str(folder / "fonts.conf"))


if sys.platform == "linux":
    _folder = Path(vars(sys)["_MEIPASS"], "fallback")
    _load_libraries(_folder)
    _mend_environment(_folder)
