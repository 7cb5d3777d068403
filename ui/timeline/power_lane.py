"""Power of the devices over time, and where a GPU was slowed down."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter

from evprof.core.records import PowerRecord
from evprof.core.run_log import RunLog
from evprof.core.units import amount_text
from evprof.metrics.figures.energy import slowed_samples
from evprof.view.lanes import Track
from ui.timeline.level_lane import LevelLane, LevelSeries
from ui.timeline.scene import Hit, TimelineScene

if TYPE_CHECKING:
    from evprof.metrics.figures.energy import DeviceEnergy

_MARK_PX = 3.0


class Metered(NamedTuple):
    """A device that was sampled during a shown run, and what its line is called."""

    track: Track
    column: int
    device: str
    name: str


class PowerLane(LevelLane):
    """Watts of each sampled device, dashed where no model computed on it; a bar below where a GPU was slowed down.

    It is there only where something was sampled.
    """

    lane_height_px = 50

    def __init__(self, scene: TimelineScene) -> None:
        super().__init__(scene)
        self._energies: dict[int, tuple[RunLog, int, dict[str, DeviceEnergy]]] = {}
        self._slowed: dict[tuple[int, str], tuple[RunLog, int, dict[int, list[str]]]] = {}

    def is_wanted(self) -> bool:
        """Only where a device of a shown run told its power."""
        return any(track.power_watts() for _, track in self.scene.shown)

    def names(self) -> tuple[str, str]:
        """The lane, and what its mark means where there is one."""
        is_marked = any(self._slowed_at(one) for one in self.metered())
        return "Power", "bar: slowed down" if is_marked else "whole devices"

    def unit(self, highest: float) -> tuple[float, str]:
        """Watts, whatever the level."""
        return 1.0, "W"

    def level_text(self, level: float) -> str:
        """Watts."""
        return amount_text(level, "W")

    def exact_text(self, level: float) -> str:
        """Watts to a tenth."""
        return f"{level:.1f} W"

    def metered(self) -> list[Metered]:
        """The devices of the shown runs; a run in both columns is drawn once."""
        runs = self.scene.of_each_run
        found = []
        for column, track in runs:
            for device in track.power_watts():
                words = device_title(device, list(track.run.power))
                title = f"{self.scene.title(column)} {words}" if len(runs) > 1 else words
                found.append(Metered(track, column, device, title))
        return found

    def series(self) -> list[LevelSeries]:
        return [self._line(one) for one in self.metered()]

    def _line(self, one: Metered) -> LevelSeries:
        from evprof.metrics.figures.energy import computing_devices

        computing = computing_devices(one.track.run)
        is_alone = len(self.scene.of_each_run) == 1
        color = self.scene.theme.text_dim if is_alone else self.scene.line_color(one.column)
        return LevelSeries(
            one.name,
            *one.track.power_watts()[one.device],
            one.track.end_ns(self.scene.clock_ns),
            color,
            is_dashed=bool(computing) and one.device not in computing,
            ground=0.1 if is_alone else 0.05,
            told=self._mean(one),
        )

    def _mean(self, one: Metered) -> str:
        """The mean power of a run that is over; "" before."""
        from evprof.metrics.figures.energy import device_energies

        run = one.track.run
        if not run.info.is_over:
            return ""
        known = self._energies.get(run.run_id)
        if known is None or known[0] is not run or known[1] != run.version:
            known = self._energies[run.run_id] = run, run.version, device_energies(run)
        entry = known[2].get(one.device)
        return "" if entry is None else f"mean {amount_text(entry.mean_power_w, 'W')}"

    def paint_canvas(self, painter: QPainter, clip: QRectF) -> None:
        super().paint_canvas(painter, clip)
        color = self.scene.theme.warn
        for one in self.metered():
            for start, end in self._slowed_spans(one):
                x0, x1 = self.scene.scale.x(start), self.scene.scale.x(end)
                painter.fillRect(QRectF(x0, self.height() - _MARK_PX - 2, max(2.0, x1 - x0), _MARK_PX), color)

    def _slowed_at(self, one: Metered) -> dict[int, list[str]]:
        """Moments of the samples in which a device was slowed down, with the reasons; worked out once a sample."""
        run, records = one.track.run, one.track.run.power[one.device]
        known = self._slowed.get((run.run_id, one.device))
        if known is None or known[0] is not run or known[1] != len(records):
            found = {record.t_ns: reasons for record, reasons in slowed_samples(records)}
            known = self._slowed[run.run_id, one.device] = run, len(records), found
        return known[2]

    def _slowed_spans(self, one: Metered) -> list[tuple[int, int]]:
        """From each sample in which the device was slowed down to the next one, joined; in ns from the run's zero."""
        zero, times = one.track.zero_ns, np.array([record.t_ns for record in one.track.run.power[one.device]])
        spans: list[tuple[int, int]] = []
        for t_ns in self._slowed_at(one):
            after = int(np.searchsorted(times, t_ns, side="right"))
            end = min(int(times[min(after, len(times) - 1)]) - zero, one.track.end_ns(self.scene.clock_ns))
            start = t_ns - zero
            if spans and start <= spans[-1][1]:
                start = spans.pop()[0]
            spans.append((start, end))
        return spans

    def hit(self, pos: QPointF) -> Hit | None:
        """Power and state of every device at the pointer's moment."""
        found = super().hit(pos)
        if found is None:
            return None
        t_ns = self.scene.scale.t(pos.x())
        facts, notes = [], []
        for one in self.metered():
            records, zero = one.track.run.power[one.device], one.track.zero_ns
            place = int(np.searchsorted([record.t_ns for record in records], t_ns + zero, side="right")) - 1
            if place < 0 or t_ns > one.track.end_ns(self.scene.clock_ns):
                continue
            facts.append(
                (one.name, " · ".join(filter(None, (dict(found.facts).get(one.name), *_state(records[place])))))
            )
            reasons = self._slowed_at(one).get(records[place].t_ns)
            if reasons is not None:
                notes.append(f"{one.name}: slowed down{' by ' + ' and '.join(reasons) if reasons else ''}")
        return replace(found, facts=facts, note="; ".join(notes))


def device_title(device: str, among: list[str]) -> str:
    """`GPU`, `CPU`; with a number where there are several of the kind: `GPU 1`."""
    kind, _, number = device.partition(":")
    title = {"cuda": "GPU", "cpu": "CPU"}.get(kind, kind)
    return f"{title} {number}" if sum(other.partition(":")[0] == kind for other in among) > 1 else title


def _state(record: PowerRecord) -> list[str]:
    """Clocks, temperature and load, as far as they are told."""
    told = (
        (record.sm_mhz, "MHz"),
        (record.temperature_c, "°C"),
        (record.busy_percent, "% busy"),
    )
    return [f"{value:,} {unit}" for value, unit in told if value >= 0]
