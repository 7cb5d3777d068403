"""What speculation achieved: acceptance by the field's definitions, and whether it pays here.

Definitions follow vLLM: `draft_acceptance_rate = accepted / drafted` leaves the bonus token out,
`mean_acceptance_length = 1 + accepted / rounds` counts it. Prediction follows Leviathan et al. (arXiv 2211.17192) with
the cost of verification measured instead of taken as 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import median
from typing import Any

from evprof.core.records import RoundRecord
from evprof.core.run_info import FINISHED, ImportedFacts
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.speculation import PAIRED_MODES, PARALLEL_PREFILL, SPECULATIVE_MODES
from evprof.core.units import ms_from_ns
from evprof.metrics.decoding import decode_ms_per_token
from evprof.metrics.stages import Interval, settled_intervals, stage_ms, union_ns
from evprof.view.settings_text import SPECULATION_KEYS, kind_read, settings_of

_NO_QUESTION = (*SPECULATION_KEYS, "max_new_tokens")
"""Settings that runs may differ in and still be weighed against each other, token by token."""


@dataclass(frozen=True)
class Acceptance:
    """Counts over the rounds of one run. `bonus` are the target's own tokens: one per round less a final clip."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    emitted: int = 0
    bonus: int = 0
    rejected_rounds: int = 0
    hidden_drafted: int = 0
    hidden_accepted: int = 0
    per_position: tuple[int, ...] = ()

    @property
    def draft_acceptance_rate(self) -> float | None:
        """accepted / drafted, the bonus excluded; None when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def mean_acceptance_length(self) -> float | None:
        """1 + accepted / rounds, the bonus included; None without rounds."""
        return 1 + self.accepted / self.rounds if self.rounds else None

    @property
    def tokens_per_round(self) -> float | None:
        """Block efficiency: emitted / rounds; None without rounds."""
        return self.emitted / self.rounds if self.rounds else None

    @property
    def token_acceptance_rate(self) -> float | None:
        """Chance that the next drafted token is accepted: accepted / (accepted + first rejections).

        Positions after a round's first rejection were never judged and are left out, so this is above the draft
        acceptance rate and does not depend on gamma. None when nothing was judged.
        """
        judged = self.accepted + self.rejected_rounds
        return self.accepted / judged if judged else None

    def __add__(self, other: Acceptance) -> Acceptance:
        """Counts of two runs together: long answers weigh more."""
        places = max(len(self.per_position), len(other.per_position))
        each = [(*counts.per_position, *(0,) * (places - len(counts.per_position))) for counts in (self, other)]
        plain = [entry.name for entry in fields(self) if entry.name != "per_position"]
        return Acceptance(
            **{name: getattr(self, name) + getattr(other, name) for name in plain},
            per_position=tuple(map(sum, zip(*each, strict=True))),
        )


_DIGITS = 10
"""Of a number that can be one of a tree's widths."""


def draft_depth(run: RunLog, entry: RoundRecord) -> int:
    """How many tokens in a row a round drafted: of a tree its levels, of a chain all of its tokens."""
    facts = run.info.speculation
    if facts is None or not facts.tree:
        return entry.drafted
    depth = nodes = 0
    level = 1
    # What a damaged file says is no reason to fail: a width that is none ends the tree.
    for width in facts.tree.split(","):
        if not (width.isdecimal() and len(width) < _DIGITS):
            break
        level *= int(width)
        if nodes + level > entry.drafted:
            break
        nodes, depth = nodes + level, depth + 1
    return max(depth, entry.accepted)


def has_rejection(run: RunLog, entry: RoundRecord) -> bool:
    """Whether the target put another token in place of a drafted one; neither an end nor a clip rejects."""
    return entry.accepted < draft_depth(run, entry) and entry.emitted > entry.accepted


