"""What mkdocs calls while it builds: adds the pages made from the code."""

from __future__ import annotations

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

from site_pages.contents import GENERATED  # noqa: E402 - mkdocs loads this file by its path
from site_pages.root_pages import within_site  # noqa: E402


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages made from the code, and the program's icon and typeface."""
    for name, make in GENERATED.items():
        files.append(File.generated(config, name, content=make()))
    for name in ("icons/evprof.svg", "fonts/Inter-Regular.ttf", "fonts/Inter-SemiBold.ttf"):
        place = f"site/{Path(name).name}"
        files.append(File.generated(config, place, content=(ROOT / "assets" / name).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links that lead out of the folder of the pages: to pages of the root, or to nothing that the site holds."""
    return markdown if page.file.generated_by is not None else within_site(markdown, "docs")
