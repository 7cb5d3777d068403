"""Where the pages of the documentation lie on this disk."""

from __future__ import annotations

from pathlib import Path

from evprof.loaders.bundled import assets_folder


def site_page(name: str) -> Path | None:
    """A page of the built site, such as "index" or "reference/commands"; None where the site, or that page, is not."""
    path = assets_folder() / "site" / f"{name}.html"
    return path if path.is_file() else None


def page_source(name: str) -> Path | None:
    """The same page as Markdown, in a checkout; None elsewhere, and for pages that are written from the code."""
    path = assets_folder().parent / "docs" / f"{name}.md"
    return path if path.is_file() else None
