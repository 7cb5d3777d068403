"""The lanes that every timeline has, top to bottom as they stand at first."""

from __future__ import annotations

from ui.timeline.delta_lane import DeltaLane
from ui.timeline.lane import Lane
from ui.timeline.latency_lane import LatencyLane
from ui.timeline.level_lane import KvLane, MemoryLane
from ui.timeline.overlap_lane import OverlapLane
from ui.timeline.power_lane import PowerLane
from ui.timeline.real_time_lane import RealTimeLane
from ui.timeline.round_lane import RoundLane
from ui.timeline.scene import PLACES, TimelineScene
from ui.timeline.sensor_lane import SensorLane
from ui.timeline.stage_lane import StageLane


class LaneSet:
    """Makes them; `lanes` is all of them in order, the others are those that somebody asks for by name."""

    def __init__(self, scene: TimelineScene) -> None:
        self.stages = tuple(StageLane(scene, place) for place in PLACES)
        self.delta = DeltaLane(scene)
        self.overlap = OverlapLane(scene)
        self.rounds_of_a = RoundLane(scene, is_of_a=True)
        self.rounds = RoundLane(scene)
        self.latency = LatencyLane(scene)
        self.power = PowerLane(scene)
        self.lanes: list[Lane] = [
            *self.stages,
            self.delta,
            self.overlap,
            self.rounds_of_a,
            self.rounds,
            self.latency,
            KvLane(scene),
            SensorLane(scene),
            RealTimeLane(scene),
            MemoryLane(scene),
            self.power,
        ]
