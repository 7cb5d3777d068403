"""The files by which a desktop and a shell know evprof: entry, icons, file type, completions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from evprof.session.tables import APPLICATION_ID

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ICON = ROOT / "assets" / "icons" / "evprof.svg"
MIME_TYPE = "application/x-evprof"

ICON_SIZES = (16, 22, 24, 32, 48, 64, 128, 256)
"""Of the PNG files; desktops that draw SVG take that."""

DEBIAN_PLACES = {"zsh/site-functions": "zsh/vendor-completions"}
"""What of a `share` folder is called otherwise in a Debian package."""


def write_share(share: Path) -> list[Path]:
    """Fills a new `share` folder as of a prefix; its files."""
    (share / "applications").mkdir(parents=True)
    shutil.copy(ROOT / "packaging" / "evprof.desktop", share / "applications" / "evprof.desktop")
    _write(share / "mime" / "packages" / "evprof.xml", mime_type().encode())
    for kind, name in (("apps", "evprof"), ("mimetypes", MIME_TYPE.replace("/", "-"))):
        _write(share / "icons" / "hicolor" / "scalable" / kind / f"{name}.svg", ICON.read_bytes())
    _draw_icons(share / "icons" / "hicolor")
    for shell, place in COMPLETIONS.items():
        _write(share / place, _printed("--completions", shell))
    return sorted(path for path in share.rglob("*") if path.is_file())


def mime_type() -> str:
    """The description of the file type; the number by which SQLite's own header tells a session is the program's."""
    text = (HERE / "evprof.xml").read_text(encoding="utf-8")
    return text.replace("@APPLICATION_ID@", f"0x{APPLICATION_ID:08x}")


COMPLETIONS = {
    "bash": "bash-completion/completions/evprof",
    "zsh": "zsh/site-functions/_evprof",
    "fish": "fish/vendor_completions.d/evprof.fish",
}
"""Where each shell looks, in a `share` folder."""


def _printed(*words: str) -> bytes:
    """What `evprof WORDS` prints, by this Python."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "evprof", *words]
    return subprocess.run(argv, stdout=subprocess.PIPE, check=True, env=environment).stdout


def _draw_icons(hicolor: Path) -> None:
    """The icon in all sizes, drawn in a process of its own: Qt wants to be told how to draw before it is loaded."""
    for size in ICON_SIZES:
        for kind in ("apps", "mimetypes"):
            (hicolor / f"{size}x{size}" / kind).mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, str(HERE / "draw_icons.py"), str(ICON), str(hicolor), *map(str, ICON_SIZES)]
    subprocess.run(words, check=True, env=environment)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
