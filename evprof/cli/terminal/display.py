"""Whether a window could be seen here."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

INVISIBLE_PLATFORMS = ("offscreen", "minimal", "vnc")


def missing_display(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> str | None:
    """One sentence saying why no window can be seen; None when one can.

    `QT_QPA_PLATFORM` naming a platform that draws nowhere counts as having no display.
    """
    variables = os.environ if environment is None else environment
    chosen = variables.get("QT_QPA_PLATFORM", "").split(":")[0]
    if chosen in INVISIBLE_PLATFORMS:
        return f"QT_QPA_PLATFORM={chosen} draws where nobody sees it."
    if platform in ("win32", "darwin") or chosen in ("linuxfb", "eglfs"):
        return None
    if variables.get("DISPLAY") or variables.get("WAYLAND_DISPLAY"):
        return None
    return "this machine has no display (neither DISPLAY nor WAYLAND_DISPLAY is set)."
