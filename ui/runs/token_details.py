"""What the inspector says of a token and of a round: where it came from, what was seen, what else was likely."""

from __future__ import annotations

from evprof.core.records import DRAFT, ORIGIN_ACCEPTED, AlternativesRecord, RoundRecord, TokenRecord
from evprof.core.rows.span import Span
from evprof.core.run_log import RunLog
from evprof.core.units import bytes_text, ms_from_ns, ms_text
from evprof.view.labels import stage_title, stages_in
from evprof.view.token_places import step_of
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
