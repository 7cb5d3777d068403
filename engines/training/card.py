"""The model card of an adapter: what it is, what it was trained on, and what was measured, from its own description."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engines.adapters.folder import description
from evprof.core.errors import UserError
from evprof.core.files.whole_file import whole_file
from evprof.core.units import percent_text, times_text
from evprof.core.vocabulary.drafters import KINDS
from evprof.loaders.adapters import CARD, DESCRIPTION, AdapterInfo
from evprof.loaders.bundled import pair_evaluation, pair_sentences
from evprof.loaders.paths import reason

_LIMITS = {
    False: "It suits these models alone, and answers like those it was taught on. Where it guesses badly fewer of its "
    "tokens are accepted; the answer stays the target's own.",
    True: "It suits this pair alone. Where it is used answers are no longer the target's own, and how often they agree "
    "was measured on answers like those it was taught on.",
}


def write_evaluation(adapter: AdapterInfo, evaluation: dict[str, Any]) -> None:
    """Puts what was measured into the adapter's description and model card. Raises UserError when it cannot."""
    measured = replace(adapter, evaluation=evaluation)
    try:
        with whole_file(adapter.folder / DESCRIPTION) as stream:
            stream.write(json.dumps(description(measured), indent=1, sort_keys=True) + "\n")
        with whole_file(adapter.folder / CARD) as stream:
            stream.write(card_of(measured))
    except OSError as error:
        raise UserError(
            f"{adapter.folder}: cannot be written ({reason(error)}); check its permissions, or add --no-write."
        ) from None


def card_of(info: AdapterInfo) -> str:
    lines = [f"# {info.name}", "", KINDS[info.kind].card, ""]
    lines += _table(
        ("", ""),
        [
            ("kind", f"`{info.kind}`"),
            ("target", f"`{info.target}`"),
            ("draft", f"`{info.draft}`" if info.draft else "none takes part"),
            (
                "hidden size",
                f"{info.hidden_size}" + (f", draft {info.draft_hidden_size}" * bool(info.draft_hidden_size)),
            ),
            ("vocabulary", f"{info.vocabulary}"),
            *((name, _told(value)) for name, value in sorted(info.config.items())),
        ],
    )
    lines += ["", "## Training", "", *_training(info.training), "", "## Evaluation", "", *_evaluation(info)]
    lines += ["", "## Limits", "", _LIMITS[KINDS[info.kind].maps_cache]]
    return "\n".join(lines).rstrip() + "\n"


def _told(value: Any) -> str:
    return ", ".join(f"{name} {each}" for name, each in value.items()) if isinstance(value, Mapping) else f"{value}"


def _training(facts: Mapping[str, Any]) -> list[str]:
    told = [
        f"{facts.get('examples', 0):,} answers of the target from {facts.get('scenes', 'an unknown number of')} "
        f"scenes; {facts.get('validation_examples', 0):,} more, of scenes held back, chose the state that is kept."
    ]
    options = facts.get("options")
    if isinstance(options, dict) and facts.get("steps"):
        told.append(
            f"AdamW, {facts['steps'][-1]:,} of {options.get('steps')} steps of {options.get('batch')} answers, "
            f"learning rate {options.get('learning_rate'):g} (rising, then a cosine), seed {options.get('seed')}; the "
            f"state after step {facts.get('best_step')} is kept"
            + (", nothing better came." if facts.get("stopped_early") else ".")
        )
    columns = (facts.get(f"validation_{name}", ()) for name in ("steps", "loss", "match"))
    rows = list(zip(*columns, strict=False))
    if rows:
        told += ["", *_table(("step", "loss, held back", "tokens right, held back"), _thinned(rows))]
    if facts.get("data"):
        told += ["", f"Data: `{facts['data']}`, target `{facts.get('target_identity', 'unknown')}`."]
    return told


def _thinned(rows: Sequence[tuple[int, float, float]], most: int = 12) -> list[tuple[str, str, str]]:
    step = max(1, -(-len(rows) // most))
    kept = [row for number, row in enumerate(rows) if number % step == 0 or row is rows[-1]]
    return [(f"{at}", f"{loss:.3f}", percent_text(match, 1)) for at, loss, match in kept]


def _evaluation(info: AdapterInfo) -> list[str]:
    found = info.evaluation
    if not found:
        return ["Not evaluated yet: `evprof adapter evaluate` measures it and writes this section."]
    rows = [(name, text) for name, text in evaluation_rows(found) if text is not None]
    where = (
        f"{found.get('samples')} held-out samples, {found.get('repeat')} pairs of runs each, {found.get('device')}, "
    )
    where += f"{found.get('dtype')}, greedy. Tokens and rounds are counted once a sample."
    commands = [text for name in ("samples_command", "command") if (text := found.get(name))]
    again = ["", "Measured by:", "", "```sh", *commands, "```"] if commands else []
    pair = pair_evaluation(info.target, info.draft)
    known = [line for sentence in pair_sentences(info.target, pair) for line in ("", sentence)] if pair else []
    return [where, "", *_table(("", ""), rows), *known, *again]


def evaluation_rows(found: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    def share(name: str) -> str | None:
        return None if (value := found.get(name)) is None else percent_text(value, 1)

    def number(name: str) -> str | None:
        return None if (value := found.get(name)) is None else f"{value:.3f}"

    def ratio(name: str) -> str | None:
        value, interval = found.get(f"{name}_speedup"), found.get(f"{name}_ci95")
        limits = f" (95 %: {interval[0]:.2f} to {interval[1]:.2f})" if interval else ""
        return None if value is None else times_text(value) + limits

    each = ("n/a" if value is None else percent_text(value, 1) for value in found.get("acceptance_per_position") or [])
    counts = "{drafted:,}, {accepted:,} in {rounds:,} rounds".format_map(found) if found.get("drafted") else None
    return [
        ("tokens right (teacher-forced)", share("token_match")),
        ("cosine of hidden states", number("cosine")),
        ("drafted, accepted", counts),
        ("draft acceptance rate", share("draft_acceptance_rate")),
        ("acceptance by position", " / ".join(each) or None),
        ("mean acceptance length", number("mean_acceptance_length")),
        ("draft length γ", None if found.get("gamma") is None else f"{found['gamma']}"),
        ("agreement with the target's answer", share("agreement")),
        ("speedup of decoding", ratio("decode")),
        ("speedup end to end", ratio("end_to_end")),
        (
            "answers equal to plain decoding",
            "{same_answers} of {answers}".format_map(found) if found.get("answers") else None,
        ),
    ]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]
