"""Quantities that hold until they change, as step lines on one scale: KV cache, process memory, power of devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter

from evprof.core.units import MIB, amount_text, bytes_text, bytes_texts
from evprof.view.decimate import Floats, Ints, column_levels, nice_ceiling
from evprof.view.timescale import time_text
from ui.run_facts.run_text import NOTHING
from ui.state.selection import TokenRef
from ui.timeline.lane import Lane, blended, paint_bands, pixels_per_px
from ui.timeline.scene import Hit

_TOP, _BOTTOM = 16.5, 7.0
_NAME_PX = 13.0
_KEY_PX = 6.0
"""From the left of a name's room, where its line's colour stands, to its text."""

_LINE_PX = 1.6
_DASH_PX, _DASH_GAP_PX = 5.0, 7.0

_OF_TEXT = 0.5
"""Share of the text's colour in that of a dashed line that can lie on another line of its colour."""


class LevelSeries(NamedTuple):
    """One line: its name, its rows, where it ends, and how it is drawn."""

    name: str
    times: Ints
    levels: Floats
    end_ns: int
    color: QColor
    is_dashed: bool = False
    ground: float = 0.13


class LevelLane(Lane):
    """Base of the lanes with step lines, all on one scale from 0; in bytes, unless a lane says otherwise."""

    lane_height_px = 44
    grows = True
    hint = ""

    def series(self) -> list[LevelSeries]:
        raise NotImplementedError

    def is_wanted(self) -> bool:
        """False where all shown runs are over and none has rows."""
        return self.scene.is_running or bool(self._drawn())

    def unit(self, highest: float) -> tuple[float, str]:
        """The unit of the scale for a highest level: how much of the levels' own it is, and its name."""
        if highest >= 1024 * MIB:
            return 1024 * MIB, "GiB"
        return (MIB, "MiB") if highest >= MIB else (1024, "KiB")

    def level_text(self, level: float) -> str:
        return bytes_texts([level, MIB])[0]

    def exact_text(self, level: float) -> str:
        """The same for the card beside the pointer."""
        return f"{bytes_text(level)}  ({int(level):,} B)"

    def reading(self, t_ns: int) -> str:
        """The level of each line in one unit, in the order of the names."""
        levels = [level for _, level in self._levels_at(t_ns)]
        unit, name = self.unit(self._top(self._drawn()))
        texts = [NOTHING if level is None else f"{level / unit:.3g}" for level in levels]
        return f"{' / '.join(texts)} {name}" if set(texts) - {NOTHING} else NOTHING

    def _levels_at(self, t_ns: int) -> list[tuple[LevelSeries, float | None]]:
        """Each line with its level at a moment, None before its first row and after its end."""
        found: list[tuple[LevelSeries, float | None]] = []
        for one in self._drawn():
            row = int(np.searchsorted(one.times, t_ns, side="right")) - 1
            found.append((one, float(one.levels[row]) if row >= 0 and t_ns <= one.end_ns else None))
        return found

    def _drawn(self) -> list[LevelSeries]:
        return [one for one in self.series() if len(one.times)]

    def _top(self, drawn: list[LevelSeries]) -> float:
        highest = max((float(one.levels.max()) for one in drawn), default=0.0)
        unit, _ = self.unit(highest)
        return nice_ceiling(highest * 1.05 / unit) * unit

    def scale_marks(self) -> Sequence[tuple[float, str]]:
        drawn = self._drawn()
        if not drawn:
            return ()
        top = self._top(drawn)
        unit, text = self.unit(top)
        return ((_TOP, f"{top / unit:g} {text}"), (self.height() - _BOTTOM, "0"))

    def paint_canvas(self, painter: QPainter) -> None:
        """Lines with a faint ground; their names and last levels stand in a row above them."""
        drawn = self._drawn()
        if not drawn:
            self.paint_hint(painter, self.hint)
            return
        top = self._top(drawn)
        right = self.canvas_width - 6
        for one in drawn:
            self._paint_series(painter, one, top)
        for one in reversed(drawn):
            right = self._write_name(painter, one, right)

    def _paint_series(self, painter: QPainter, one: LevelSeries, top: float) -> None:
        floor = self.height() - _BOTTOM
        per_level = (floor - _TOP) / top
        scale, per_px = self.scene.scale, pixels_per_px(painter)
        columns = math.ceil(self.canvas_width * per_px)
        lowest, highest = column_levels(one.times, one.levels, scale, columns, per_px)
        edges = floor - per_level * np.array([highest, lowest])
        edges += [[-_LINE_PX / 2], [_LINE_PX / 2]]
        end = scale.x(max(one.end_ns, int(one.times[-1])))
        edges[:, min(max(math.ceil(end * per_px), 0), columns) :] = np.nan
        if not one.is_dashed:
            paint_bands(painter, edges, one.color, self.height(), ground=one.ground, floor=floor)
            return
        # Dashes keep their place in time while the view moves.
        place = (np.arange(columns) / per_px + scale.start_ns / scale.ns_per_px) % (_DASH_PX + _DASH_GAP_PX)
        paint_bands(painter, np.where(place < _DASH_PX, edges, np.nan), one.color, self.height())

    def _write_name(self, painter: QPainter, one: LevelSeries, right: float) -> float:
        """Writes a name and the last level in view up to `right` -> where the name before it may end."""
        theme = self.scene.theme
        seen = int(one.times.searchsorted(self.scene.scale.end_ns, side="right")) - 1
        if seen < 0:
            return right
        text = f"{one.name}  {self.level_text(float(one.levels[seen]))}"
        width = theme.text_width(text, 10.5, 500) + _KEY_PX
        room = QRectF(right - width, 2, width, _NAME_PX)
        painter.fillRect(QRectF(room.left(), room.top() + 3, 2, room.height() - 6), one.color)
        painter.setPen(theme.text_dim)
        theme.write(painter, room.adjusted(_KEY_PX, 0, 0, 0), text, 10.5, 500)
        return room.left() - 2 * _KEY_PX

    def hit(self, pos: QPointF) -> Hit | None:
        t_ns = self.scene.scale.t(pos.x())
        known = [(one, level) for one, level in self._levels_at(t_ns) if level is not None]
        if not known:
            return None
        facts = [(one.name, self.exact_text(level)) for one, level in known]
        return Hit(f"{self.names()[0]} at {time_text(t_ns)}", known[-1][0].color, facts, token=self.token_at(t_ns))

    def token_at(self, t_ns: int) -> TokenRef | None:
        """The token whose coming changed the level; None where levels have nothing to do with tokens."""
        return None


