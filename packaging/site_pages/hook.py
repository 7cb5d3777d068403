"""What mkdocs calls while it builds: adds the pages made from the code, leaves out of the list what is not there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
for folder in (str(ROOT), str(ROOT / "packaging")):
    if folder not in sys.path:
        sys.path.insert(0, folder)

from site_pages.contents import COMING, GENERATED  # noqa: E402 - mkdocs loads this file by its path
from site_pages.root_pages import within_site  # noqa: E402


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Leaves out of the list of pages those that are not there."""
    there = {name for name, make in GENERATED.items() if make() is not None}
    config.nav = [_kept(entry, there | _on_disk()) for entry in config.nav or []]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages made from the code, and the program's icon and typeface."""
    for name, make in GENERATED.items():
        text = make()
        if text is not None:
            files.append(File.generated(config, name, content=text))
    for name in ("icons/evprof.svg", "fonts/Inter-Regular.ttf", "fonts/Inter-SemiBold.ttf"):
        place = f"site/{Path(name).name}"
        files.append(File.generated(config, place, content=(ROOT / "assets" / name).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links that lead out of the folder of the pages: to pages of the root, or to nothing that the site holds."""
    if page.file.generated_by is None:
        markdown = within_site(markdown, "docs")
    for name in COMING:
        if name not in _on_disk():
            markdown = re.sub(rf"\[([^\]]*)\]\((?:\.\./)?{re.escape(name)}(?:#[\w-]*)?\)", r"\1", markdown)
    return markdown


def _on_disk() -> set[str]:
    return {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}


def _kept(entry: Any, there: set[str]) -> Any:
    """An entry of the list of pages, without what is not there."""
    if isinstance(entry, dict):
        return {
            head: [kept for part in below if (kept := _kept(part, there))] if isinstance(below, list) else below
            for head, below in entry.items()
            if isinstance(below, list) or below in there
        }
    return entry if entry in there else None
