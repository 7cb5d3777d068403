"""Size is a budget: the most lines and files of each folder. A change that needs more takes them from elsewhere."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MOST_LINES = {"evprof": 58_050, "ui": 21_250, "engines": 20_900, "packaging": 4_800, "tests": 69_150}
MOST_FILES = 597
"""Python files of evprof, ui and engines together."""
PRODUCT = ("evprof", "ui", "engines")


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def test_each_folder_keeps_to_its_lines() -> None:
    lines = {
        folder: sum(len(path.read_text(encoding="utf-8").splitlines()) for path in sources(folder))
        for folder in MOST_LINES
    }
    assert {folder: count for folder, count in lines.items() if count > MOST_LINES[folder]} == {}


def test_the_product_keeps_to_its_files() -> None:
    assert sum(len(sources(folder)) for folder in PRODUCT) <= MOST_FILES
