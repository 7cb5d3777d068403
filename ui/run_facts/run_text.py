"""Runs in the words of the window: names, statuses, origins, verdicts, counters; it knows no widget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evprof.core.records import DRAFT, STAGES, TARGET
from evprof.core.request import RunRequest
from evprof.core.rows.blocks import NO_ANSWER
from evprof.core.rows.spans import Span
from evprof.core.run_info import FINISHED, ModelFacts
from evprof.core.run_log import RunLog
from evprof.core.texts import one_line
from evprof.core.units import NS_PER_S, amount_text, count_text, percent_text
from evprof.core.vocabulary.families import family_title
from evprof.core.vocabulary.modes import mode_of
from evprof.core.vocabulary.scoring import RIGHT, TOKEN_F1
from evprof.view.columns import ShownModel
from evprof.view.labels import SHORT_DTYPES, is_drafting

if TYPE_CHECKING:
    from evprof.metrics.facts import Fact
    from evprof.metrics.speculation.payoff import Payoff

NOTHING = "–"
ENERGY_TIP = "of the devices that computed, idle power included; n/a: shorter than a step of the counter"
LONGEST = 100
"""Characters of an expected answer in a line."""


def input_name(path: str) -> str:
    """The part of a path people go by."""
    return Path(path).name or path


def chips(model: ModelFacts | None) -> str:
    """Family, arithmetic and device: `EventGPT · bf16 · cuda:0`; empty without a model, and where nothing is told."""
    parts = () if model is None else (family_title(model.family), short_chips(model))
    return " · ".join(part for part in parts if part)


def short_chips(model: ModelFacts | None) -> str:
    """Arithmetic and device: `bf16 · cuda:0`."""
    if model is None:
        return ""
    parts = (model.quantization or SHORT_DTYPES.get(model.dtype, model.dtype), model.device)
    return " · ".join(part for part in parts if part)


def mode_name(mode: str) -> str:
    """A mode in words."""
    return mode_of(mode).title


def request_title(request: RunRequest) -> str:
    """`Side by side · bus-approaching`."""
    return " · ".join(filter(None, (mode_name(request.mode), request.sample.name)))


def role_name(role: str) -> str:
    """`Draft model`."""
    return f"{role.capitalize()} model"


def run_title(run: RunLog) -> str:
    """`3 · Speculative γ=5`: number, somebody's name for it or its mode, and what sets it apart."""
    marks = ["torch trace" if mark == "profiled" else mark for mark in run.info.marks]
    return " · ".join([str(run.run_id), run.info.name or mode_words(run), *marks])


def mode_words(run: RunLog) -> str:
    """`Speculative γ=5`: the mode, and how much it drafts."""
    return mode_name(run.info.mode) + (_drafting(run) if mode_of(run.info.mode).drafts else "")


def _drafting(run: RunLog) -> str:
    """` γ=5`: how much is drafted per round, where rounds have one number for it; who drafts, the run's label says."""
    asked, gamma = run.info.settings.speculation, run.info.given_settings.get("gamma")
    has_rounds = not mode_of(run.info.mode).is_parallel or asked.afterwards == "rounds"
    return f" γ={gamma}" if gamma and has_rounds and not asked.tree else ""


def drafter_kind(run: RunLog) -> str:
    """One of DRAFTERS, or KV: who drafted in a run, or was asked to."""
    facts = run.info.speculation
    return facts.kind if facts is not None else run.info.settings.speculation.drafter


def stage_now(run: RunLog, role: str) -> str:
    """What one model of a run is doing: a stage, "waiting", or how and why the run ended."""
    if run.info.status == FINISHED and run.info.profiled:
        return f"ended at {count_text(len(run.tokens), 'token')}: profiled"
    if run.info.is_over:
        return "imported" if run.info.status == FINISHED and is_imported(run) else run.info.status
    running = run.open_stage(role)
    if running is not None:
        return "drafting" if is_drafting(run, role, running.name) else running.name
    if role != run.info.role and any(span.role == role for span in run.stages()):
        decoding = run.open_stage(run.info.role)
        return "drafting" if decoding is not None and decoding.name == "decode" else "waiting"
    return "waiting" if run.has_spans() else "loading weights"


def stages_in_order(run: RunLog, role: str) -> list[Span]:
    """Stages of one model, in the order of STAGES; an interval that covers several stands where its first would."""
    return sorted(run.stages(role), key=lambda span: STAGES.index(span.covers[0]))


@dataclass(frozen=True)
class Counters:
    """What a column counts while it runs. None where there is nothing to count yet."""

    tokens: int
    tokens_per_s: float | None
    first_token_ns: int | None
    kv_bytes: int | None


def counters(column: ShownModel) -> Counters:
    """Counts of one model of a run: its answer's tokens, or those it drafted."""
    from evprof.metrics.figures.decoding import decode_throughput_tok_s
    from evprof.metrics.figures.kv_cache import live_bytes

    run, role = column
    if not column.is_answer:
        drafted = sum(entry.drafted for entry in run.rounds)
        return Counters(drafted, None, None, live_bytes(run, role))
    # The records of most imported runs' tokens have no times of their own.
    answer = run.answer_extent if run.info.has_token_times else NO_ANSWER
    zero, passed_ns = run.info.start_ns, answer.passed_ns
    # Until decode is over: tokens 2…n by the host's clock.
    so_far = (answer.length - 1) * NS_PER_S / passed_ns if passed_ns else None
    return Counters(
        tokens=answer.length,
        tokens_per_s=decode_throughput_tok_s(run) or so_far,
        first_token_ns=None if answer.first_ns is None or zero is None else answer.first_ns - zero,
        kv_bytes=live_bytes(run, role),
    )