def acceptance(run: RunLog) -> Acceptance | None:
    """Counts over all rounds so far; None for a run without speculation, zeros before its first round."""
    if not run.rounds:
        if run.info.imported is not None:
            return _imported_acceptance(run.info.imported)
        return Acceptance() if run.info.mode in SPECULATIVE_MODES else None
    rounds = run.rounds
    longest = max((entry.accepted for entry in rounds), default=0)
    return Acceptance(
        rounds=len(rounds),
        drafted=sum(entry.drafted for entry in rounds),
        accepted=sum(entry.accepted for entry in rounds),
        emitted=sum(entry.emitted for entry in rounds),
        bonus=sum(max(0, entry.emitted - entry.accepted) for entry in rounds),
        rejected_rounds=sum(has_rejection(run, entry) for entry in rounds),
        hidden_drafted=sum(entry.drafted for entry in rounds if entry.hidden),
        hidden_accepted=sum(entry.accepted for entry in rounds if entry.hidden),
        per_position=tuple(sum(entry.accepted > place for entry in rounds) for place in range(longest)),
    )


def _imported_acceptance(imported: ImportedFacts) -> Acceptance | None:
    """Counts of a whole answer, whose rounds the file does not tell."""
    drafted, accepted = (imported.figures.get(name) for name in ("drafted_tokens", "accepted_tokens"))
    if drafted is None or accepted is None:
        return None
    return Acceptance(drafted=round(drafted), accepted=round(accepted))


def expected_tokens_per_round(rate: float, gamma: int) -> float:
    """tau = (1 - a^(gamma+1)) / (1 - a): tokens per target call when each drafted token is accepted with chance a."""
    return float(gamma + 1) if rate >= 1 else (1 - rate ** (gamma + 1)) / (1 - rate)


def acceptance_ceiling(rate: float) -> float | None:
    """a / (1 - a): accepted tokens per round that no number of drafted tokens can exceed; None (no limit) at a = 1."""
    return rate / (1 - rate) if rate < 1 else None


def predicted_speedup(tokens_per_round: float, gamma: float, draft_cost: float, verify_cost: float) -> float | None:
    """S = tau / (gamma·c + v); c and v are costs of a drafted token and of a verification in plain target steps."""
    cost = gamma * draft_cost + verify_cost
    return tokens_per_round / cost if cost > 0 else None


@dataclass(frozen=True)
class Verdict:
    """Whether speculation paid, against a plain run of the same target. All times in ms.

    `decode_gain_ms` = (n - 1)·plain step - decode time; `preparation_ms` is what the draft's own load, preprocessing,
    vision and prefill added outside the target's stages; `net_ms` is their difference, positive when it paid.
    `break_even_rate` is the draft acceptance rate at which net would be 0 with these step times, None when even
    accepting everything would not pay. `gamma` is the mean number of tokens drafted per round.
    """

    plain_step_ms: float
    draft_cost: float | None
    verify_cost: float
    gamma: float
    tokens_per_round: float
    predicted_speedup: float | None
    measured_speedup: float
    decode_gain_ms: float
    preparation_ms: float
    net_ms: float
    rate: float | None
    break_even_rate: float | None
    ceiling: float | None

    @property
    def pays(self) -> bool:
        """Whether the run with speculation was the faster one."""
        return self.net_ms > 0


def verdict(run: RunLog, plain_step_ms: float | None) -> Verdict | None:
    """Weighs a speculative run against `plain_step_ms`, the plain target's decode time per token.

    None while anything it needs is not measured: rounds, the decode stage, the plain step. What is drafted inside the
    prefill is weighed by `parallel_prefill`.
    """
    if run.info.mode == PARALLEL_PREFILL:
        return None
    counts, decode = acceptance(run), stage_ms(run, "decode")
    if counts is None or not counts.rounds or not decode or not plain_step_ms or len(run.tokens) < 2:
        return None
    tau = counts.emitted / counts.rounds
    gamma = counts.drafted / counts.rounds
    drafting = ms_from_ns(sum(entry.draft_ns for entry in run.rounds))
    verifying = ms_from_ns(sum(entry.verify_ns + entry.rollback_ns for entry in run.rounds))
    draft_cost = drafting / counts.drafted / plain_step_ms if counts.drafted else None
    verify_cost = verifying / counts.rounds / plain_step_ms
    plain_decode = (len(run.tokens) - 1) * plain_step_ms
    preparation = preparation_ms(run)
    needed = _needed_tokens_per_round(decode / counts.rounds, len(run.tokens) - 1, plain_step_ms, preparation)
    rate = counts.token_acceptance_rate
    return Verdict(
        plain_step_ms=plain_step_ms,
        draft_cost=draft_cost,
        verify_cost=verify_cost,
        gamma=gamma,
        tokens_per_round=tau,
        predicted_speedup=predicted_speedup(tau, gamma, draft_cost or 0.0, verify_cost),
        measured_speedup=plain_decode / decode,
        decode_gain_ms=plain_decode - decode,
        preparation_ms=preparation,
        net_ms=plain_decode - decode - preparation,
        rate=counts.draft_acceptance_rate,
        break_even_rate=_break_even_rate(needed, gamma),
        ceiling=None if rate is None else acceptance_ceiling(rate),
    )


