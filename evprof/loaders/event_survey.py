"""What reading a recording through tells about its events: counts, extent, times, order; in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

from evprof.core.events import EventArray
from evprof.loaders.events.recording import EventRecording
from evprof.loaders.pictures.render import EVENTGPT_FRAMES

MOST_SURVEYED = 20_000_000
"""Events after which reading on would keep a person waiting."""

_TRUSTED_SPAN_US = 100_000


@dataclass
class EventSurvey:
    """What the events seen so far are; `is_whole` once the recording was read to its end."""

    events: int = 0
    positive: int = 0
    width: int = 0
    height: int = 0
    t_min_us: int | None = None
    t_max_us: int | None = None
    is_sorted: bool = True
    is_whole: bool = False
    _last_us: int | None = None

    def add(self, events: EventArray) -> None:
        """The next events of the file."""
        first, last = int(events.t_us[0]), int(events.t_us[-1])
        low, high = int(events.t_us.min()), int(events.t_us.max())
        self.is_sorted = self.is_sorted and events.is_sorted and (self._last_us is None or first >= self._last_us)
        self._last_us = last
        self.events += len(events)
        self.positive += int(events.p.sum(dtype="int64"))
        self.width, self.height = max(self.width, events.width), max(self.height, events.height)
        self.t_min_us = low if self.t_min_us is None else min(self.t_min_us, low)
        self.t_max_us = high if self.t_max_us is None else max(self.t_max_us, high)

    @property
    def duration_us(self) -> int | None:
        """Latest less earliest time."""
        return None if self.t_min_us is None or self.t_max_us is None else self.t_max_us - self.t_min_us

    def problems(self) -> list[str]:
        """What a reader of results from these events should know."""
        if not self.events:
            return ["The recording holds no events."]
        problems: list[str] = []
        duration_us = self.duration_us or 0
        if not self.is_sorted:
            problems.append("The events are not in time order; event frames are cut in file order, as EventGPT does.")
        if duration_us >= _TRUSTED_SPAN_US:
            problems.append(
                f"The recording spans {duration_us / 1000:.1f} ms; EventGPT was made for 50 ms and its own code "
                "refuses 100 ms or more."
            )
        if duration_us == 0:
            problems.append("All events carry the same time.")
        if self.events < EVENTGPT_FRAMES:
            problems.append(f"{self.events:,} events are too few for EventGPT's {EVENTGPT_FRAMES} event frames.")
        return problems


def survey(recording: EventRecording, most: int = MOST_SURVEYED) -> EventSurvey:
    """Reads a recording through, as far as about `most` events. Raises UserError."""
    found = EventSurvey()
    for chunk in recording.chunks():
        if found.events >= most:
            return found
        found.add(chunk)
    found.is_whole = True
    return found
