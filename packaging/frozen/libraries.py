"""The machine's own libraries that come along for machines without them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

FALLBACK = (
    *("libgcc_s.so.1", "libstdc++.so.6"),
    # Before those of OpenGL: these bring libX11, which asks for libxcb.
    *("libmd.so.0", "libbsd.so.0", "libXau.so.6", "libXdmcp.so.6", "libxcb.so.1"),
    *("libGLdispatch.so.0", "libEGL.so.1", "libGLX.so.0", "libGL.so.1", "libOpenGL.so.0"),
    *("libwayland-client.so.0", "libwayland-cursor.so.0", "libwayland-egl.so.1", "libdrm.so.2"),
)
"""In the order in which they are loaded: each after those it needs. The programs prefer the machine's own. What loads
them needs libffi, which is therefore none of them."""


def known_libraries() -> dict[str, Path]:
    """Where the loader of this machine finds libraries, by name."""
    listed = ""
    for program in ("ldconfig", "/sbin/ldconfig"):
        try:
            listed = subprocess.run([program, "-p"], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            continue
        break
    found: dict[str, Path] = {}
    for name, kind, path in re.findall(r"^\s*(\S+) \(([^)]*)\) => (.+)$", listed, re.MULTILINE):
        if "x86-64" in kind or "AArch64" in kind:
            found.setdefault(name, Path(path))
    return found
