"""What the window's process is made of and how soon it shows itself."""

from __future__ import annotations

import os
import subprocess
import sys

_PROBE = """
import sys
import ui.window.app, ui.window.main_window
from ui.style.theme import ThemeHolder
application = ui.window.app._application()
window = ui.window.main_window.MainWindow(ThemeHolder())
window.painted.connect(application.quit)
window.show()
application.exec()
window.close()
print(sorted(name for name in ("torch", "transformers", "engines", "av", "PIL", "pyqtgraph") if name in sys.modules))
"""


def test_the_window_shows_itself_without_models_or_decoders() -> None:
    """Neither torch nor anything else that is slow or may crash is loaded before, or for, the first paint."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE],
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = done.stdout.strip()
    for name in ("torch", "transformers", "engines", "pyqtgraph"):
        assert f"'{name}'" not in found
