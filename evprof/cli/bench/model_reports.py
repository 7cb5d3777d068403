"""Reports of the benchmarks of models: drafters beside plain decoding, engine processes, switches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from textwrap import fill

from evprof.cli.terminal.tables import Block, Column, PrintedTable, Row, filled
from evprof.core.units import count_text, ms_text
from evprof.loaders.bundled import pair_sentences


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
    rows, summary = document["rows"], document["summary"]
    for number, row in enumerate(rows, 1):
        spread = filled("{sd_pct:.2f} %", row)
        yield f"process {number}: {row['mean_ms']:,.1f} ms, {spread} from run to run ({count_text(row['runs'], 'run')})"
    between, within = (filled(f"{{{key}:.2f}} %", summary) for key in ("between_processes_pct", "within_process_pct"))
    yield (
        f"{between} from process to process ({len(rows)} processes), {within} from run to run within one (standard "
        "deviations)"
    )


WIDTH = 120

_STAGE_NAMES = {("prefill", "decode"): "LLM", ("vision", "prefill", "decode"): "model"}

_MEANING = """\
run: wall without load; stage ×: the stages aimed at; off / on, above 1 is faster; ± half the median's 95 % interval.
agrees: tokens with the same id at the same position, @ the first that differs. 004: what document 004 expects."""


def switch_blocks(document: Row) -> Iterator[Block]:
    """The machine, the table, the reasons of what is not here, and the meaning of the columns."""
    rows = document["rows"]
    reasons = list(dict.fromkeys(row["reason"] for row in rows if not _is_measured(row)))

    def verdict(row: Row) -> str:
        return str(row["verdict"] or "n/a") if _is_measured(row) else f"not here ({reasons.index(row['reason']) + 1})"

    def measured(read: Callable[[Row], str]) -> Callable[[Row], str]:
        return lambda row: read(row) if _is_measured(row) else "-"

    columns: tuple[Column, ...] = (
        ("switch", _label),
        ("model", "{role}"),
        ("stage", lambda row: _STAGE_NAMES.get(tuple(row["stages"]), "+".join(row["stages"]))),
        ("run", measured(partial(_ratio, "run"))),
        ("stage ×", measured(partial(_ratio, "stage"))),
        *((name, measured(partial(_bytes, name.lower()))) for name in ("weights", "KV", "peak")),
        ("agrees", measured(_agreement)),
        ("004", lambda row: str(row["expected"] or "-")),
        ("verdict", verdict),
    )
    yield _machine_line(document)
    yield ""
    yield PrintedTable(columns, rows, "-", (0, 1, 2, 10), True)
    yield ""
    yield from (fill(f"({number}) {reason}", WIDTH) for number, reason in enumerate(reasons, start=1))
    yield from (fill(line, WIDTH) for line in _lines(rows))
    yield _MEANING


def _is_measured(row: Row) -> bool:
    return bool(row["status"] == "measured")


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    """The time of each model with everything off, setup times (before a run's zero), and warnings of switches."""
    measured = [row for row in rows if _is_measured(row)]
    for row in measured:
        if row["switch"] == "nothing":
            yield filled(
                "{role}, everything off: {model}, {run_off_ms:ms} a run without load, {stage_off_ms:ms} of it in "
                "vision, prefill and decode.",
                row,
            )
    took = [
        f"{_label(row)} ({row['role']}) {ms_text(row['setup_on_ms'])}"
        for row in measured
        if row["setup_on_ms"] is not None
    ]
    if took:
        yield f"Setup, in no figure above: {', '.join(took)}."
    yield from (f"{_label(row)} ({row['role']}): {line}" for row in measured for line in row["warnings"])


def _machine_line(document: Row) -> str:
    found, how = document["environment"], document["settings"]
    threads = f", {found['threads']} CPU thread{'s' if found['threads'] > 1 else ''}" if found.get("threads") else ""
    return (
        f"{found.get('device')}{threads}, torch {found.get('torch')}, transformers {found.get('transformers')}, "
        f"{document['measured_at'][:10]}; {how['dtype']}, {how['repeat']} pairs, {how['max_new_tokens']} tokens a run."
    )


def _label(row: Row) -> str:
    """The title, with what it is held against where that is not everything off and not told yet."""
    title, against = str(row["title"]), row["against"]
    return title if row["off_is_plain"] or against in title.split() else f"{title} / {against}"


def _ratio(name: str, row: Row) -> str:
    speed, bounds = row[f"{name}_speed"], row[f"{name}_speed_ci95"]
    if speed is None:
        return "n/a"
    digits = 2 if speed < 10 else 1 if speed < 100 else 0
    return f"{speed:.{digits}f}" + (f"±{(bounds[1] - bounds[0]) / 2:.{digits}f}" if bounds else "")


def _bytes(name: str, row: Row) -> str:
    return short_bytes(row[f"{name}_on_bytes"])


def short_bytes(count: int | None) -> str:
    """A byte count in at most five letters: `752K`, `3.7M`, `13.2G`; "n/a" for None."""
    if count is None:
        return "n/a"
    value = float(count)
    for unit in ("B", "K", "M"):
        if value < 1000:
            return f"{value:.{0 if value >= 100 or unit == 'B' else 1}f}{unit}"
        value /= 1024
    return f"{value:.1f}G"


def _agreement(row: Row) -> str:
    found = row["agreement"]
    parted = found["first_divergence"]
    return f"{found['matched']}/{found['compared']}" + ("" if parted is None else f"@{parted}")
