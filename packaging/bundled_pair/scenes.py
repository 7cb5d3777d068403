"""One driving scene as a function of time: attributes, a random layout, and what the camera sees at any instant.

Painting gives a map of materials. What those look like to a colour camera or to a contrast sensor is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from bundled_pair.attributes import VALUES, Attributes
from bundled_pair.materials import Material
from bundled_pair.vehicles import Shape, box, disc, outline

DURATION_S = 1.2
"""Length of the video; the events are a 50 ms window inside it."""

SUPERSAMPLE = 2
_ROAD_HALF_WIDTH_M = 3.6
_FAR_M = 70.0
_BENDS = {"straight": 0.0, "left": -1.0, "right": 1.0}
_VIEWS = {"approaching": "front", "moving away": "rear", "crossing": "side"}


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything a scene leaves to chance; none of it depends on the attributes."""

    bend_per_m: float
    ego_speed_m_s: float
    vehicle_speed_m_s: float
    vehicle_scale: float
    lane_m: float
    nearest_m: float
    crossing_m: float
    facing: int
    camera_height_m: float
    horizon: float
    yaw_per_s: float
    roadside_m: float
    phase_m: float
    seed: int


def draw_layout(rng: np.random.Generator) -> Layout:
    return Layout(
        bend_per_m=rng.uniform(0.016, 0.024),
        ego_speed_m_s=rng.uniform(9.0, 13.0),
        vehicle_speed_m_s=rng.uniform(10.0, 14.0),
        vehicle_scale=rng.uniform(0.92, 1.12),
        lane_m=rng.uniform(-0.9, 0.9),
        nearest_m=rng.uniform(6.2, 7.4),
        crossing_m=rng.uniform(8.5, 10.5),
        facing=int(rng.choice((-1, 1))),
        camera_height_m=rng.uniform(1.5, 1.8),
        horizon=rng.uniform(0.42, 0.48),
        yaw_per_s=rng.uniform(-0.06, 0.06),
        roadside_m=rng.uniform(6.0, 7.5),
        phase_m=rng.uniform(0.0, 8.0),
        seed=int(rng.integers(2**31)),
    )


@dataclass(frozen=True, slots=True)
class Scene:
    """A reproducible scene; two equal scenes paint equal pictures."""

    attributes: Attributes
    layout: Layout

    @property
    def event_start_s(self) -> float:
        """When the 50 ms event recording begins: while the vehicle is near and moves fastest across the picture."""
        if self.attributes.motion == "approaching":
            return DURATION_S - 0.10
        if self.attributes.motion == "moving away":
            return 0.05
        return 0.5 * DURATION_S - 0.025

    def vehicle_at(self, time_s: float) -> tuple[float, float]:
        """Vehicle position (x to the right, z ahead) in metres, in camera coordinates."""
        layout = self.layout
        if self.attributes.motion == "crossing":
            across = layout.facing * 0.55 * layout.vehicle_speed_m_s * (time_s - 0.5 * DURATION_S)
            return across + self.road_centre(layout.crossing_m), layout.crossing_m
        elapsed = time_s if self.attributes.motion == "moving away" else DURATION_S - time_s
        ahead = layout.nearest_m + layout.vehicle_speed_m_s * elapsed
        return self.road_centre(ahead) + layout.lane_m, ahead

    def road_centre(self, ahead_m: float) -> float:
        """Lateral position of the road's centre line (a parabola: constant curvature) at ``ahead_m``."""
        return 0.5 * _BENDS[self.attributes.curvature] * self.layout.bend_per_m * ahead_m**2

    def paint(self, time_s: float, width: int, height: int) -> Image.Image:
        """Material map at ``time_s``: an 8-bit image of ``width`` x ``height`` times :data:`SUPERSAMPLE`."""
        return _Painter(self, time_s, width, height).paint()


def draw_scene(attributes: Attributes, rng: np.random.Generator) -> Scene:
    return Scene(attributes, draw_layout(rng))


