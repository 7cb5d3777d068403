"""The pages of the site that no file of `docs` holds, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from site_pages import commands, figures, files, keys, models, session, settings, theory
from site_pages.root_pages import ROOT_PAGES, root_page

GENERATED: dict[str, Callable[[], str | None]] = {
    "reference/commands.md": commands.page,
    "reference/settings.md": settings.page,
    "reference/figures.md": figures.page,
    "reference/models.md": models.page,
    "reference/keys.md": keys.page,
    "reference/session.md": session.page,
    "reference/files.md": files.page,
    "theory.md": theory.page,
    **{name: partial(root_page, name) for name in ROOT_PAGES},
}
"""Page -> its text; None where there is none (yet)."""

COMING = ("installing.md", "faults.md")
"""Pages of `docs` that others link to and that may not be there; the link is then its words."""
