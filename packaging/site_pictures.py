"""Makes the pictures of the documentation anew, from runs of the bundled pair: python packaging/site_pictures.py

The window draws itself without a display. Pictures have few colours, which keeps all of them below a megabyte.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
COLOURS = 160

SIDE_BY_SIDE = ("--mode", "side-by-side")
TARGET = ("--mode", "target", "--repeat", "3")
SPECULATIVE = ("--mode", "speculative", "--repeat", "3")
EAGLE = ("--mode", "speculative", "--drafter", "evprof-tiny-eagle", "--gamma", "4", "--repeat", "3")
LONG = ("--frames", "32")

SESSIONS = {
    "side-by-side": (SIDE_BY_SIDE,),
    "speculative": (TARGET, SPECULATIVE),
    "all": (TARGET, SPECULATIVE, EAGLE),
    "parallel": (("--mode", "target", *LONG), ("--mode", "parallel-prefill", *LONG)),
}
"""What is measured for the pictures: the runs of each session, of which the last one is shown."""


def main() -> int:
    """Measures, draws, packs."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, runs in SESSIONS.items():
            for words in runs:
                _evprof("run", *words, "-o", str(folder / f"{title}.evprof"))
        for theme in ("light", "dark"):
            _screenshot(folder / "speculative.evprof", folder / f"window-{theme}.png", theme)
        _screenshot(folder / "side-by-side.evprof", folder / "side-by-side.png")
        _screenshot(folder / "parallel.evprof", folder / "parallel-prefill.png")
        for dialog, title in (("clinic", "speculative"), ("comparison", "all")):
            words = (dialog, str(folder / f"{title}.evprof"), str(folder / f"{dialog}.png"))
            subprocess.run(
                [sys.executable, __file__, *words], check=True, env={**os.environ, "QT_QPA_PLATFORM": "offscreen"}
            )
        for picture in sorted(folder.glob("*.png")):
            _pack(picture, PICTURES / picture.name)
    return 0


def _evprof(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "evprof", *words], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def _screenshot(session: Path, picture: Path, theme: str = "light") -> None:
    _evprof("gui", str(session), "--screenshot", str(picture), "--size", "1440x900", "--theme", theme)


def _pack(picture: Path, out: Path) -> None:
    """As few colours as do no harm, packed as well as PNG allows."""
    with Image.open(picture) as drawn:
        few = drawn.convert("RGB").quantize(
            COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE
        )
        few.save(out, optimize=True)
    print(f"{out.relative_to(ROOT)}: {out.stat().st_size / 1000:.0f} kB")


def draw_dialog(name: str, session: Path, picture: Path) -> int:
    """One of the windows beside the main one, with a session opened."""
    from PySide6.QtWidgets import QDialog, QTabWidget

    from ui.style.theme import ThemeHolder, theme_named
    from ui.window import app
    from ui.window.main_window import MainWindow

    application = app._application()
    window = MainWindow(ThemeHolder(theme_named("light")))
    window.open_paths([str(session)], waits=True)
    app.settle(application, window)
    show: dict[str, Callable[[], None]] = {
        "clinic": window.dialogs.show_clinic,
        "comparison": window.dialogs.show_comparison,
    }
    show[name]()
    app.settle(application, window)
    dialog = next(shown for shown in window.findChildren(QDialog) if shown.isVisible())
    dialog.resize(1180, 760)
    if name == "clinic":
        dialog.findChildren(QTabWidget)[0].setCurrentIndex(3)  # break-even
    app.settle(application, window)
    return 0 if dialog.grab().save(str(picture)) else 1


if __name__ == "__main__":
    raise SystemExit(main() if len(sys.argv) == 1 else draw_dialog(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
