"""How wide a session's card on the start page is: the page keeps room for a row of them before there is one."""

from __future__ import annotations

CARD_GRIDS = 25
"""In steps of the window's grid."""
