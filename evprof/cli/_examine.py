"""The hidden command `evprof _examine PART`: looks at one part of the installation in a process of its own.

A library that is broken may end the process that loads it; doctor only reads what this prints, if it prints anything.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from evprof.core.errors import USAGE, UserError


def main(words: Sequence[str]) -> int:
    """Prints the facts of one of PARTS as JSON. Raises UserError (exit code 2) for another word."""
    if len(words) != 1 or words[0] not in PARTS:
        raise UserError("evprof _examine is used by evprof doctor, not by people.", exit_code=USAGE)
    json.dump(PARTS[words[0]](), sys.stdout)
    return 0


def _engine() -> dict[str, Any]:
    """Device, driver, versions, threads and GPU state, as the engine sees them."""
    from engines import make_engine

    engine = make_engine()
    try:
        return engine.describe()
    finally:
        engine.close()


def _window() -> dict[str, Any]:
    """Whether Qt loads and can draw, by which platform."""
    # By name, because only ui uses Qt: here it is only asked whether it is there and works.
    core = importlib.import_module("PySide6.QtCore")
    widgets = importlib.import_module("PySide6.QtWidgets")
    plots = importlib.import_module("pyqtgraph")
    application = widgets.QApplication([])
    return {"qt": core.qVersion(), "platform": application.platformName(), "pyqtgraph": plots.__version__}


def _decoders() -> dict[str, Any]:
    """Which of the common video codecs can be decoded."""
    import av

    wanted = ("h264", "hevc", "vp9", "av1", "mpeg4", "mjpeg")
    return {"pyav": av.__version__, "codecs": {name: name in av.codecs_available for name in wanted}}


PARTS: dict[str, Callable[[], dict[str, Any]]] = {"engine": _engine, "window": _window, "decoders": _decoders}
