"""What stage load read, from where and how fast, as lines of the inspector; it knows no widget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from evprof.core.rows.span import Span
from evprof.core.run_log import RunLog
from evprof.core.units import bytes_text, percent_text

if TYPE_CHECKING:
    from evprof.metrics.figures.loading import Loading

SUMMARY = ("events", "frames", "rate", "decoder", "frame cache", "read", "cached")
"""What of them is told beside another model's."""

LOADING_LINES: Mapping[str, str] = {
    "events": "camera events brought onto the host",
    "frames": "pictures decoded, or drawn elsewhere and read",
    "rate": "over opening, reading and decoding; drawing and resizing are not among it",
    "decoder": "the recording's format, or the library that decoded the pictures",
    "frame cache": "whether decoded frames of an earlier run were there",
    "read": "bytes of files that were asked for",
    "from disk": "of these, what the system had not cached; disks are read ahead in larger pieces",
    "cached": "the share of these bytes that the system had in memory already",
}
"""Lines in their order, and what each means."""


def loading_lines(loading: Loading | None) -> dict[str, str]:
    """A text for every one of LOADING_LINES, empty where nothing was measured."""
    if loading is None:
        return dict.fromkeys(LOADING_LINES, "")
    facts, share = loading.facts, loading.from_disk_share
    return {
        "events": "" if facts.events is None else f"{facts.events:,}",
        "frames": "" if facts.frames is None else f"{facts.frames:,}",
        "rate": _rate(loading),
        "decoder": facts.decoder or "",
        "frame cache": facts.frame_cache or "",
        "read": "" if facts.bytes_read is None else bytes_text(facts.bytes_read),
        "from disk": "" if facts.bytes_from_disk is None else bytes_text(facts.bytes_from_disk),
        "cached": "" if share is None else percent_text(1 - share),
    }


def loading_of_column(run: RunLog, role: str) -> dict[str, str]:
    """The lines of one model of a run."""
    from evprof.metrics.figures.loading import loading_of

    return loading_lines(loading_of(run, role))


def _rate(loading: Loading) -> str:
    if loading.events_per_s is not None:
        return f"{loading.events_per_s / 1e6:.1f} Mev/s"
    return "" if loading.frames_per_s is None else f"{loading.frames_per_s:,.0f} frames/s"


def grouped_parts(run: RunLog, span: Span) -> list[tuple[str, int, float]] | None:
    """Name, number and time in ms of a stage's parts where work goes to and fro among a few; None where it does not."""
    from evprof.metrics.figures.loading import part_times_ms

    children = run.children(span.span_id)
    names = [child.name for child in children]
    if span.name not in ("load", "preprocess") or len(set(names)) == len(names):
        return None
    return [(name, names.count(name), time_ms) for name, time_ms in part_times_ms(run, span).items()]
