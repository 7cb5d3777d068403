"""The inspector's sections for a token, a round and a range of time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evprof.core.records import DRAFT, ORIGIN_ACCEPTED, AlternativesRecord, RoundRecord, TokenRecord
from evprof.core.rows.spans import Span
from evprof.core.run_log import RunLog
from evprof.core.units import NS_PER_S, bytes_text, percent_text
from evprof.view.alignment import step_of
from evprof.view.labels import stage_title, stages_in
from evprof.view.lanes import Floats, Ints, RangeFigure, Track, figures_in
from ui.run_facts.run_text import NOTHING, chance_text, piece_text
from ui.runs.run_details import Detail, DetailSection, ns_text, times_text

NOT_RECORDED = (
    "Not recorded: alternatives were left out, an older version made this run, or its engine ended too early."
)

_ENTROPY_TIP = "how undecided the model was: 0 bits are certain, 1 bit is a coin toss, 2 bits four equal choices"
_CHANCE_TIP = "the model's own probability, before temperature, top-k and top-p"
_SUM_TIP = "how many reach into the range, the time they cover in it, and the share of it"

_MOST_PARTS = 12
"""Kinds of parts that a range lists."""


def token_sections(run: RunLog, position: int) -> list[DetailSection]:
    """A token of the answer, what else was likely there, and the rejected ones drafted for its place."""
    index = next((number for number, token in enumerate(run.tokens) if token.position == position), None)
    rejected = [token for token in run.rejected if token.position == position]
    sections = []
    if index is not None:
        token, before = run.tokens[index], run.tokens[index - 1] if index else None
        sections.append(DetailSection(f"Token {position}", _token_details(run, token, before)))
        sections += _likeliest(run, token)
        sections += _seen(run, token)
    if rejected:
        details = [_rejected(run, token) for token in rejected]
        sections.append(DetailSection("Drafted for this place and rejected", details))
        sections += _odds("The draft's likeliest there", run.alternatives_of(rejected[0]), rejected[0].token_id)
    return sections


def drafted_sections(run: RunLog, round_index: int, position: int) -> list[DetailSection]:
    """A rejected token of a round, the token that stands there instead, and the probabilities of both models."""
    place = round_index, position
    token = next((token for token in run.rejected if (token.round_index, token.position) == place), None)
    if token is None:
        return []
    standing = next((token for token in run.tokens if token.position == position), None)
    details = [Detail("piece", _quoted(token.piece)), Detail("id", str(token.token_id))]
    details += [Detail("origin", token.origin), Detail("for token", str(position))]
    details += [Detail("stands there instead", _quoted(standing.piece))] if standing is not None else []
    details += _step(step_of(run, token))
    sections = [DetailSection("Drafted and rejected", details)]
    sections += _odds("The draft's likeliest there", run.alternatives_of(token), token.token_id)
    if standing is not None and standing.round_index == round_index:
        sections += _odds("The target's likeliest there", run.alternatives_of(standing), standing.token_id)
    return sections


def round_sections(run: RunLog, round_index: int) -> list[DetailSection]:
    """A round: its times, and what became of the drafted tokens."""
    entry = next((entry for entry in run.rounds if entry.round_index == round_index), None)
    if entry is None:
        return []
    sections = [DetailSection(f"Round {round_index + 1}", _round_details(run, entry))]
    for head, tokens in (("Reached the answer", run.tokens), ("Rejected", run.rejected)):
        mine = [token for token in tokens if token.round_index == round_index]
        details = [
            Detail(_quoted(token.piece), _chance(run, token), unit=token.origin, tip=_CHANCE_TIP) for token in mine
        ]
        sections += [DetailSection(head, details)] if details else []
    return sections


def _round_details(run: RunLog, entry: RoundRecord) -> list[Detail]:
    spent, zero = entry.draft_ns + entry.verify_ns + entry.rollback_ns, run.info.start_ns
    details = [Detail("accepted of drafted", f"{entry.accepted} of {entry.drafted}")]
    details += [Detail("drafted", "inside the target's prefill")] if entry.hidden else []
    details += [Detail("start", ns_text(entry.start_ns - zero))] if zero is not None else []
    details += [
        Detail("draft", ns_text(entry.draft_ns), "draft"),
        Detail("verify", ns_text(entry.verify_ns), "verify"),
        Detail("roll-back", ns_text(entry.rollback_ns)),
    ]
    if entry.emitted and not entry.hidden:
        details.append(Detail("time per output token", ns_text(spent / entry.emitted)))
    return details


def _rejected(run: RunLog, token: TokenRecord) -> Detail:
    chance = _chance(run, token)
    prefix = "" if chance == NOTHING else f"{chance} · "
    return Detail(_quoted(token.piece), f"{prefix}id {token.token_id} · round {token.round_index + 1}", tip=_CHANCE_TIP)


def _chance(run: RunLog, token: TokenRecord) -> str:
    """By the model that chose or proposed it; a bound where it is not among the likeliest."""
    record = run.alternatives_of(token)
    if record is None:
        return NOTHING
    known, most = record.chance_of(token.token_id), record.chance_at_most(token.token_id)
    return chance_text(known) if known is not None or most is None else f"≤ {chance_text(most)}"


def _quoted(piece: str) -> str:
    """The piece in quotation marks; spaces and line breaks as their escapes, the end as such."""
    return f"“{piece.strip() or repr(piece)[1:-1] or '(end)'}”"


def _token_details(run: RunLog, token: TokenRecord, before: TokenRecord | None) -> list[Detail]:
    zero, is_named = run.info.start_ns, token.known_id is not None
    details = [Detail("piece", _quoted(token.piece)), Detail("id", str(token.token_id))] if is_named else []
    details.append(Detail("origin", token.origin))
    details += [Detail("round", str(token.round_index + 1))] if token.round_index >= 0 else []
    if zero is not None and run.info.has_token_times:
        details.append(Detail("time", ns_text(token.t_ns - zero)))
        details.append(Detail("since previous token", NOTHING if before is None else ns_text(token.t_ns - before.t_ns)))
        details += _step(step_of(run, token))
    return details


def _step(step: Span | None) -> list[Detail]:
    if step is None:
        return []
    duration = "running" if step.duration_ns is None else ns_text(step.duration_ns)
    name = stage_title(step.name) if stages_in(step.name) else step.name
    return [Detail("produced by", f"{name} · {duration}", step.name, tip="the measured interval whose result it is")]


def _seen(run: RunLog, token: TokenRecord) -> list[DetailSection]:
    """Its place in the cache, and everything before it."""
    role, details = run.info.role, []
    lengths = run.info.lengths.get(role)
    if lengths is not None:
        position = lengths.input + token.position
        details.append(Detail("position in the cache", str(position), tip="prompt, input and answer before it"))
        details.append(Detail("of them visual", str(lengths.visual)))
    held = next((point for point in reversed(run.kv.get(role, [])) if point.t_ns <= token.t_ns), None)
    if held is not None:
        details.append(Detail("cache then", f"{held.length} · {bytes_text(held.nbytes)}", tip="length and bytes"))
    details += _input(run, role, "")
    details += _input(run, DRAFT, "draft's ") if token.round_index >= 0 and role != DRAFT else []
    return [DetailSection("What it could see", details)] if details else []


def _input(run: RunLog, role: str, prefix: str) -> list[Detail]:
    """The pictures that a model saw; all of them precede its answer."""
    frames = run.frames.get(role, [])
    if not frames:
        return []
    first, last = min(frame.start_us for frame in frames), max(frame.end_us for frame in frames)
    kind = "event slices" if any(frame.end_us > frame.start_us for frame in frames) else "frames"
    text = f"{len(frames)} · {first / 1000:,.0f} … {last / 1000:,.0f} ms"
    return [Detail(f"{prefix}{kind}", text, tip="in the sensor's time")]


def _likeliest(run: RunLog, token: TokenRecord) -> list[DetailSection]:
    own = run.alternatives_of(token)
    if own is None:
        is_missing = run.info.imported is None and run.info.is_over
        return [DetailSection("Likeliest tokens", note=NOT_RECORDED)] if is_missing else []
    drafted = run.alternatives_of(token, DRAFT) if token.origin == ORIGIN_ACCEPTED else None
    tables = (("Likeliest tokens", own), ("The draft's likeliest", drafted))
    return [section for head, record in tables for section in _odds(head, record, token.token_id)]


def _odds(head: str, record: AlternativesRecord | None, token_id: int) -> list[DetailSection]:
    """The likeliest tokens with bars, the chosen one in the accent colour."""
    if record is None:
        return []
    details = [
        Detail(
            f"“{piece_text(entry.piece)}”",
            chance_text(entry.chance),
            unit=str(entry.token_id),
            roles=("accent" if entry.token_id == token_id else "",),
            bar=entry.chance,
            tip=_CHANCE_TIP,
        )
        for entry in record.listed
    ]
    return [DetailSection(head, [*details, Detail("entropy", f"{record.entropy_bits:.2f} bits", tip=_ENTROPY_TIP)])]


def range_sections(tracks: Sequence[Track], start_ns: int, end_ns: int, clock_ns: int = 0) -> list[DetailSection]:
    """What happened between two moments since each run's zero; `clock_ns` is where running spans reach to."""
    ends = {"from": start_ns, "to": end_ns, "length": end_ns - start_ns}
    sections = [DetailSection("Selected range", [Detail(name, ns_text(value)) for name, value in ends.items()])]
    for track in tracks:
        sections += _range_of(track, start_ns, end_ns, track.now(clock_ns))
    return sections


