"""What a driving scene shows: eight attributes, each independent of the others and uniform over its values.

Knows nothing of pictures, words or models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

Curvature = Literal["straight", "left", "right"]
Roadside = Literal["trees", "buildings", "fence", "fields"]
Vehicle = Literal["car", "truck", "bus", "motorcycle"]
Motion = Literal["approaching", "moving away", "crossing"]
Daylight = Literal["day", "night"]
Colour = Literal["red", "green", "blue", "grey"]
Balloons = Literal["none", "one", "two", "three"]
Side = Literal["left", "right"]

VALUES: Mapping[str, Sequence[str]] = {
    "curvature": ("straight", "left", "right"),
    "roadside": ("trees", "buildings", "fence", "fields"),
    "vehicle": ("car", "truck", "bus", "motorcycle"),
    "motion": ("approaching", "moving away", "crossing"),
    "daylight": ("day", "night"),
    "colour": ("red", "green", "blue", "grey"),
    "balloons": ("none", "one", "two", "three"),
    "side": ("left", "right"),
}

EVENT_VISIBLE = ("curvature", "roadside", "vehicle", "motion", "balloons", "side")
"""A contrast sensor answers to changes of log intensity: neither illumination nor hue reaches it."""

VIDEO_VISIBLE = tuple(VALUES)


@dataclass(frozen=True, slots=True)
class Attributes:
    """One scene's eight values; every combination of :data:`VALUES` is possible.

    `side` is where the balloons fly, seen from the road; without balloons nothing shows it.
    """

    curvature: str
    roadside: str
    vehicle: str
    motion: str
    daylight: str
    colour: str
    balloons: str = "none"
    side: str = "left"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value not in VALUES[field.name]:
                raise ValueError(f"{field.name} cannot be {value!r}; it is one of {', '.join(VALUES[field.name])}")

    def indices(self) -> list[int]:
        """Position of each value in its row of :data:`VALUES`, in that order."""
        return [VALUES[name].index(getattr(self, name)) for name in VALUES]


def draw(rng: np.random.Generator) -> Attributes:
    """One scene's attributes, drawn independently and uniformly."""
    return Attributes(**{name: str(values[int(rng.integers(len(values)))]) for name, values in VALUES.items()})


def draw_balanced(count: int, rng: np.random.Generator) -> list[Attributes]:
    """``count`` scenes in which each value of an attribute occurs equally often (to within one), in independent orders.

    A constant answer then scores exactly chance, which keeps a control on a few scenes free of sampling noise.
    """
    columns = {name: rng.permutation(np.arange(count) % len(values)) for name, values in VALUES.items()}
    return [
        Attributes(**{name: VALUES[name][int(column[row])] for name, column in columns.items()}) for row in range(count)
    ]


def chance(name: str) -> float:
    """Accuracy of a guess at attribute ``name``."""
    return 1.0 / len(VALUES[name])
