"""Turns video frames into camera events: a contrast-threshold sensor, frame after frame with bounded memory.

An ideal sensor (E. Mueggler et al., IJRR 2017; H. Rebecq et al., ESIM, CoRL 2018) with the two imperfections that
matter for timing: thresholds that differ from pixel to pixel, and a refractory time. A pixel fires each time its log
intensity has moved by its threshold since its last event. Between two frames log intensity is taken as linear in time,
so times are as exact as the frames are close: 30 frames/s give events that are linear within 33 ms.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import MAX_COORDINATE, EventArray
from evprof.loaders.events.recording import NO_EVENTS, joined

Doubles = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Times = npt.NDArray[np.int64]

DARKEST = 1e-2
"""Added to intensities of 0…1 before the logarithm: noise of dark pixels would otherwise be events without end."""

LEAST_THRESHOLD = 0.01
"""Floor of every pixel's threshold, as in v2e (Y. Hu et al., CVPRW 2021)."""

MOST_EVENTS_PER_FRAME = 50_000_000
"""Events between two frames, 650 MB; more is a threshold far too small for the video."""

LOG_INTENSITY: Doubles = np.log(DARKEST + np.arange(256) / 255.0)
"""log(DARKEST + I / 255) of each grey value."""

_AT_ONCE = 2_000_000
"""Crossings worked on at once."""

_ROUNDING = 1e-9
"""A change of exactly k thresholds is k events, whatever the last bit of a division says."""

_ROUNDING_US = 1e-6
"""A crossing at a whole microsecond is not moved to the next one by the last bit."""