class KvLane(LevelLane):
    """Logical bytes of each model's KV cache, both on one scale."""

    hint = tip = "Bytes of each model's key and value cache: a step at prefill, then a slope with every token."

    def names(self) -> tuple[str, str]:
        return "KV cache", "both models"

    def token_at(self, t_ns: int) -> TokenRef | None:
        """The last token of an answer at that moment; none before the first and after the run."""
        for _, track in reversed(self.scene.shown):
            times = track.token_times()
            row = int(np.searchsorted(times, t_ns, side="right")) - 1
            if row >= 0 and t_ns <= track.end_ns(self.scene.clock_ns):
                return TokenRef(track.run.run_id, int(track.token_positions()[row]))
        return None

    def series(self) -> list[LevelSeries]:
        """One line per column; B's draft's, which may run along A's, is dashed and nearer to the text's colour."""
        scene, lines = self.scene, []
        for column, track in scene.shown:
            color, is_dashed = scene.line_color(column), column > 1
            color = blended(color, scene.theme.text, _OF_TEXT) if is_dashed else color
            end = track.end_ns(scene.clock_ns)
            lines.append(LevelSeries(scene.title(column), *track.kv_bytes(), end, color, is_dashed))
        return lines


class MemoryLane(LevelLane):
    """Resident bytes of the engine process and, dashed, the GPU's."""

    hint = tip = "Memory of the engine process, ten samples a second; GPU memory dashed."

    def names(self) -> tuple[str, str]:
        return "Memory", "engine process"

    def series(self) -> list[LevelSeries]:
        """Process and GPU of each shown run; one run in both columns is drawn once."""
        lines: list[LevelSeries] = []
        alone = len(self.scene.of_each_run) == 1
        for column, track in self.scene.of_each_run:
            end = track.end_ns(self.scene.clock_ns)
            color = self.scene.theme.text_dim if alone else self.scene.line_color(column)
            name = "process" if alone else self.scene.title(column)
            lines.append(LevelSeries(name, *track.rss_bytes(), end, color, ground=0.1 if alone else 0.05))
            lines.append(LevelSeries("GPU" if alone else f"{name} GPU", *track.gpu_bytes(), end, color, is_dashed=True))
        return lines


class PowerLane(LevelLane):
    """Watts of each sampled device, dashed where no model computed on it."""

    tip = "Watts of whole devices, ten samples a second; dashed where no model computed."

    def is_wanted(self) -> bool:
        return any(track.power_watts() for _, track in self.scene.shown)

    def names(self) -> tuple[str, str]:
        return "Power", "whole devices"

    def unit(self, highest: float) -> tuple[float, str]:
        return 1.0, "W"

    def level_text(self, level: float) -> str:
        return amount_text(level, "W")

    def exact_text(self, level: float) -> str:
        return f"{level:.1f} W"

    def series(self) -> list[LevelSeries]:
        from evprof.metrics.figures.energy import computing_devices

        lines: list[LevelSeries] = []
        alone = len(self.scene.of_each_run) == 1
        for column, track in self.scene.of_each_run:
            computing, watts = computing_devices(track.run), track.power_watts()
            color = self.scene.theme.text_dim if alone else self.scene.line_color(column)
            for device, rows in watts.items():
                title = device_title(device, list(watts))
                name = title if alone else f"{self.scene.title(column)} {title}"
                dashed, ground = bool(computing) and device not in computing, 0.1 if alone else 0.05
                lines.append(LevelSeries(name, *rows, track.end_ns(self.scene.clock_ns), color, dashed, ground))
        return lines


def device_title(device: str, among: list[str]) -> str:
    """`GPU`, `CPU`; with a number where there are several of the kind: `GPU 1`."""
    kind, _, number = device.partition(":")
    title = {"cuda": "GPU", "cpu": "CPU"}.get(kind, kind)
    return f"{title} {number}" if sum(other.partition(":")[0] == kind for other in among) > 1 else title