def preparation_ms(run: RunLog) -> float:
    """Time in ms that only the draft's load…prefill take: the union of all stages less that of the target's own."""
    everything = settled_intervals(run)
    own: list[Interval] = settled_intervals(run, role=run.info.role)
    return ms_from_ns(union_ns(everything) - union_ns(own))


def _needed_tokens_per_round(round_ms: float, tokens: int, plain_step_ms: float, preparation: float) -> float | None:
    """tau at which tokens / tau rounds plus the preparation take as long as plain decoding; None when none does."""
    budget = tokens * plain_step_ms - preparation
    return round_ms * tokens / budget if budget > 0 else None


def _break_even_rate(needed: float | None, gamma: float) -> float | None:
    """Draft acceptance rate that gives `needed` = 1 + rate·gamma tokens per round; None above 1."""
    if needed is None or gamma <= 0:
        return None
    rate = max(0.0, (needed - 1) / gamma)
    return rate if rate <= 1 else None


def plain_baseline(run: RunLog, others: Sequence[RunLog]) -> RunLog | None:
    """The latest finished plain run of the same target, input, prompt and settings to weigh `run` against."""
    mine = run.info.models.get(run.info.role)
    if mine is None:
        return None
    question = None
    for other in sorted(others, key=lambda entry: entry.run_id, reverse=True):
        theirs = other.info.models.get(other.info.role)
        if other.info.warmup or other.info.profiled or other.info.mode in PAIRED_MODES or theirs != mine:
            continue
        # Most runs of a data set are of another sample, which is told at once.
        if other.info.status != FINISHED or other.info.sample.get("name") != run.info.sample.get("name"):
            continue
        question = question or _question(run)
        if _question(other) == question:
            return other
    return None


def repeats_of(run: RunLog, others: Sequence[RunLog]) -> list[RunLog]:
    """The measured repeats of one request, itself among them: same group, mode, role and sample, finished."""
    return [
        other
        for other in others
        if (other.info.group_id, other.info.mode, other.info.role, other.info.cell)
        == (run.info.group_id, run.info.mode, run.info.role, run.info.cell)
        and other.info.status == FINISHED
        and not other.info.warmup
        and not other.info.profiled
        and other.info.sample.get("name") == run.info.sample.get("name")
    ]


def plain_step_ms(run: RunLog, others: Sequence[RunLog]) -> float | None:
    """The plain target's decode time per token in ms: the median over the repeats of `plain_baseline`; None without."""
    baseline = plain_baseline(run, others)
    if baseline is None:
        return None
    repeats = repeats_of(baseline, others)
    steps = [step for step in map(decode_ms_per_token, repeats) if step is not None]
    return median(steps) if steps else None


def asked_of(run: RunLog, role: str) -> list[Any]:
    """Prompt, clip and files that a model of a run was asked about; another run may lack the other model's input."""
    sample = Sample.from_facts(run.info.sample)
    asked: list[Any] = [sample.prompt, sample.start_us, sample.duration_us]
    if kind_read(run, role) == "events":
        return [*asked, sample.events_path, sample.rectify_path]
    return [*asked, sample.video_path, sample.video_offset_us, sample.video_times_path]


def _question(run: RunLog) -> list[Any]:
    """What the answering model was asked, and how: a plain run of the target alone may lack the other input."""
    role = run.info.role
    settings = [setting.text for setting in settings_of(run, role) if setting.key not in _NO_QUESTION]
    return [*asked_of(run, role), *settings]