class ContrastSimulator:
    """A sensor of width x height pixels that is shown pictures and answers with events. Not for two threads at once.

    `positive` and `negative` are the log-intensity steps of brighter and darker events; each pixel's own are drawn once
    from a normal distribution of standard deviation `spread` around them. For `refractory_us` after an event a pixel
    is blind: what it crosses meanwhile moves its reference but is not told. The same `seed` gives the same events.
    """

    def __init__(
        self,
        width: int,
        height: int,
        *,
        positive: float = 0.2,
        negative: float = 0.2,
        spread: float = 0.0,
        refractory_us: int = 0,
        seed: int = 0,
    ) -> None:
        for size in (width, height):
            if not 1 <= size <= MAX_COORDINATE + 1:
                raise UserError(f"A sensor of {width} x {height} pixels cannot be simulated.")
        for threshold in (positive, negative):
            if not LEAST_THRESHOLD <= threshold <= 100:
                raise UserError(f"A contrast threshold must be {LEAST_THRESHOLD:g} or more, not {threshold:g}.")
        if not 0 <= spread <= 100:
            raise UserError(f"The spread of the contrast thresholds must be 0 or more, not {spread:g}.")
        if refractory_us < 0:
            raise UserError(f"The refractory time must be 0 µs or more, not {refractory_us}.")
        self.width, self.height = width, height
        random = np.random.default_rng(seed)
        self._positive = self._thresholds(random, positive, spread)
        self._negative = self._thresholds(random, negative, spread)
        self._refractory_us = refractory_us
        self._t_us: int | None = None
        self._level: Doubles = np.empty(0)
        self._reference: Doubles = np.empty(0)
        # No event yet: long enough ago for any refractory time, near enough for differences to fit.
        self._fired_us: Times = np.full(width * height if refractory_us else 0, -(2**62), dtype=np.int64)

    def frame(self, picture: npt.NDArray[np.uint8], t_us: int) -> EventArray:
        """Events after the last frame, up to and at `t_us`, sorted by time; the first frame has none.

        `picture` is uint8 [H, W] grey or [H, W, 3] RGB. Raises UserError when its size is another, time does not move
        on, or more than MOST_EVENTS_PER_FRAME pixels' crossings lie between two frames.
        """
        if picture.dtype != np.uint8 or picture.shape not in ((self.height, self.width), (self.height, self.width, 3)):
            raise UserError(
                f"A picture of {picture.dtype} and shape {list(picture.shape)} cannot be shown to a sensor of "
                f"{self.width} x {self.height} pixels; all frames must have one size."
            )
        grey = picture if picture.ndim == 2 else luma(picture)
        return self.log_frame(np.take(LOG_INTENSITY, grey), t_us)

    def log_frame(self, level: Doubles, t_us: int) -> EventArray:
        """The same for log intensity, float64 [H, W]."""
        if level.shape != (self.height, self.width) or not np.isfinite(level).all():
            raise UserError(f"Log intensities must be {self.height} rows of {self.width} finite numbers.")
        flat = level.reshape(-1).astype(np.float64, copy=False)
        before_us, before = self._t_us, self._level
        if before_us is None:
            self._reference = flat.copy()
        elif t_us <= before_us:
            raise UserError(f"Frames must come in the order of their times; {t_us} µs came after {before_us} µs.")
        self._t_us, self._level = t_us, flat
        return NO_EVENTS if before_us is None else self._step(before, flat, (before_us, t_us))

    def _step(self, before: Doubles, level: Doubles, span_us: tuple[int, int]) -> EventArray:
        change = level - self._reference
        slack = 1 - _ROUNDING
        active = np.flatnonzero((change >= self._positive * slack) | (change <= self._negative * -slack))
        if len(active) == 0:
            return NO_EVENTS
        change = change[active]
        step = np.where(change > 0, self._positive[active], self._negative[active])
        crossings = np.floor(np.abs(change) / step + _ROUNDING).astype(np.intp)
        total = int(crossings.sum())
        _check_number(total, span_us)
        start_us, stop_us = span_us
        if total > _AT_ONCE and stop_us - start_us > 1:
            # The middle of a line lies on it: two halves have the same events and need half the memory each.
            half_us = (stop_us - start_us) // 2
            middle = before + (level - before) * (half_us / (stop_us - start_us))
            first = self._step(before, middle, (start_us, start_us + half_us))
            return joined((first, self._step(middle, level, (start_us + half_us, stop_us))))
        np.copysign(step, change, out=step)
        owner = np.repeat(np.arange(len(active)), crossings)
        nth = np.arange(1, total + 1) - np.repeat(np.cumsum(crossings) - crossings, crossings)
        rise = level[active] - before[active]
        rise[rise == 0.0] = 1.0
        first_share = (self._reference[active] - before[active]) / rise
        offset_us = _offsets(first_share[owner], (step / rise)[owner], nth, stop_us - start_us)
        self._reference[active] += step * crossings
        if self._refractory_us:
            kept = self._seen(active, crossings, offset_us + start_us)
            owner, offset_us = owner[kept], offset_us[kept]
        # Offsets of 16 bits are sorted by counting, several times faster than by comparing.
        order = np.argsort(offset_us.astype(np.uint16) if stop_us - start_us < 1 << 16 else offset_us, kind="stable")
        owner = owner[order]
        y, x = np.divmod(active.astype(np.uint32), np.uint32(self.width))
        return EventArray(
            x.astype(np.uint16)[owner],
            y.astype(np.uint16)[owner],
            offset_us[order] + start_us,
            (change > 0).astype(np.uint8)[owner],
        )

    def _seen(self, active: Indices, crossings: Indices, t_us: Times) -> Indices:
        """Crossings that do not fall in the refractory time after an event told before them, also in this very step.

        Each turn looks at one crossing of every pixel that has one left, in the order of their times.
        """
        next_one = np.cumsum(crossings) - crossings
        end = next_one + crossings
        kept: list[Indices] = []
        while len(active):
            now = t_us[next_one]
            told = now - self._fired_us[active] >= self._refractory_us
            self._fired_us[active[told]] = now[told]
            kept.append(next_one[told])
            next_one = next_one + 1
            left = next_one < end
            active, next_one, end = active[left], next_one[left], end[left]
        return np.sort(np.concatenate(kept))

    def _thresholds(self, random: np.random.Generator, mean: float, spread: float) -> Doubles:
        pixels = self.width * self.height
        if spread == 0:
            return np.full(pixels, mean)
        return np.maximum(random.normal(mean, spread, pixels), LEAST_THRESHOLD)


def _offsets(share: Doubles, step_share: Doubles, nth: Times, span_us: int) -> Times:
    """µs after the earlier frame of each crossing: where the line between the frames meets reference + nth * step.

    Both shares are of the way from frame to frame: of the reference, and of a step. `share` is overwritten.
    """
    share += step_share * nth
    np.clip(share, 0.0, 1.0, out=share)
    share *= span_us
    share -= _ROUNDING_US
    return np.maximum(np.ceil(share), 0.0).astype(np.int64)


def _check_number(total: int, span_us: tuple[int, int]) -> None:
    if total > MOST_EVENTS_PER_FRAME:
        raise UserError(
            f"{total:,} events lie between the frames at {span_us[0]} and {span_us[1]} µs, more than the "
            f"{MOST_EVENTS_PER_FRAME:,} allowed; use larger contrast thresholds."
        )


def luma(picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Grey of uint8 [H, W, 3] RGB by ITU-R BT.601's weights in 1/256 (77, 150, 29)."""
    grey = picture[..., 0].astype(np.uint16)
    grey *= 77
    grey += picture[..., 1].astype(np.uint16) * np.uint16(150)
    grey += picture[..., 2].astype(np.uint16) * np.uint16(29)
    grey += 128
    grey >>= 8
    return grey.astype(np.uint8)