class _Painter:
    """Pinhole camera over a flat world, painted from far to near."""

    def __init__(self, scene: Scene, time_s: float, width: int, height: int) -> None:
        self.scene, self.layout, self.time_s = scene, scene.layout, time_s
        self.width, self.height = width * SUPERSAMPLE, height * SUPERSAMPLE
        self.focal = 0.8 * self.width
        self.centre_x = 0.5 * self.width + self.focal * self.layout.yaw_per_s * time_s
        self.horizon_y = self.layout.horizon * self.height
        self.travelled_m = self.layout.ego_speed_m_s * time_s
        self.image = Image.new("L", (self.width, self.height), int(Material.SKY))
        self.canvas = ImageDraw.Draw(self.image)

    def paint(self) -> Image.Image:
        self.canvas.rectangle((0, self.horizon_y, self.width, self.height), fill=int(Material.GRASS))
        self._paint_road()
        vehicle_x, vehicle_z = self.scene.vehicle_at(self.time_s)
        pending = True
        for ahead, side, index in self._roadside_places():
            if pending and ahead < vehicle_z:
                self._paint_vehicle(vehicle_x, vehicle_z)
                pending = False
            self._paint_roadside(ahead, side, index)
        if pending:
            self._paint_vehicle(vehicle_x, vehicle_z)
        self._paint_balloons()
        return self.image

    def project(self, x: float, y: float, z: float) -> tuple[float, float]:
        """Picture position of a point ``x`` right, ``y`` above the ground, ``z`` ahead, metres."""
        scale = self.focal / z
        return self.centre_x + x * scale, self.horizon_y + (self.layout.camera_height_m - y) * scale

    def _strip(self, material: Material, near: float, far: float, left: float, right: float) -> None:
        """A piece of ground between two distances, following the road at lateral offsets ``left`` to ``right``."""
        near_x, far_x = self.scene.road_centre(near), self.scene.road_centre(far)
        corners = ((near_x + left, near), (near_x + right, near), (far_x + right, far), (far_x + left, far))
        self.canvas.polygon([self.project(x, 0.0, z) for x, z in corners], fill=int(material))

    def _paint_road(self) -> None:
        edges = np.geomspace(_FAR_M, 2.0, 26)
        half = _ROAD_HALF_WIDTH_M
        left = [self.project(self.scene.road_centre(z) - half, 0.0, z) for z in edges]
        right = [self.project(self.scene.road_centre(z) + half, 0.0, z) for z in edges[::-1]]
        self.canvas.polygon(left + right, fill=int(Material.ASPHALT))
        for near, far, odd in _stripes(self.travelled_m, period_m=1.5, far_m=45.0):
            kerb = Material.KERB_DARK if odd else Material.KERB_LIGHT
            for offset in (-half - 0.5, half):
                self._strip(kerb, near, far, offset, offset + 0.5)
        for near, far, odd in _stripes(self.travelled_m, period_m=3.0, far_m=40.0):
            if odd:
                self._strip(Material.MARKING, near, far, -0.15, 0.15)

    def _roadside_places(self) -> Iterator[tuple[float, int, int]]:
        """(distance ahead, side, running number) of every roadside object in view, far ones first."""
        spacing = {"trees": 7.0, "buildings": 11.0, "fence": 2.5, "fields": 3.0}[self.scene.attributes.roadside]
        reach = 40.0 if self.scene.attributes.roadside == "fence" else 60.0
        first = int(np.ceil((self.travelled_m + 4.0 - self.layout.phase_m) / spacing))
        last = int(np.floor((self.travelled_m + reach - self.layout.phase_m) / spacing))
        for index in range(last, first - 1, -1):
            ahead = index * spacing + self.layout.phase_m - self.travelled_m
            for side in (-1, 1):
                yield ahead, side, index

    def _paint_roadside(self, ahead: float, side: int, index: int) -> None:
        size = 0.85 + 0.3 * _hash01(self.layout.seed, index, side)
        away = self.layout.roadside_m
        kind = self.scene.attributes.roadside
        if kind == "trees":
            shapes = [
                box(Material.TRUNK, -0.3, 0.0, 0.3, 2.2 * size),
                disc(Material.FOLIAGE, 0.0, 3.9 * size, 2.1 * size),
                disc(Material.FOLIAGE, 0.0, 5.6 * size, 1.4 * size),
            ]
        elif kind == "buildings":
            away += 2.5
            floors = 3 + int(2.99 * _hash01(self.layout.seed, index, side + 7))
            shapes = [box(Material.WALL, -4.0, 0.0, 4.0, 3.0 * floors + 0.6)]
            for floor in range(floors):
                for x in (-3.1, -0.8, 1.5):
                    shapes.append(box(Material.WINDOW, x, 3.0 * floor + 0.9, x + 1.6, 3.0 * floor + 2.5))
        elif kind == "fence":
            self._paint_fence_panel(ahead, side)
            return
        else:
            away += 6.0 * _hash01(self.layout.seed, index, side + 3)
            shapes = [box(Material.FURROW, -1.3 * size, 0.0, 1.3 * size, 0.4 * size)]
        self._paint_shapes(shapes, self.scene.road_centre(ahead) + side * away, ahead, 1.0, 1)

    def _paint_fence_panel(self, ahead: float, side: int) -> None:
        """A post, and three rails to the next post behind it."""
        offset = side * (_ROAD_HALF_WIDTH_M + 1.3)
        behind = ahead + 2.5
        here, there = self.scene.road_centre(ahead) + offset, self.scene.road_centre(behind) + offset
        for low in (0.35, 0.9, 1.45):
            corners = ((here, low, ahead), (here, low + 0.28, ahead), (there, low + 0.28, behind), (there, low, behind))
            self.canvas.polygon([self.project(*corner) for corner in corners], fill=int(Material.POST))
        self._paint_shapes([box(Material.POST, -0.16, 0.0, 0.16, 1.95)], here, ahead, 1.0, 1)

    def _paint_vehicle(self, x: float, z: float) -> None:
        shapes = outline(self.scene.attributes.vehicle, _VIEWS[self.scene.attributes.motion])
        self._paint_shapes(list(shapes), x, z, self.layout.vehicle_scale, self.layout.facing)

    def _paint_balloons(self) -> None:
        """Balloons that drift outwards ahead of the camera, one above the other on one side of the road."""
        attributes, seed = self.scene.attributes, self.layout.seed
        side = -1 if attributes.side == "left" else 1
        places = sorted(range(3), key=lambda place: _hash01(seed, place, 11))
        for place in places[: VALUES["balloons"].index(attributes.balloons)]:
            ahead = 9.0 + 2.0 * _hash01(seed, place, 12)
            away = (0.27 + 0.06 * _hash01(seed, place, 13)) * ahead + 1.6 * (self.time_s - 0.5 * DURATION_S)
            high = self.layout.camera_height_m + (0.09 + 0.115 * place) * ahead
            turned = self.layout.yaw_per_s * self.time_s * ahead
            balloon = [disc(Material.BALLOON_DARK, 0.0, high, 0.5), disc(Material.BALLOON_LIGHT, 0.0, high, 0.34)]
            self._paint_shapes(balloon, side * away - turned, ahead, 1.0, 1)

    def _paint_shapes(self, shapes: Sequence[Shape], x: float, z: float, scale: float, facing: int) -> None:
        """Upright shapes standing on the ground at (x, z), mirrored when ``facing`` is -1."""
        for shape in shapes:
            points = [self.project(x + facing * scale * dx, scale * dy, z) for dx, dy in shape.points]
            if shape.round:
                (x0, y0), (x1, y1) = points
                self.canvas.ellipse((min(x0, x1), y0, max(x0, x1), y1), fill=int(shape.material))
            else:
                self.canvas.polygon(points, fill=int(shape.material))


def _stripes(travelled_m: float, period_m: float, far_m: float) -> Iterator[tuple[float, float, bool]]:
    """Pieces of road (near, far, odd) of length ``period_m`` fixed to the ground, far ones first."""
    first = int(np.floor((travelled_m + 2.2) / period_m))
    last = int(np.floor((travelled_m + far_m) / period_m))
    for index in range(last, first - 1, -1):
        near = max(index * period_m - travelled_m, 2.0)
        yield near, (index + 1) * period_m - travelled_m, index % 2 == 1


def _hash01(seed: int, index: int, salt: int) -> float:
    """A number in [0, 1) that belongs to one object of one scene, whenever it is painted."""
    mixed = (seed * 0x9E3779B1 + index * 0x85EBCA77 + salt * 0xC2B2AE3D) & 0xFFFFFFFF
    mixed ^= mixed >> 15
    mixed = (mixed * 0x2C1B3C6D) & 0xFFFFFFFF
    mixed ^= mixed >> 12
    return mixed / 2**32
