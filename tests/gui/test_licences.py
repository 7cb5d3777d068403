"""About shows version and licence; beside a frozen program also the licences of everything in it, as plain text."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import evprof
from kept import Keep
from ui.help.about import AboutDialog, LicencesDialog

HOSTILE = '<img src="/dev/zero">'


@pytest.fixture
def frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A frozen program's folder with the licences of two parts."""
    folder = tmp_path / "licences"
    (folder / "Qt").mkdir(parents=True)
    (folder / "Qt" / "LGPL.txt").write_text("GNU LESSER GENERAL PUBLIC LICENSE", encoding="utf-8")
    parts = [
        {
            "name": "Qt",
            "version": "6.10",
            "licence": "LGPL-3.0-only",
            "source": "https://qt.invalid",
            "texts": ["Qt/LGPL.txt"],
        },
        {"name": HOSTILE, "version": "1", "licence": "MIT", "kind": "x", "source": None, "texts": ["gone.txt"]},
    ]
    (folder / "licences.json").write_text(json.dumps({"schema_version": 1, "parts": parts}), encoding="utf-8")
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "evprof"))
    return folder


def test_the_licences_of_a_frozen_program(themes, frozen: Path, keep: Keep) -> None:
    dialog = keep(AboutDialog({"device": "a GPU"}, themes, None))
    assert not dialog.licences.isHidden()
    dialog.licences.click()
    (shown,) = dialog.findChildren(LicencesDialog)
    assert [shown.parts.item(row).text() for row in range(2)] == ["Qt 6.10", f"{HOSTILE} 1"]
    assert "Source: https://qt.invalid" in shown.text.toPlainText()
    assert shown.text.toPlainText().endswith("GNU LESSER GENERAL PUBLIC LICENSE")
    shown.parts.setCurrentRow(1)
    assert shown.text.toPlainText().startswith(f"{HOSTILE} 1\nLicence: MIT")
    assert "gone.txt cannot be read" in shown.text.toPlainText()


def test_without_them_there_is_no_button_and_a_damaged_list_is_empty(themes, frozen: Path, monkeypatch, keep) -> None:
    (frozen / "licences.json").write_text('{"parts": [{"name": 3}]}', encoding="utf-8")
    empty = keep(LicencesDialog(frozen))
    assert empty.parts.count() == 0
    monkeypatch.delattr(sys, "frozen")
    dialog = keep(AboutDialog({}, themes, None))
    assert dialog.licences.isHidden()
    assert evprof.__version__
