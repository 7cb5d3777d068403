"""Colours of a report as CSS variables for both themes, and which variable a series is drawn in."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.core.records import COVERS
from evprof.export.report.parts import PlotSeries
from evprof.view.colors import GROUND_DARK, GROUND_LIGHT, STAGE_COLORS_DARK, STAGE_COLORS_LIGHT, channels, ink_on

UNATTRIBUTED, TOTAL = "unattributed", "total"
"""What has no stage's colour: hatched, and plain."""

FREE = ("decode", "prefill", "vision", "draft", "verify", "preprocess", "load")
"""In which order series without a colour of their own take one."""

_ROLES = {"target": "verify", "draft": "draft"}


def variables(is_dark: bool) -> dict[str, str]:
    """Every variable of one theme: grounds, `--c-STAGE`, and `--on-STAGE`, the ink to write on it."""
    stages = STAGE_COLORS_DARK if is_dark else STAGE_COLORS_LIGHT
    ground = GROUND_DARK if is_dark else GROUND_LIGHT
    return (
        {f"--{name.replace('_', '-')}": color for name, color in ground.items()}
        | {"--group": mixed(ground["line"], ground["text_dim"])}
        | {f"--c-{name}": color for name, color in stages.items()}
        | {f"--on-{name}": ink_on(color) for name, color in stages.items()}
        | {f"--c-{TOTAL}": ground["text_dim"], f"--on-{TOTAL}": ink_on(ground["text_dim"])}
    )


def mixed(first: str, second: str) -> str:
    """The colour halfway between two, as encoded."""
    pairs = zip(channels(first), channels(second), strict=True)
    return "#" + "".join(f"{round(127.5 * (one + other)):02x}" for one, other in pairs)


def series_colors(series: Sequence[PlotSeries]) -> list[tuple[str, ...]]:
    """The colours of each series by name: one, several for what covers several stages, () for unattributed time."""
    taken = {part for entry in series for part in _own_colors(entry)}
    free = [name for name in FREE if name not in taken] or list(FREE)
    found: list[tuple[str, ...]] = []
    place = 0
    for entry in series:
        if UNATTRIBUTED in (entry.color, entry.name):
            found.append(())
        elif own := _own_colors(entry):
            found.append(own)
        else:
            found.append((free[place % len(free)],))
            place += 1
    return found


def _own_colors(series: PlotSeries) -> tuple[str, ...]:
    """By its name where that is of several stages: whatever its colour, such an interval is striped."""
    several = named_colors(series.name.replace(" ", "")) if COVERS in series.name else ()
    return several or named_colors(series.color)


def named_colors(color: str) -> tuple[str, ...]:
    """The stages behind a series' colour: "vision+prefill" has two; () where it names none."""
    parts = tuple(_ROLES.get(name, name) for name in color.split(COVERS))
    return parts if all(name in STAGE_COLORS_LIGHT or name == TOTAL for name in parts) else ()
