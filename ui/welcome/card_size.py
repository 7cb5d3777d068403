"""How wide a session's card on the start page is: the page keeps room for a row of them before there is one."""

from __future__ import annotations

from ui.style.theme import GRID

CARD_PX = 25 * GRID
"""In logical px."""