def _range_of(track: Track, start_ns: int, end_ns: int, now_ns: int) -> list[DetailSection]:
    model, zero, length = track.run.info.models.get(track.role), track.zero_ns, max(1, end_ns - start_ns)
    name = model.name if model else track.role
    stages = figures_in(track.stages.rows(zero, now_ns), track.stages.names, start_ns, end_ns)
    parts = figures_in(track.parts.rows(zero, now_ns), track.parts.names, start_ns, end_ns)
    sums = [_sum(figure, length, figure.name) for figure in stages]
    sums += [_sum(part, length, part.name if part.name in ("draft", "verify") else "") for part in parts[:_MOST_PARTS]]
    more = f"and {len(parts) - _MOST_PARTS} more kinds of parts" if len(parts) > _MOST_PARTS else ""
    facts = _kv(track, start_ns, end_ns)
    if track.is_answer:
        facts += _tokens(track, start_ns, end_ns) + _rounds(track, start_ns, end_ns)
    if not sums and not facts:
        return [DetailSection(name, note="Nothing of this model in the range.")]
    sections = [DetailSection(name, sums, more, ("sum", "share") if sums else ())]
    return [*sections, DetailSection("Tokens and cache", facts)] if facts else sections


def _sum(figure: RangeFigure, length_ns: int, swatch: str) -> Detail:
    name = times_text(stage_title(figure.name) if stages_in(figure.name) else figure.name, figure.reaching)
    return Detail(name, ns_text(figure.sum_ns), swatch, _SUM_TIP, beside=percent_text(figure.sum_ns / length_ns))


