"""The *Help* menu: the pages on this disk, their source where they are not built, a sentence where neither is."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QWidget

from evprof.loaders import bundled
from kept import Keep
from ui.help.help_pages import CONTENTS, TROUBLESHOOTING, HelpPages
from ui.widgets.text_dialogs import ProblemsDialog

PAGES = (CONTENTS, TROUBLESHOOTING)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What would be shown by the browser."""
    found: list[str] = []

    def take(url) -> bool:
        found.append(url.toLocalFile())
        return True

    monkeypatch.setattr(QDesktopServices, "openUrl", take)
    return found


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the program lies, without any page."""
    monkeypatch.setattr(bundled, "assets_folder", lambda: tmp_path / "assets")
    return tmp_path


def put(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("a page")
    return str(path)


@pytest.mark.parametrize("name", PAGES)
def test_the_built_page_comes_first(name: str, program: Path, opened: list[str]) -> None:
    put(program / "docs" / f"{name}.md")
    built = put(program / "assets" / "site" / f"{name}.html")
    HelpPages(pytest.fail).open(name)
    assert opened == [built]


@pytest.mark.parametrize("name", PAGES)
def test_a_checkout_shows_the_source_in_a_window(name: str, program: Path, opened: list[str], keep: Keep) -> None:
    put(program / "docs" / f"{name}.md")
    window = keep(QWidget())
    HelpPages(pytest.fail, window).open(name)
    (dialog,) = window.findChildren(ProblemsDialog)
    assert dialog.text.toPlainText() == "a page"
    assert not opened
