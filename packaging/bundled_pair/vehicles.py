"""Outlines of the four vehicles, in metres, seen from the front, from behind and from the side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bundled_pair.materials import Material

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A filled polygon, or an ellipse given by two opposite corners; x to the right, y up from the ground, metres."""

    material: Material
    points: Points
    round: bool = False


def box(material: Material, left: float, bottom: float, right: float, top: float) -> Shape:
    return Shape(material, ((left, bottom), (right, bottom), (right, top), (left, top)))


def disc(material: Material, x: float, y: float, radius: float) -> Shape:
    return Shape(material, ((x - radius, y + radius), (x + radius, y - radius)), round=True)


def _lamps(view: str, half_width: float, height: float, size: float) -> list[Shape]:
    """Two round headlamps inside the body, or two upright tail lamps at its edges."""
    if view == "front":
        return [disc(Material.LAMP, side * (half_width - 1.6 * size), height, size) for side in (-1, 1)]
    return [
        box(Material.TAIL_LAMP, x - 0.5 * size, height - size, x + 0.5 * size, height + 1.4 * size)
        for x in (-half_width + 0.6 * size, half_width - 0.6 * size)
    ]


def _wheels(half_width: float, width: float, height: float) -> list[Shape]:
    return [
        box(Material.TYRE, min(x, x + d), 0.0, max(x, x + d), height)
        for x, d in ((-half_width, width), (half_width, -width))
    ]


def _car_end(view: str) -> list[Shape]:
    cabin = ((-0.85, 0.95), (0.85, 0.95), (0.62, 1.55), (-0.62, 1.55))
    glass = ((-0.7, 1.0), (0.7, 1.0), (0.54, 1.45), (-0.54, 1.45))
    return [
        *_wheels(0.9, 0.3, 0.45),
        box(Material.PAINT, -0.98, 0.25, 0.98, 1.0),
        Shape(Material.PAINT, cabin),
        Shape(Material.GLASS, glass),
        *_lamps(view, 0.98, 0.68, 0.17),
    ]


def _truck_end(view: str) -> list[Shape]:
    shapes = [*_wheels(1.15, 0.45, 0.8), box(Material.CARGO, -1.35, 0.7, 1.35, 3.7)]
    if view == "front":
        shapes += [box(Material.PAINT, -1.2, 0.4, 1.2, 2.5), box(Material.GLASS, -1.05, 1.5, 1.05, 2.3)]
    else:
        shapes += [box(Material.PAINT, -1.35, 0.4, 1.35, 1.3), box(Material.TYRE, -0.05, 1.3, 0.05, 3.6)]
    return shapes + _lamps(view, 1.2, 0.9, 0.2)


def _bus_end(view: str) -> list[Shape]:
    glass_bottom = 1.3 if view == "front" else 2.0
    return [
        *_wheels(1.15, 0.4, 0.6),
        box(Material.PAINT, -1.3, 0.35, 1.3, 3.2),
        box(Material.GLASS, -1.15, glass_bottom, 1.15, 2.75),
        *_lamps(view, 1.3, 0.8, 0.2),
    ]


def _motorcycle_end(view: str) -> list[Shape]:
    return [
        box(Material.TYRE, -0.12, 0.0, 0.12, 0.65),
        box(Material.PAINT, -0.32, 0.5, 0.32, 1.1),
        box(Material.TYRE, -0.5, 1.02, 0.5, 1.12),
        box(Material.RIDER, -0.34, 1.05, 0.34, 1.6),
        disc(Material.PAINT, 0.0, 1.78, 0.2),
        *(
            [disc(Material.LAMP, 0.0, 0.85, 0.17)]
            if view == "front"
            else [box(Material.TAIL_LAMP, -0.2, 0.75, 0.2, 0.95)]
        ),
    ]


def _car_side() -> list[Shape]:
    cabin = ((-1.3, 0.9), (1.2, 0.9), (0.7, 1.55), (-0.9, 1.55))
    return [
        box(Material.PAINT, -2.1, 0.3, 2.1, 0.95),
        Shape(Material.PAINT, cabin),
        box(Material.GLASS, -0.85, 0.98, -0.05, 1.42),
        box(Material.GLASS, 0.1, 0.98, 0.72, 1.42),
        *(disc(Material.TYRE, x, 0.38, 0.38) for x in (-1.3, 1.3)),
    ]


def _truck_side() -> list[Shape]:
    return [
        box(Material.TYRE, -3.1, 0.45, 3.0, 0.75),
        box(Material.CARGO, -3.2, 0.8, 1.5, 3.7),
        box(Material.PAINT, 1.65, 0.45, 3.2, 2.6),
        box(Material.GLASS, 2.3, 1.6, 3.1, 2.4),
        *(disc(Material.TYRE, x, 0.5, 0.5) for x in (-2.3, -1.1, 2.4)),
    ]


def _bus_side() -> list[Shape]:
    windows = [box(Material.GLASS, x, 1.6, x + 0.85, 2.7) for x in (-3.3, -2.2, -1.1, 0.0, 1.1, 2.2)]
    return [
        box(Material.PAINT, -3.5, 0.35, 3.5, 3.2),
        *windows,
        *(disc(Material.TYRE, x, 0.5, 0.5) for x in (-2.3, 2.3)),
    ]


def _motorcycle_side() -> list[Shape]:
    return [
        *(disc(Material.TYRE, x, 0.36, 0.36) for x in (-0.75, 0.75)),
        Shape(Material.PAINT, ((-0.8, 0.75), (0.1, 0.4), (0.75, 0.6), (0.5, 1.05), (-0.7, 0.95))),
        Shape(Material.RIDER, ((-0.4, 0.95), (0.1, 0.95), (0.4, 1.5), (0.0, 1.65), (-0.4, 1.3))),
        disc(Material.PAINT, 0.22, 1.78, 0.2),
    ]


_END = {"car": _car_end, "truck": _truck_end, "bus": _bus_end, "motorcycle": _motorcycle_end}
_SIDE = {"car": _car_side, "truck": _truck_side, "bus": _bus_side, "motorcycle": _motorcycle_side}


def outline(vehicle: str, view: str) -> Sequence[Shape]:
    """Shapes of ``vehicle`` from ``view`` (front, rear or side, the side one facing right), to be painted in order."""
    return _SIDE[vehicle]() if view == "side" else _END[vehicle](view)