def _tokens(track: Track, start_ns: int, end_ns: int) -> list[Detail]:
    times = track.token_times()
    inside = times[(times >= start_ns) & (times <= end_ns)]
    if not len(inside):
        return []
    details = [Detail("tokens", str(len(inside)))]
    if inside[-1] > inside[0]:
        rate = (len(inside) - 1) * NS_PER_S / int(inside[-1] - inside[0])
        details.append(Detail("tokens per second", f"{rate:,.1f}"))
        details.append(Detail("longest gap", ns_text(int(np.diff(inside).max()))))
    return details


def _rounds(track: Track, start_ns: int, end_ns: int) -> list[Detail]:
    starts, _, _, _, drafted, accepted, _, _ = track.rounds()
    inside = (starts >= start_ns) & (starts <= end_ns)
    if not inside.any():
        return []
    tried, taken = int(drafted[inside].sum()), int(accepted[inside].sum())
    rate = f" · {percent_text(taken / tried)}" if tried else ""
    count = str(int(inside.sum()))
    return [Detail("rounds that begin", count), Detail("accepted of drafted", f"{taken:,} of {tried:,}{rate}")]


def _kv(track: Track, start_ns: int, end_ns: int) -> list[Detail]:
    times, levels = track.kv_bytes()
    before, last = _level(times, levels, start_ns), _level(times, levels, end_ns)
    if last is None:
        return []
    change = last - (before or 0.0)
    return [Detail("KV cache grew by" if change >= 0 else "KV cache shrank by", bytes_text(abs(change)))]


def _level(times: Ints, levels: Floats, t_ns: int) -> float | None:
    row = int(np.searchsorted(times, t_ns, side="right")) - 1
    return float(levels[row]) if row >= 0 else None
