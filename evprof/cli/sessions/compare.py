"""`evprof compare`: its options, and a comparison for people to read."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from evprof.cli.command import Command, CommandExample
from evprof.cli.options import BASES, add_comparable_option, add_json_option
from evprof.cli.terminal.console import Cell, Console
from evprof.core.errors import USAGE, UserError
from evprof.core.texts import guess_among
from evprof.core.units import amount_text, bytes_text, count_text, ms_text, percent_text, ratio_digits, times_text

if TYPE_CHECKING:
    from evprof.core.run_log import RunLog
    from evprof.metrics.configurations.gathering import Configuration

_LONGEST_NAME, _LONGEST_QUOTE = 200, 60
"""Characters of a name and of a quotation in a sentence."""

_BETTER, _WORSE = ("▲ better", "green"), ("▼ worse", "red")

_MEANING = (
    f"{_BETTER[0]}, {_WORSE[0]} than the baseline; more, less: neither is better. A mark needs a 95 % interval of the "
    "ratio [in brackets] that leaves 1 out and spans less than a factor of 3, by Holm's correction over all rows."
)

Document = Mapping[str, Any]


class CompareCommand(Command):
    """Compare runs of one or more sessions.

    Runs of one configuration are one column: means over samples, of each the mean of its repeats, whatever request they
    came from. Rates are totals over totals. Ratios are over the samples and turns that both sides ran; without turns,
    processes or scenes enough they have no interval. Warm-up, profiled, failed and cancelled runs are left
    out. Totals count on a basis: end-to-end (the wall), without-load (reading the files left out), or model-only
    (vision, prefill, decode). The generation ratio is the token-count ratio times the time-per-token ratio.
    """

    name = "compare"
    examples = (
        CommandExample("evprof compare scene.evprof", "compare the runs of a session"),
        CommandExample(
            "evprof compare eager.evprof compiled.evprof --basis model-only",
            "compare two sessions, without reading the files",
        ),
        CommandExample(
            'evprof compare results/suite.evprof --baseline "8 frames" -o comparison.csv',
            "compare with one configuration and write a table",
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("sessions", metavar="S.evprof", nargs="+", help="sessions whose runs are compared")
        parser.add_argument(
            "--baseline",
            metavar="RUN",
            help="run id of the first session, or the name of a suite's configuration (default: the first)",
        )
        parser.add_argument("--basis", choices=BASES, default=BASES[0], help="what totals count (default: %(default)s)")
        parser.add_argument(
            "--differences-only", action="store_true", help="leave out figures and settings that do not differ"
        )
        parser.add_argument(
            "-o",
            "--output",
            metavar="FILE.csv|FILE.json",
            type=Path,
            help="also write it as a table or document: FILE.csv or FILE.json",
        )
        add_comparable_option(parser)
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        from evprof.export.comparison_tables import check_comparison_path, write_comparison
        from evprof.metrics.comparison.comparability import comparability
        from evprof.metrics.comparison.document import compare_document

        if options.output is not None:
            check_comparison_path(options.output)
        for name in options.sessions[1:]:
            if name.isdecimal() and not Path(name).exists():
                raise UserError(
                    f"{name} is no session: all runs of {options.sessions[0]} are compared; --baseline {name} compares "
                    f"them with run {name}.",
                    exit_code=USAGE,
                )
        listed = [column for path in options.sessions for column in _columns(path, console)]
        if len(listed) < 2:
            raise UserError(
                f"A comparison needs two finished runs that are neither warm-up nor profiled, or two configurations; "
                f"{', '.join(options.sessions)} {'holds' if len(options.sessions) == 1 else 'hold'} {len(listed)}."
            )
        baseline = _baseline(listed, options.baseline)
        if options.require_comparable:
            comparability(listed, listed.index(baseline)).require()
        document = compare_document(listed, baseline, options.basis, differences_only=options.differences_only)
        if options.output is not None:
            write_comparison(document, options.output)
            console.note(f"comparison written: {options.output}")
        if console.is_json:
            console.document(document)
        else:
            print_comparison(document, console)
        return 0


def _columns(path: str, console: Console) -> list[Configuration]:
    from evprof.core.run_info import RUNNING
    from evprof.metrics.configurations.baselines import pooled
    from evprof.metrics.configurations.gathering import configurations_of
    from evprof.session.opened import open_session

    runs = list(open_session(Path(path)).runs.values())
    _report_left_out(path, runs, console)
    return pooled(configurations_of([run for run in runs if run.info.status != RUNNING], path))


def _report_left_out(path: str, runs: Sequence[RunLog], console: Console) -> None:
    from evprof.core.run_info import CANCELLED, FAILED, RUNNING
    from evprof.metrics.configurations.baselines import pooled, runs_text
    from evprof.metrics.configurations.gathering import configurations_of, failed_only, is_comparable, last_attempts

    kept = last_attempts(runs)
    unfinished = [run for run in kept if run.info.status in (RUNNING, FAILED, CANCELLED) and not run.info.warmup]
    if unfinished:
        console.warn(f"{path}: left out because they did not finish: {runs_text(run.run_id for run in unfinished)}")
    for cell in dict.fromkeys(run.info.cell for run in failed_only(runs) if run.info.cell):
        console.warn(f"{path}: no run of '{cell[:_LONGEST_NAME]}' finished")
    cold = {run.run_id for run in kept if run.info.is_cold and is_comparable(run)}
    taken = {run.run_id for column in pooled(configurations_of(kept)) for run in column.runs} if cold else set()
    counts = {
        "warm-up": sum(run.info.warmup for run in kept),
        "cold": len(cold - taken),
        "profiled": sum(run.info.profiled and not run.info.warmup for run in kept),
        "begun again later": len(runs) - len(kept),
    }
    for reason, count in counts.items():
        if count:
            console.note(f"{path}: left out: {count_text(count, 'run')} ({reason})")


def _baseline(listed: Sequence[Configuration], asked: str | None) -> Configuration:
    """The column of that run, by the order of the sessions, or else of that name."""
    if asked is None:
        return listed[0]
    number = int(asked) if asked.isascii() and asked.isdecimal() else None
    for column in listed:
        if any(run.run_id == number for run in column.runs):
            return column
    for column in listed:
        if asked in (column.cell, column.label):
            return column
    known = [column.cell or str(run.run_id) for column in listed for run in column.runs[:99]]
    raise UserError(
        f"--baseline: no run or configuration '{asked}' takes part in this comparison{guess_among(asked, known)}",
        exit_code=USAGE,
    )


def print_comparison(document: Document, out: Console) -> None:
    """The document of `compare`. Columns have letters, or run numbers where those identify them."""
    columns = document["columns"]
    has_sessions = len({column["session"] for column in columns}) > 1
    has_letters = has_sessions or any(column["cell"] for column in columns)
    labels = [chr(ord("A") + i) if i < 26 else f"column {i + 1}" for i in range(len(columns))]
    if not has_letters:
        labels = [f"#{column['run_ids'][0]}" for column in columns]
    for label, column in zip(labels, columns, strict=True):
        out.line((label, "bold"), f": {_column_text(column, has_sessions=has_sessions)}")
    for sentence in filter(None, (pair["why"]["sentence"] for pair in document["pairs"])):
        out.print()
        out.wrapped(sentence)
    settings = [
        [setting["name"], *(value or "n/a" for value in setting["values"])]
        for setting in document["settings"]
        if len({value for value in setting["values"] if value is not None}) > 1
    ]
    if settings:
        out.print("\nset differently:")
        out.table([["", *labels], *settings], left=1 + len(labels))
    out.print()
    if sentence := document["comparability"]["sentence"]:
        out.line((sentence, "yellow"))
    base = next(index for index, column in enumerate(columns) if column["is_baseline"])
    others = [index for index in range(len(columns)) if index != base]
    if document["rows"]:
        _print_rows(document["rows"], labels, base, others, out)
    else:
        out.print("No figure is known to differ from the baseline's: no interval leaves 1 out.")
    if document["accuracy"] is not None:
        _print_accuracy(document["accuracy"], labels, out)
    for index, pair in zip(others, document["pairs"], strict=True):
        _print_pair(labels[index], labels[base], pair, out)


def _column_text(column: Document, *, has_sessions: bool) -> str:
    runs, samples = len(column["run_ids"]), column["samples"]
    parts = [f"run {column['label']}" if samples is None else column["label"]]
    parts += [f"in {Path(column['session']).name}"] if has_sessions and column["session"] else []
    counts = [f"{runs:,} repeats"] if samples is None and runs > 1 else []
    if samples is not None:
        counts = [count_text(samples, "sample"), *([f"{runs:,} runs"] if runs != samples else [])]
    counts += [f"{column['failures']:,} failed"] if column["failures"] else []
    parts += [f"({', '.join(counts)})"] if counts else []
    return " ".join(parts) + (", the baseline" if column["is_baseline"] else "")


def figure_text(value: float | None, unit: str) -> str:
    if value is None or unit in ("J", "W"):
        return amount_text(value, unit)
    if unit in ("ms", "bytes"):
        return ms_text(value) if unit == "ms" else bytes_text(value)
    if unit == "tokens":
        return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
    return f"{value:,.1f} {unit}" if unit else f"{value:.3f}"


def _signed_text(value: float | None, unit: str) -> str:
    """A difference with its sign: `+12.3 ms`, `-4.00 MiB`; "0" for no difference, "n/a" for None."""
    if value is None:
        return "n/a"
    return f"{'+' if value > 0 else '-'}{figure_text(abs(value), unit)}" if value else "0"


def ratio_text(ratio: float | None, interval: Sequence[float] | None) -> str:
    """`1.23× [1.20, 1.26]`; with more digits where two hide a small ratio or a narrow interval."""
    if ratio is None:
        return "n/a"
    digits = ratio_digits(ratio, interval[1] - interval[0] if interval else 0.0)
    shown = times_text(ratio, digits)
    return f"{shown} [{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]" if interval else shown


def _print_rows(
    rows: Sequence[Document], labels: Sequence[str], base: int, others: Sequence[int], out: Console
) -> None:
    counts = [max(row["counts"][index] for row in rows) for index in range(len(labels))]
    heads, numbers = ["", labels[base]], ["n", f"{counts[base]:,}"]
    for index in others:
        heads += [labels[index], "difference", "ratio", ""]
        numbers += [f"{counts[index]:,}", "", "", ""]
    lines: list[list[Cell]] = [[*heads], [*numbers]]
    for row in rows:
        line: list[Cell] = [row["metric"], _value(row, base, counts)]
        for index in others:
            line += [_value(row, index, counts), *_change(row, index)]
        lines.append(line)
    out.table(lines)
    out.print()
    for note in dict.fromkeys(note for row in rows for note in row["notes"]):
        out.wrapped(f"note: {note}")
    out.wrapped(_MEANING)


def _value(row: Document, index: int, counts: Sequence[int]) -> str:
    count = row["counts"][index]
    text = figure_text(row["values"][index], row["unit"])
    return f"{text} (n = {count})" if 0 < count < counts[index] else text


def _change(row: Document, index: int) -> list[Cell]:
    """Difference, ratio, and what is certain of it: its worth, else its direction."""
    word, style = "", ""
    delta, lower_is_better = row["delta"][index], row["lower_is_better"]
    if row["differs"][index]:
        if lower_is_better is None:
            word, style = "more" if delta > 0 else "less", "cyan"
        else:
            word, style = _BETTER if (delta < 0) == lower_is_better else _WORSE
    interval = row["ci95"][index] if row["ci95"] else None
    paired = row["paired_counts"][index]
    # Where one of both lacks samples, the ratio is over fewer than the value.
    few = f" over {paired}" if paired is not None and paired < row["counts"][index] else ""
    texts = (_signed_text(delta, row["unit"]), ratio_text(row["ratio"][index], interval) + few, word)
    return [(text, style) for text in texts]


def _print_accuracy(document: Document, labels: Sequence[str], out: Console) -> None:
    """A line for every column and task, then the rules."""
    from evprof.core.vocabulary.figures import FIGURES
    from evprof.core.vocabulary.scoring import SCORING_RULES
    from evprof.metrics.comparison.accuracy import of_judged

    scored = [(label, column) for label, column in zip(labels, document["columns"], strict=True) if column is not None]
    listed = [(label, part) for label, column in scored for part in (column, *column["tasks"])]
    keys = [key for key in SCORING_RULES if any(key in part["scores"] for _, part in listed)]
    rates = [key for key in ("right_per_s", "right_per_j") if any(part[key] for _, part in listed)]
    lines = [
        [
            label,
            part["task"] or "all",
            str(part["samples"]),
            *(
                percent_text(part["scores"][key]["mean"], 1) + of_judged(key, part["judged"], part["samples"])
                if key in part["scores"]
                else "n/a"
                for key in keys
            ),
            *(f"{part[key]['mean']:.3g}" if part[key] else "n/a" for key in rates),
        ]
        for label, part in listed
    ]
    out.print("\nscores beside time:")
    out.table([["", "task", "n", *(FIGURES[key].title for key in keys), *rates], *lines], left=2)
    for key in keys:
        out.print(f"rule: {SCORING_RULES[key].sentence}")


def _print_pair(label: str, base: str, pair: Document, out: Console) -> None:
    """The causes of the difference between one column and the baseline, and where their answers differ."""
    parts = sorted(pair["contributions"], key=lambda part: -abs(part["delta_ms"]))
    if parts:
        samples = pair["samples"]
        how = "" if samples is None else f" (mean of {count_text(samples, 'sample')} that both measured)"
        out.print(f"\nwhere the difference of {label} from {base} comes from{how}:")
        lines = [
            (
                part["stage"],
                _signed_text(part["delta_ms"], "ms"),
                "" if part["ci95"] is None else "[{}, {}]".format(*(_signed_text(end, "ms") for end in part["ci95"])),
                "" if part["share"] is None else percent_text(part["share"]),
            )
            for part in parts
        ]
        out.table([("stage", "difference", "95 %", "share"), *lines])
    generation, match, parting = pair["generation"], pair["token_match"], (pair["text_diff"] or {}).get("parting")
    if generation["product"] is not None:
        out.print(
            f"generation: {times_text(generation['token_count_ratio'])} tokens · "
            f"{times_text(generation['time_per_token_ratio'])} time per token = {times_text(generation['product'])}"
        )
    if match["rate"] is not None:
        out.print(
            f"same token at the same position: {match['matched']:,} of {match['compared']:,} "
            f"({percent_text(match['rate'])})"
        )
    if parting is not None:
        ends = [
            f"{name} goes on “{shorten(side['text'], _LONGEST_QUOTE, placeholder=' …')}”"
            if side["text"]
            else f"{name} ends"
            for name, side in ((base, parting["a"]), (label, parting["b"]))
        ]
        out.print(f"answers part after {count_text(pair['text_diff']['common_words'], 'word')}: {', '.join(ends)}")
