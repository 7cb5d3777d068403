"""What the inspector says of a range of time: every stage, part, round and token in it, with sums and percentiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evprof.core.units import NS_PER_S, bytes_text, ms_from_ns, ms_text, percent_text
from evprof.view.labels import stage_title
from evprof.view.lanes import Floats, Ints, Track
from evprof.view.range_figures import RangeFigure, figures_in
from ui.run_facts.figures import NOTHING
from ui.runs.run_details import Detail, DetailSection

MANY = 20
"""From this many values on the 95th percentile is one: below it would be the longest by another name."""

_MOST_TEXT = 240
_MOST_PARTS = 12

_SUM_TIP = "how many reach into the range, the time they cover in it, and the share of it"
_SPREAD_TIP = "of those that lie in the range as a whole"


def range_sections(tracks: Sequence[Track], start_ns: int, end_ns: int, clock_ns: int = 0) -> list[DetailSection]:
    """What happened between two moments since each run's zero; `clock_ns` is where running spans reach to."""
    length = end_ns - start_ns
    sections = [
        DetailSection(
            "Selected range",
            [
                Detail("from", ms_text(ms_from_ns(start_ns))),
                Detail("to", ms_text(ms_from_ns(end_ns))),
                Detail("length", ms_text(ms_from_ns(length))),
            ],
        )
    ]
    for track in tracks:
        sections += _sections_of(track, start_ns, end_ns, track.now(clock_ns))
    return sections


def _sections_of(track: Track, start_ns: int, end_ns: int, now_ns: int) -> list[DetailSection]:
    run, role = track.run, track.role
    model = run.info.models.get(role)
    name = model.name if model else role
    zero = track.zero_ns
    stages = figures_in(track.stages.rows(zero, now_ns), track.stages.names, start_ns, end_ns)
    parts = figures_in(track.parts.rows(zero, now_ns), track.parts.names, start_ns, end_ns)
    length = max(1, end_ns - start_ns)
    shown = [_sum(figure, length, is_stage=True) for figure in stages]
    shown += [_sum(figure, length, is_stage=False) for figure in parts[:_MOST_PARTS]]
    more = f"and {len(parts) - _MOST_PARTS} more kinds of parts" if len(parts) > _MOST_PARTS else ""
    facts = _kv(track, start_ns, end_ns)
    if track.is_answer:
        facts += _tokens(track, start_ns, end_ns) + _rounds(track, start_ns, end_ns)
    if not shown and not facts:
        return [DetailSection(name, [], "Nothing of this model in the range.")]
    sections = [DetailSection(name, shown, more, ("sum", "share") if shown else ())]
    spread = [(_counted(figure), figure.lengths) for figure in parts]
    if track.is_answer:
        spread.append(("time per token", _gaps(track, start_ns, end_ns)))
    sections += _spread([(label, lengths) for label, lengths in spread if len(lengths) > 1])
    if facts:
        sections.append(DetailSection("Tokens and cache", facts))
    if text := _text(track, start_ns, end_ns):
        sections.append(DetailSection("", [], text))
    return sections


def _counted(figure: RangeFigure) -> str:
    return f"{figure.name} × {figure.reaching}" if figure.reaching > 1 else figure.name


def _sum(figure: RangeFigure, length_ns: int, *, is_stage: bool) -> Detail:
    name = stage_title(figure.name) if is_stage and figure.reaching == 1 else _counted(figure)
    share = percent_text(figure.sum_ns / length_ns)
    swatch = figure.name if is_stage or figure.name in _OWN else ""
    return Detail(name, ms_text(ms_from_ns(figure.sum_ns)), swatch, _SUM_TIP, beside=share)


_OWN = ("draft", "verify")


def _spread(groups: list[tuple[str, Ints]]) -> list[DetailSection]:
    """The middle and the long end of what came more than once."""
    if not groups:
        return []
    has_many = any(len(lengths) >= MANY for _, lengths in groups)
    details = []
    for name, lengths in groups:
        far = np.percentile(lengths, 95) if has_many else lengths.max()
        beside = NOTHING if has_many and len(lengths) < MANY else ms_text(float(far) / 1e6)
        details.append(Detail(name, ms_text(float(np.median(lengths)) / 1e6), tip=_SPREAD_TIP, beside=beside))
    return [DetailSection("Each of them", details, heads=("median", "95 %" if has_many else "longest"))]


def _token_rows(track: Track, start_ns: int, end_ns: int) -> slice:
    times = track.token_times()
    return slice(int(np.searchsorted(times, start_ns)), int(np.searchsorted(times, end_ns, side="right")))


def _gaps(track: Track, start_ns: int, end_ns: int) -> Ints:
    """Times between neighbours inside, in ns."""
    return np.diff(track.token_times()[_token_rows(track, start_ns, end_ns)])


def _tokens(track: Track, start_ns: int, end_ns: int) -> list[Detail]:
    rows = _token_rows(track, start_ns, end_ns)
    count = rows.stop - rows.start
    if not count:
        return []
    details = [Detail("tokens", str(count))]
    times = track.token_times()[rows]
    if count > 1 and times[-1] > times[0]:
        details.append(Detail("tokens per second", f"{(count - 1) * NS_PER_S / int(times[-1] - times[0]):,.1f}"))
        details.append(Detail("longest gap", ms_text(ms_from_ns(int(np.diff(times).max())))))
    return details


def _text(track: Track, start_ns: int, end_ns: int) -> str:
    """The words that came in the range."""
    if not track.is_answer:
        return ""
    records = track.run.tokens[_token_rows(track, start_ns, end_ns)]
    text = "".join(record.piece for record in records[:_MOST_TEXT]).strip()
    if not text:
        return ""
    return f"“{text[:_MOST_TEXT]}{'…' if len(text) > _MOST_TEXT or len(records) > _MOST_TEXT else ''}”"


def _rounds(track: Track, start_ns: int, end_ns: int) -> list[Detail]:
    starts, _, _, _, drafted, accepted, _, _ = track.rounds()
    rows = slice(int(np.searchsorted(starts, start_ns)), int(np.searchsorted(starts, end_ns, side="right")))
    count = rows.stop - rows.start
    if not count:
        return []
    tried, taken = int(drafted[rows].sum()), int(accepted[rows].sum())
    rate = f" · {percent_text(taken / tried)}" if tried else ""
    return [Detail("rounds that begin", str(count)), Detail("accepted of drafted", f"{taken:,} of {tried:,}{rate}")]


def _kv(track: Track, start_ns: int, end_ns: int) -> list[Detail]:
    times, levels = track.kv_bytes()
    before, last = _level(times, levels, start_ns), _level(times, levels, end_ns)
    if last is None or not len(times) or end_ns < times[0]:
        return []
    change = last - (before or 0.0)
    return [Detail("KV cache grew by" if change >= 0 else "KV cache shrank by", bytes_text(abs(change)))]


def _level(times: Ints, levels: Floats, t_ns: int) -> float | None:
    row = int(np.searchsorted(times, t_ns, side="right")) - 1
    return float(levels[row]) if row >= 0 else None
