"""What the inspector says of a token and of a round: where it came from, what was seen, what else was likely."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evprof.core.records import DRAFT, ORIGIN_ACCEPTED, AlternativesRecord, RoundRecord, TokenRecord
from evprof.core.rows.spans import Span
from evprof.core.run_log import RunLog
from evprof.core.units import NS_PER_S, bytes_text, ms_from_ns, ms_text, percent_text
from evprof.view.alignment import step_of
from evprof.view.labels import stage_title, stages_in
from evprof.view.lanes import Floats, Ints, RangeFigure, Track, figures_in
from ui.run_facts.figures import NOTHING
from ui.run_facts.run_text import chance_text, piece_text
from ui.runs.run_details import Detail, DetailSection

NOT_RECORDED = (
    "Not recorded: alternatives were left out, an older version made this run, or its engine was ended before it could "
    "tell."
)

_ENTROPY_TIP = "how undecided the model was: 0 bits are certain, 1 bit is a coin toss, 2 bits four equal choices"
_CHANCE_TIP = "the model's own probability, before temperature, top-k and top-p"


def token_sections(run: RunLog, position: int) -> list[DetailSection]:
    """A token of the answer, what else was likely there, and the rejected ones drafted for its place."""
    index = next((number for number, token in enumerate(run.tokens) if token.position == position), None)
    fallen = [token for token in run.rejected if token.position == position]
    sections = []
    if index is not None:
        token = run.tokens[index]
        before = run.tokens[index - 1] if index else None
        sections.append(DetailSection(f"Token {position}", _token_details(run, token, before)))
        sections += _likeliest(run, token)
        sections += _seen(run, token)
    if fallen:
        sections.append(DetailSection("Drafted for this place and rejected", [_fallen(run, token) for token in fallen]))
        drafted = run.alternatives_of(fallen[0])
        if drafted is not None:
            sections.append(_odds("The draft's likeliest there", drafted, fallen[0].token_id))
    return sections


def drafted_sections(run: RunLog, round_index: int, position: int) -> list[DetailSection]:
    """A token that a round drafted for a place and the target rejected: what stands there instead, and how likely it
    was to either."""
    token = next((one for one in run.rejected if (one.round_index, one.position) == (round_index, position)), None)
    if token is None:
        return []
    details = [Detail("piece", _quoted(token.piece)), Detail("id", str(token.token_id))]
    details += [Detail("origin", token.origin), Detail("for token", str(position))]
    standing = next((one for one in run.tokens if one.position == position), None)
    if standing is not None:
        details.append(Detail("stands there instead", _quoted(standing.piece)))
    details += _step(step_of(run, token))
    sections = [DetailSection("Drafted and rejected", details)]
    drafted = run.alternatives_of(token)
    if drafted is not None:
        sections.append(_odds("The draft's likeliest there", drafted, token.token_id))
    checked = None if standing is None else run.alternatives_of(standing)
    if checked is not None and standing is not None and standing.round_index == round_index:
        sections.append(_odds("The target's likeliest there", checked, standing.token_id))
    return sections


def round_sections(run: RunLog, round_index: int) -> list[DetailSection]:
    """A round: what it took, what was drafted, what stood."""
    entry = next((one for one in run.rounds if one.round_index == round_index), None)
    if entry is None:
        return []
    emitted = [token for token in run.tokens if token.round_index == round_index]
    fallen = [token for token in run.rejected if token.round_index == round_index]
    sections = [DetailSection(f"Round {round_index + 1}", _round_details(run, entry))]
    if emitted:
        sections.append(DetailSection("Reached the answer", [_of_round(run, token) for token in emitted]))
    if fallen:
        sections.append(DetailSection("Rejected", [_of_round(run, token) for token in fallen]))
    return sections


def _round_details(run: RunLog, entry: RoundRecord) -> list[Detail]:
    spent = entry.draft_ns + entry.verify_ns + entry.rollback_ns
    zero = run.info.start_ns
    details = [Detail("accepted of drafted", f"{entry.accepted} of {entry.drafted}")]
    if entry.hidden:
        details.append(Detail("drafted", "inside the target's prefill"))
    if zero is not None:
        details.append(Detail("start", ms_text(ms_from_ns(entry.start_ns - zero))))
    details += [
        Detail(name, ms_text(ms_from_ns(took)), swatch)
        for name, took, swatch in (
            ("draft", entry.draft_ns, "draft"),
            ("verify", entry.verify_ns, "verify"),
            ("roll-back", entry.rollback_ns, ""),
        )
    ]
    if entry.emitted and not entry.hidden:
        details.append(Detail("a token of the answer", ms_text(ms_from_ns(spent // entry.emitted))))
    return details


def _of_round(run: RunLog, token: TokenRecord) -> Detail:
    return Detail(_quoted(token.piece), _chance(run, token), unit=token.origin, tip=_CHANCE_TIP)


def _fallen(run: RunLog, token: TokenRecord) -> Detail:
    chance = _chance(run, token)
    said = "" if chance == NOTHING else f"{chance} · "
    return Detail(_quoted(token.piece), f"{said}id {token.token_id} · round {token.round_index + 1}", tip=_CHANCE_TIP)


def _chance(run: RunLog, token: TokenRecord) -> str:
    """By the model that chose or proposed it; a bound where it is not among the likeliest."""
    record = run.alternatives_of(token)
    if record is None:
        return NOTHING
    known = record.chance_of(token.token_id)
    most = record.chance_at_most(token.token_id)
    return chance_text(known) if known is not None or most is None else f"≤ {chance_text(most)}"


def _quoted(piece: str) -> str:
    """The piece in quotation marks; spaces and line breaks as their escapes, the end as such."""
    return f"“{piece.strip() or repr(piece)[1:-1] or '(end)'}”"


def _token_details(run: RunLog, token: TokenRecord, before: TokenRecord | None) -> list[Detail]:
    zero = run.info.start_ns
    named = token.known_id is not None
    details = [
        *([Detail("piece", _quoted(token.piece)), Detail("id", str(token.token_id))] if named else ()),
        Detail("origin", token.origin),
    ]
    if token.round_index >= 0:
        details.append(Detail("round", str(token.round_index + 1)))
    if zero is not None and run.info.has_token_times:
        details.append(Detail("known at", ms_text(ms_from_ns(token.t_ns - zero))))
        took = NOTHING if before is None else ms_text(ms_from_ns(token.t_ns - before.t_ns))
        details.append(Detail("after the token before", took))
        details += _step(step_of(run, token))
    return details


def _step(step: Span | None) -> list[Detail]:
    if step is None:
        return []
    took = "running" if step.duration_ns is None else ms_text(ms_from_ns(step.duration_ns))
    name = stage_title(step.name) if stages_in(step.name) else step.name
    return [Detail("came out of", f"{name} · {took}", step.name, tip="the measured interval whose result it is")]


def _seen(run: RunLog, token: TokenRecord) -> list[DetailSection]:
    """Where it stands in the cache, and everything that it could look back at."""
    role, details = run.info.role, []
    lengths = run.info.lengths.get(role)
    if lengths is not None:
        details.append(Detail("position in the cache", str(lengths.input + token.position)))
        details.append(
            Detail(
                "could look back at", f"{lengths.input + token.position:,} positions", tip="prompt, input and answer"
            )
        )
        details.append(Detail("of them visual", str(lengths.visual)))
    held = next((point for point in reversed(run.kv.get(role, [])) if point.t_ns <= token.t_ns), None)
    if held is not None:
        details.append(Detail("cache then", f"{held.length} · {bytes_text(held.nbytes)}", tip="length and bytes"))
    details += _input(run, role, "")
    if token.round_index >= 0 and role != DRAFT:
        details += _input(run, DRAFT, "draft's ")
    return [DetailSection("What it could see", details)] if details else []


def _input(run: RunLog, role: str, whose: str) -> list[Detail]:
    """The pictures that a model saw: all lie before its answer."""
    frames = run.frames.get(role, [])
    if not frames:
        return []
    first, last = min(frame.start_us for frame in frames), max(frame.end_us for frame in frames)
    what = "event slices" if any(frame.end_us > frame.start_us for frame in frames) else "frames"
    return [
        Detail(
            f"{whose}{what}", f"{len(frames)} · {first / 1000:,.0f} … {last / 1000:,.0f} ms", tip="in the sensor's time"
        )
    ]


def _likeliest(run: RunLog, token: TokenRecord) -> list[DetailSection]:
    own = run.alternatives_of(token)
    if own is None:
        if run.info.imported is not None or not run.info.is_over:
            return []
        return [DetailSection("Likeliest tokens", [], NOT_RECORDED)]
    sections = [_odds("Likeliest tokens", own, token.token_id)]
    drafted = run.alternatives_of(token, DRAFT) if token.origin == ORIGIN_ACCEPTED else None
    if drafted is not None:
        sections.append(_odds("The draft's likeliest", drafted, token.token_id))
    return sections


def _odds(head: str, record: AlternativesRecord, token_id: int) -> DetailSection:
    """The chosen one stands out; what the rest of the vocabulary has is not listed."""
    details = [
        Detail(
            f"“{piece_text(one.piece)}”",
            chance_text(one.chance),
            unit=str(one.token_id),
            roles=("accent" if one.token_id == token_id else "",),
            bar=one.chance,
            tip=_CHANCE_TIP,
        )
        for one in record.listed
    ]
    details.append(Detail("entropy", f"{record.entropy_bits:.2f} bits", tip=_ENTROPY_TIP))
    return DetailSection(head, details)


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
