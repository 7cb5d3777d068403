"""Palettes: EventGPT's colours are exact, tables have their ends where they say, and colours can be told apart."""

from __future__ import annotations

import numpy as np
import pytest

from evprof.loaders.pictures.palette import PALETTES


@pytest.mark.parametrize("name", list(PALETTES))
def test_tables_end_where_they_say(name: str) -> None:
    palette = PALETTES[name]
    assert palette.amounts.shape == palette.signed.shape == (256, 3)
    assert tuple(palette.amounts[0]) == palette.none
    assert (tuple(palette.amounts[1]), tuple(palette.amounts[255])) == (palette.ramp[0], palette.ramp[-1])
    assert tuple(palette.signed[128]) == palette.none
    assert (tuple(palette.signed[1]), tuple(palette.signed[255])) == (palette.darker, palette.brighter)
    assert (palette.signed[0] == palette.signed[1]).all()
    with pytest.raises(ValueError, match="read-only"):
        palette.signed[0] = 0


@pytest.mark.parametrize("name", list(PALETTES))
def test_one_event_can_be_told_from_none(name: str) -> None:
    palette = PALETTES[name]
    none = np.array(palette.none, np.int64)
    for color in (palette.darker, palette.brighter, *palette.ramp):
        assert np.abs(np.array(color) - none).sum() > 60
    # Steps along a ramp are small: no bands appear in a picture.
    assert np.abs(np.diff(palette.amounts[1:].astype(int), axis=0)).max() <= 4
