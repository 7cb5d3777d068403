"""Draws the pictures of the documentation and fills in what the demo prints: python packaging/site_pictures.py

The window draws itself without a display. Pictures have 256 colours, which keeps all of them below a megabyte.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from evprof.session.opened import open_session

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
PAGE = ROOT / "docs" / "first-ten-minutes.md"
BEGIN, END = "<!-- demo -->\n", "<!-- demo ends -->\n"
"""Between these lines of the page stand the demo's lines."""
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
        demo = folder / "demo.evprof"
        PAGE.write_text(with_demo(PAGE.read_text(encoding="utf-8"), _demo(demo)), encoding="utf-8")
        _screenshot(demo, folder / "demo.png")
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


def with_demo(page: str, lines: str) -> str:
    """The page with these lines in the demo's place."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} has no place between '{BEGIN.strip()}' and '{END.strip()}'.")
    return f"{before}{begin}{lines}{end}{after}"


def _demo(session: Path) -> str:
    """Runs the demo in a folder of its own; what it printed as a block, and on which machine."""
    words = [sys.executable, "-m", "evprof", "demo", "--headless", "-o", session.name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        words, check=True, cwd=session.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    printed = done.stdout.decode().replace(f"{session.parent}{os.sep}", "")
    device = open_session(session).environment["device"]
    machine = f"{os.cpu_count()} cores of an {device} at a load of {os.getloadavg()[0]:.0f}"
    return f"It printed on {machine}:\n\n```text\n{printed}```\n"


def _evprof(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "evprof", *words], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def _screenshot(session: Path, picture: Path, theme: str = "light") -> None:
    _evprof("gui", str(session), "--screenshot", str(picture), "--size", "1440x900", "--theme", theme)


def _pack(picture: Path, out: Path) -> None:
    """256 colours, packed as well as PNG allows."""
    with Image.open(picture) as drawn:
        packed = drawn.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    packed.save(out, optimize=True)
    print(f"{out.relative_to(ROOT)}: {out.stat().st_size / 1000:.0f} kB")


def draw_dialog(name: str, session: Path, picture: Path) -> int:
    """One of the windows beside the main one, with a session opened."""
    from PySide6.QtWidgets import QDialog

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
    app.settle(application, window)
    return 0 if dialog.grab().save(str(picture)) else 1


if __name__ == "__main__":
    raise SystemExit(main() if len(sys.argv) == 1 else draw_dialog(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