# Imported runs.


def is_imported(run: RunLog) -> bool:
    """Whether another program measured it."""
    return run.info.imported is not None


def provenance_tip(run: RunLog) -> str:
    """Every line that is known of where a run comes from; empty for runs of ours."""
    imported = run.info.imported
    if imported is None:
        return ""
    lines = [f"Imported from {imported.path}", f"{imported.family}, row {imported.row}"]
    return "\n".join([*lines, *imported.notes])


def cell_names(run: RunLog) -> tuple[str, str]:
    """The name of a run's cell, and the file it was imported from, which its name may end with; "" for suites."""
    cell, imported = run.info.cell, run.info.imported
    if imported is None:
        return cell, ""
    file = Path(imported.path).name
    return cell.removesuffix(file).rstrip(" ·") or cell, file


def lacking(runs: Iterable[RunLog], what: str) -> str:
    """A sentence that the files of imported runs do not give something; empty while one run is ours."""
    listed = list(runs)
    if not listed or not all(map(is_imported, listed)):
        return ""
    names = dict.fromkeys(Path(run.info.imported.path).name for run in listed if run.info.imported is not None)
    return f"Not in {' and '.join(names)}: {what}."


# Tokens, energy and verdicts.


def chance_text(chance: float | None) -> str:
    """A probability in percent; a dash where a model gives none."""
    if chance is None:
        return NOTHING
    return "< 0.1 %" if chance < 0.0005 else percent_text(chance, 1)


def piece_text(piece: str) -> str:
    """A piece with its spaces and line ends to be seen, so that two can be told apart; "end" of a special one."""
    return piece.replace(" ", "␣").replace("\n", "↵") or "(end)"


def energy_text(run: RunLog, span: Span) -> str:
    """`41.2 J`, "n/a" where it is not known; empty for parts of stages, running ones, and runs without samples."""
    from evprof.metrics.figures.energy import computing_devices, energy_between_j

    if not span.is_stage or not span.is_settled or span.end_ns is None or not computing_devices(run):
        return ""
    return amount_text(energy_between_j(run, span.start_ns, span.end_ns), "J")


def judgement_of(run: RunLog, payoff: Payoff | None) -> str:
    """The tone of the sentence: "good" or "warn" where the interval says so, else "dim"."""
    if mode_of(run.info.mode).maps_cache:
        return "warn"
    if payoff is None or not payoff.is_clear:
        return "dim"
    return "good" if payoff.is_faster else "warn"


# Expected answers.


def expected_line(run: RunLog) -> tuple[str, str]:
    """`Right · expected C, “a bus”`, and its tone; "" where the sample expects nothing."""
    if not run.info.sample.is_scored:
        return "", "dim"
    from evprof.metrics.facts import VERDICT_TONES, expected_text, verdict_of
    from evprof.metrics.figures.scores import score

    wanted, verdict = f"expected {expected_text(run, LONGEST)}", verdict_of(run)
    if not verdict:
        return wanted[0].upper() + wanted[1:], "dim"
    shared = score(run, TOKEN_F1) if verdict == "Wrong" else None
    near = "" if shared is None else f"F1 {percent_text(shared)}"
    return " · ".join(filter(None, (verdict, near, wanted))), VERDICT_TONES.get(verdict, "dim")


def verdicts_of(group: Sequence[RunLog]) -> str:
    """`right`, `F1 42 %`; of two models `both wrong`, or `draft right, target wrong`; "" until all are over."""
    from evprof.metrics.facts import verdict_of

    if not all(run.info.status == FINISHED and run.info.sample.is_scored for run in group):
        return ""
    found = [verdict.lower() if verdict in ("Right", "Wrong") else verdict for verdict in map(verdict_of, group)]
    if not all(found):
        return ""
    if len(set(found)) == 1:
        return found[0] if len(group) == 1 else f"both {found[0]}"
    return ", ".join(f"{run.info.role} {verdict}" for run, verdict in zip(group, found, strict=True))


def score_words(scores: Sequence[Fact]) -> str:
    """`33 % right` of one role, `33 / 0 % right` of draft and target; of free text the mean token F1: `F1 33 / 0 %`."""
    for key, pattern in ((RIGHT, "{} % right"), (TOKEN_F1, "F1 {} %")):
        shares = {fact.name: fact.value for fact in scores if fact.key == key and isinstance(fact.value, float)}
        if shares:
            return pattern.format(" / ".join(f"{100 * shares[role]:.0f}" for role in (DRAFT, TARGET) if role in shares))
    return ""


def expected_note(runs: Sequence[RunLog]) -> str:
    """`Expected: C, “a bus” · vehicles`, once where all runs expect the same; "" where nothing is expected."""
    from evprof.metrics.facts import expected_text

    wanted: dict[str, list[str]] = {}
    for run in runs:
        sample = run.info.sample
        if sample.is_scored:
            words = " · ".join(filter(None, (expected_text(run), one_line(sample.task, LONGEST))))
            wanted.setdefault(words, []).append(str(run.run_id))
    if len(wanted) == 1:
        return f"Expected: {next(iter(wanted))}"
    return "\n".join(f"Expected of run {', '.join(ids)}: {words}" for words, ids in wanted.items())
