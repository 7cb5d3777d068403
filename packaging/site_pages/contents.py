"""The pages of the site that no file of `docs` holds, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from site_pages import commands, files, reference
from site_pages.root_pages import ROOT_PAGES, root_page

GENERATED: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands.page,
    "reference/settings.md": reference.settings_page,
    "reference/figures.md": reference.figures_page,
    "reference/models.md": reference.models_page,
    "reference/keys.md": reference.keys_page,
    "reference/session.md": reference.session_page,
    "reference/files.md": files.page,
    **{name: partial(root_page, name) for name in ROOT_PAGES},
}
"""Page -> its text."""
