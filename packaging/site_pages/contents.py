"""The pages of the site that no file of `docs` holds, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from site_pages import commands, files, reference
from site_pages.root_pages import ROOT_PAGES, root_page

GENERATED: dict[str, Callable[[], str | None]] = {
    "reference/commands.md": commands.page,
    "reference/settings.md": reference.settings_page,
    "reference/figures.md": reference.figures_page,
    "reference/models.md": reference.models_page,
    "reference/keys.md": reference.keys_page,
    "reference/session.md": reference.session_page,
    "reference/files.md": files.page,
    **{name: partial(root_page, name) for name in ROOT_PAGES},
}
"""Page -> its text; None where there is none (yet)."""

COMING = ("installing.md", "faults.md")
"""Pages of `docs` that others link to and that may not be there; the link is then its words."""
