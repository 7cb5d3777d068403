"""A bundle of three small files, packed as the real one is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from installer.archives import compress, tar
from installer.run_file import decompressor, write_run


def make_run(work: Path, version: str) -> Path:
    """A .run whose program prints its version; it needs 8 KB and holds one file that the next version lacks."""
    folder = work / f"bundle-{version}"
    program = folder / "root" / "opt" / "evprof"
    (program / "share" / "applications").mkdir(parents=True)
    (program / "VERSION").write_text(f"{version}\n")
    for name in ("evprof", "evprof-window"):
        (program / name).write_text(f"#!/bin/sh\necho {name} {version}\n")
        (program / name).chmod(0o755)
    (program / f"only-in-{version}").write_text("x")
    desktop = Path(__file__).parents[1] / "packaging" / "evprof.desktop"
    shutil.copy(desktop, program / "share" / "applications" / "evprof.desktop")
    (program / "share" / "mime" / "packages").mkdir(parents=True)
    (program / "share" / "mime" / "packages" / "evprof.xml").write_text("<x/>")
    data = folder / "data.tar.xz"
    compress(tar(folder / "root", 1_700_000_000, "./opt"), ("xz", "--stdout"), data)
    files = sum(path.is_file() for path in program.rglob("*"))
    out = work / f"evprof-{version}.run"
    values: dict[str, object] = {"VERSION": version, "INSTALLED_KB": 40, "FILES": files}
    write_run(out, data, decompressor(folder, 1_700_000_000), values)
    return out


def run(script: Path, *words: str, home: Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """What the installer does as an ordinary user would call it."""
    environment = {"HOME": str(home), "PATH": path or os.environ["PATH"]}
    return subprocess.run(
        ["sh", str(script), *words], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
