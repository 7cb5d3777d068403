"""What the benchmarks of models tell: drafters beside plain decoding, engine processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from evprof.cli.terminal.blocks import Block, Column, PrintedTable, Row, filled
from evprof.core.units import count_text
from evprof.loaders.bundled_evaluation import pair_sentences


def _range(row: Row) -> str:
    return filled("{decode_ci95[0]:.2f}–{decode_ci95[1]:.2f}", row, "")


def _same(row: Row) -> str:
    return filled(
        "{same_answers:,}/{answers:,}" if row["is_lossless"] else "{token_match:share} of tokens", row, "n/a of tokens"
    )


_DRAFTERS: tuple[Column, ...] = (
    ("drafter", lambda row: row["name"] + ("" if row["is_lossless"] else " (lossy)")),
    ("γ", "{gamma}"),
    ("accepted", "{accepted:,}/{drafted:,}"),
    ("rate", "{draft_acceptance_rate:share}"),
    ("a round", "{mean_acceptance_length:.2f}"),
    ("c", "{draft_cost:.2f}"),
    ("v", "{verify_cost:.2f}"),
    ("by the formula", "{predicted:times}"),
    ("decoding", "{decode_speedup:times}"),
    ("95 %", _range),
    ("end to end", "{end_to_end_speedup:times}"),
    ("same", _same),
    ("n", "{scenes} scenes, {runs} pairs"),
)


def speculation_blocks(document: Row) -> Iterator[Block]:
    """A row for each drafter, the fastest first; then how predictions held, and what the columns mean."""
    settings, rows = document["settings"], document["rows"]
    step = next((row for row in rows if row.get("step_ms")), {"step_ms": None})
    yield filled(
        "{target} drafted for by {draft} and others: {samples} samples, {repeat} pairs each, {dtype}, a plain "
        f"step takes {filled('{step_ms:ms}', step)}",
        settings,
    )
    yield ""
    measured = [row for row in rows if not row.get("reason")]
    yield PrintedTable(_DRAFTERS, sorted(measured, key=lambda row: -(row["decode_speedup"] or 0)), missing="n/a")
    yield ""
    yield from (f"{row['name']}: {row['reason']}" for row in rows if row.get("reason"))
    if document["sweep"]:
        yield "Decoding speed predicted from one half of the runs / measured in the other, by draft length:"
        yield ""
        yield _sweep(document["sweep"])
        yield ""
    yield from _drafters_in_words(document["summary"], measured)
    if document.get("pair"):
        yield from pair_sentences(settings["target"], document["pair"])


def _sweep(rows: Sequence[Row]) -> PrintedTable:
    """Predicted / measured by draft length, a line for each drafter."""
    by_drafter: dict[str, dict[int, Row]] = {}
    for row in rows:
        by_drafter.setdefault(row["drafter"], {})[row["gamma"]] = row
    gammas = sorted({row["gamma"] for row in rows})
    columns: list[Column] = [("drafter", "{drafter}"), *((f"γ {gamma}", partial(_swept, gamma)) for gamma in gammas)]
    return PrintedTable(columns, [{"drafter": name, "by_gamma": found} for name, found in by_drafter.items()])


def _swept(gamma: int, row: Row) -> str:
    found = row["by_gamma"].get(gamma)
    return " / ".join(filled(f"{{{key}:times}}", found) for key in ("predicted", "measured")) if found else ""


def _drafters_in_words(summary: Row, rows: Sequence[Row]) -> Iterator[str]:
    if summary["best_lossless_speedup"] is not None:
        name = next(row["name"] for row in rows if row["drafter"] == summary["best_drafter"])
        yield (
            f"Fastest without changing an answer: {name}; it decodes {summary['best_lossless_speedup']:.2f} times as "
            "fast as plain decoding."
        )
    if summary["predicted_vs_measured_worst"] is not None:
        yield filled(
            "Predicted / measured with the draft model as it is, farthest from 1: {predicted_vs_measured_worst:.2f}.",
            summary,
        )
    if summary["answers_differ"]:
        why = "; where they part, both tokens' logits are at most {largest_gap_ulps:g} last places apart"
        yield (
            f"{summary['answers_differ']:,} of {summary['answers']:,} answers differ from plain decoding"
            f"{filled(why, summary, '')}. In float32 none should, in half precision near-ties may."
        )
    elif summary["answers"]:
        yield filled(
            "All {answers:,} different answers, of {unique_tokens:,} tokens each drafter, are plain decoding's, token "
            "for token.",
            summary,
        )
    yield (
        "c and v: a drafted token and a verification in plain steps. The formula: S = tokens / (rounds · (γ c + v) + "
        "preparation). Accepted of drafted leaves the target's own token of each round out, tokens a round count it."
    )


def repeatability_blocks(document: Row) -> Iterator[Block]:
    """A line per process and what they come to."""
    rows, summary = document["rows"], document["summary"]
    for number, row in enumerate(rows, 1):
        spread = filled("{sd_pct:.2f} %", row)
        yield f"process {number}: {row['mean_ms']:,.1f} ms, {spread} from run to run ({count_text(row['runs'], 'run')})"
    between, within = (filled(f"{{{key}:.2f}} %", summary) for key in ("between_processes_pct", "within_process_pct"))
    yield (
        f"{between} from process to process ({len(rows)} processes), {within} from run to run within one (standard "
        "deviations)"
    )
