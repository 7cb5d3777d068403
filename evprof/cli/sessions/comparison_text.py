"""A comparison for people to read in a terminal: columns, settings, figures, scores, causes of differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

from evprof.cli.terminal.console import Cell, Console
from evprof.core.units import amount_text, bytes_text, count_text, ms_text, percent_text, ratio_digits, times_text
from evprof.core.vocabulary.figures import FIGURES
from evprof.core.vocabulary.scoring import SCORING_RULES

BAR = 24
"""Letters of the longest bar."""

BETTER, WORSE = "▲ better", "▼ worse"
_LONGER_BAR, _SHORTER_BAR = "█", "░"

_GOOD, _BAD, _NEITHER = "green", "red", "cyan"
_STRONG = 2.0
"""A ratio from which a difference is shown bold."""

_LONGEST_QUOTE = 60

_FIRST_WIDTH, _COLUMN_WIDTH, _MOST_WIDTH = 40, 50, 150
"""Letters of a figure's name with the baseline's value, of a column with its difference, and of a line."""

_MEANING = (
    f"{BETTER}, {WORSE} than the baseline (more, less: neither is better) where the 95 % interval of the ratio "
    "[in brackets] leaves 1 out; without an interval nothing is claimed."
)

Document = Mapping[str, Any]
Cells = list[Cell]


def print_comparison(document: Document, out: Console) -> None:
    """The document of `compare`; columns are called by letters, or by run numbers where those tell them apart."""
    labels = labels_of(document)
    listed = list(zip(labels, document["columns"], strict=True))
    for label, column in listed:
        out.line((label, "bold"), f": {_column_text(column, _is_of_many(document))}")
    _print_settings(document, labels, out)
    out.print()
    if sentence := document["comparability"]["sentence"]:
        out.line((sentence, "yellow"))
    if document["rows"]:
        _print_rows(document, labels, out)
    else:
        out.print("No figure is known to differ from the baseline's: no interval leaves 1 out.")
    if document["accuracy"] is not None:
        print_accuracy(document["accuracy"], labels, out)
    others = [label for label, column in listed if not column["is_baseline"]]
    for label, pair in zip(others, document["pairs"], strict=True):
        _print_pair(label, labels[_baseline(document)], pair, out)


def labels_of(document: Document) -> list[str]:
    listed = document["columns"]
    if _is_of_many(document) or any(column["cell"] for column in listed):
        return [chr(ord("A") + place) if place < 26 else f"column {place + 1}" for place in range(len(listed))]
    return [f"#{column['run_ids'][0]}" for column in listed]


def _baseline(document: Document) -> int:
    return next(index for index, column in enumerate(document["columns"]) if column["is_baseline"])


def _is_of_many(document: Document) -> bool:
    return len({column["session"] for column in document["columns"]}) > 1


def _column_text(column: Document, is_of_many: bool) -> str:
    runs, samples = len(column["run_ids"]), column["samples"]
    parts = [f"run {column['label']}" if samples is None else column["label"]]
    parts += [f"in {Path(column['session']).name}"] if is_of_many and column["session"] else []
    counts = [f"{runs:,} repeats"] if samples is None and runs > 1 else []
    if samples is not None:
        counts = [count_text(samples, "sample"), *([f"{runs:,} runs"] if runs != samples else [])]
    counts += [f"{column['failures']:,} failed"] if column["failures"] else []
    parts += [f"({', '.join(counts)})"] if counts else []
    return " ".join(parts) + (", the baseline" if column["is_baseline"] else "")


def _at_once(out: Console) -> int:
    return max(1, (min(out.width, _MOST_WIDTH) - _FIRST_WIDTH) // _COLUMN_WIDTH)


def _groups(indices: Sequence[int], size: int) -> list[Sequence[int]]:
    return [indices[start : start + size] for start in range(0, len(indices), size)]


def _print_settings(document: Document, labels: Sequence[str], out: Console) -> None:
    """Only what differs: `show` prints the rest."""
    rows = [
        [setting["name"], *(value or "n/a" for value in setting["values"])]
        for setting in document["settings"]
        if len({value for value in setting["values"] if value is not None}) > 1
    ]
    if not rows:
        return
    out.print()
    out.print("set differently:")
    for chosen in _groups(range(1, len(labels) + 1), 1 + _at_once(out)):
        heads: Cells = ["", *((labels[index - 1], "bold") for index in chosen)]
        out.table([heads, *([row[0], *(row[index] for index in chosen)] for row in rows)], left=1 + len(chosen))


def figure_text(value: float | None, unit: str) -> str:
    if value is None or unit in ("J", "W"):
        return amount_text(value, unit)
    match unit:
        case "ms":
            return ms_text(value)
        case "bytes":
            return bytes_text(value)
        case "tokens":
            return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
        case "":
            return f"{value:.3f}"
        case _:
            return f"{value:,.1f} {unit}"


def signed_text(value: float | None, unit: str) -> str:
    """A difference with its sign: `+12.3 ms`, `-4.00 MiB`; "0" of nothing, "n/a" for None."""
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


def _print_rows(document: Document, labels: Sequence[str], out: Console) -> None:
    """Tables of the baseline and some of the other columns; with `differences_only` of what differs in these."""
    base, rows = _baseline(document), document["rows"]
    counts = [max(row["counts"][index] for row in rows) for index in range(len(labels))]
    for others in _groups([index for index in range(len(labels)) if index != base], _at_once(out)):
        heads: Cells = ["", (labels[base], "bold")]
        numbers: Cells = ["n", f"{counts[base]:,}"]
        for index in others:
            heads += [(labels[index], "bold"), "difference", "ratio", ""]
            numbers += [f"{counts[index]:,}", "", "", ""]
        lines = [heads, numbers]
        for row in rows:
            if not any(row["counts"][index] for index in (base, *others)) or (
                document["differences_only"] and not any(row["differs"][index] for index in others)
            ):
                continue
            line: Cells = [row["metric"], _value(row, base, counts)]
            for index in others:
                line += [_value(row, index, counts), *_change(row, index)]
            lines.append(line)
        out.table(lines)
        out.print()
    for note in dict.fromkeys(note for row in rows for note in row["notes"]):
        out.wrapped(f"note: {note}")
    out.wrapped(_MEANING)


def _change(row: Document, index: int) -> Cells:
    word, style = _judgement(row, index)
    interval = row["ci95"][index] if row["ci95"] else None
    paired = row["paired_counts"][index]
    # Where one of both lacks samples, the ratio is over fewer than the value.
    few = f" over {paired}" if paired is not None and paired < row["counts"][index] else ""
    texts = (signed_text(row["delta"][index], row["unit"]), ratio_text(row["ratio"][index], interval) + few, word)
    return [(text, style) for text in texts]


def _value(row: Document, index: int, counts: Sequence[int]) -> str:
    count = row["counts"][index]
    text = figure_text(row["values"][index], row["unit"])
    return f"{text} (n = {count})" if 0 < count < counts[index] else text


def _judgement(row: Document, index: int) -> tuple[str, str]:
    """What is certain of a difference, in words as well as colour: its worth, else its direction."""
    if not row["differs"][index]:
        return "", ""
    ratio = row["ratio"][index]
    strong = "bold " if ratio is not None and (ratio >= _STRONG or ratio <= 1 / _STRONG) else ""
    if row["lower_is_better"] is None:
        return "more" if row["delta"][index] > 0 else "less", strong + _NEITHER
    is_good = (row["delta"][index] < 0) == row["lower_is_better"]
    return (BETTER, strong + _GOOD) if is_good else (WORSE, strong + _BAD)


def print_accuracy(document: Document, labels: Sequence[str], out: Console) -> None:
    """The `accuracy` of a comparison: a line for every column and task, then the rules."""
    from evprof.metrics.comparison.accuracy import of_judged

    columns = [(label, scored) for label, scored in zip(labels, document["columns"], strict=True) if scored is not None]
    listed = [(label, part) for label, scored in columns for part in (scored, *scored["tasks"])]
    keys = [key for key in SCORING_RULES if any(key in part["scores"] for _, part in listed)]
    rates = {
        head: key
        for head, key in (("right/s", "right_per_s"), ("right/J", "right_per_j"))
        if any(part[key] for _, part in listed)
    }
    out.print()
    out.print("scores beside time, with 95 % intervals:")
    lines = [
        [
            label,
            part["task"] or "all",
            str(part["samples"]),
            *(share_text(part["scores"].get(key)) + of_judged(key, part["judged"], part["samples"]) for key in keys),
            *(rate_text(part[key]) for key in rates.values()),
        ]
        for label, part in listed
    ]
    out.table([["", "task", "n", *(FIGURES[key].title for key in keys), *rates], *lines], left=2)
    for key in keys:
        out.print(f"rule: {SCORING_RULES[key].sentence}")


def share_text(share: Document | None) -> str:
    """`83.3 % [55.0, 95.1]`; an interval of shares ends at 0 and 100."""
    if share is None:
        return "n/a"
    ends = [100 * min(max(end, 0.0), 1.0) for end in share["ci95"] or ()]
    return percent_text(share["mean"], 1) + (f" [{ends[0]:.1f}, {ends[1]:.1f}]" if ends else "")


def rate_text(rate: Document | None) -> str:
    if rate is None:
        return "n/a"
    return f"{rate['mean']:.3g}" + (" [{:.3g}, {:.3g}]".format(*rate["ci95"]) if rate["ci95"] else "")


def _print_pair(label: str, base: str, pair: Document, out: Console) -> None:
    """The causes of the difference between one column and the baseline, and where their answers differ."""
    parts = sorted(pair["contributions"], key=lambda part: -abs(part["delta_ms"]))
    if parts:
        samples = pair["samples"]
        how = "" if samples is None else f" (mean of {count_text(samples, 'sample')} that both measured)"
        out.print()
        out.print(f"where the difference of {label} from {base} comes from{how}:")
        out.table(_bars(parts))
    generation = pair["generation"]
    if generation["product"] is not None:
        out.print(
            f"generation: {times_text(generation['token_count_ratio'])} tokens · "
            f"{times_text(generation['time_per_token_ratio'])} time per token = {times_text(generation['product'])}"
        )
    match = pair["token_match"]
    if match["rate"] is not None:
        out.print(
            f"same token at the same position: {match['matched']:,} of {match['compared']:,} "
            f"({percent_text(match['rate'])})"
        )
    if pair["mcnemar"] is not None:
        out.print(_mcnemar_line(pair["mcnemar"], base, label))
    if pair["text_diff"] is not None:
        for line in _answer_lines(pair["text_diff"], base, label):
            out.print(line)


def _bars(parts: Sequence[Document]) -> list[Cells]:
    """Parts of a difference as bars, the longest first: full ones took longer, light ones shorter."""
    longest = max(abs(part["delta_ms"]) for part in parts)
    lines: list[Cells] = [["stage", "difference", "95 %", "share", ""]]
    for part in parts:
        delta, interval = part["delta_ms"], part["ci95"]
        spread = f"[{signed_text(interval[0], 'ms')}, {signed_text(interval[1], 'ms')}]" if interval else ""
        length = round(BAR * abs(delta) / longest) if longest else 0
        bar = (_LONGER_BAR if delta > 0 else _SHORTER_BAR) * length
        share = "" if part["share"] is None else percent_text(part["share"])
        style = "" if not length else _BAD if delta > 0 else _GOOD
        lines.append([part["stage"], signed_text(delta, "ms"), spread, share, (bar.ljust(BAR), style)])
    return lines


def _mcnemar_line(test: Document, base: str, label: str) -> str:
    sentence = (
        f"right answers in {count_text(test['pairs'], 'pair')}: both {test['both']}, only {base} "
        f"{test['only_baseline']}, only {label} {test['only_other']}, neither {test['neither']}; McNemar's exact "
        f"p = {test['exact_p']:.3g}"
    )
    return sentence + (f", χ² = {test['chi2']:.3g}, p = {test['chi2_p']:.3g}" if test["chi2"] is not None else "")


def _answer_lines(diff: Document, base: str, label: str) -> Iterator[str]:
    """Where the answers part and when; and when each came to a word of the expected answer."""
    common = diff["common_words"]
    if diff["parting"] is not None:
        after = f"after {count_text(common, 'word')} that both say" if common else "at the first word"
        yield f"answers part {after}: {base} {_quoted(diff['parting']['a'])}, {label} {_quoted(diff['parting']['b'])}"
    elif common:
        yield f"answers have the same {common} words"
    if diff["first_keyword"] is not None:
        words = [
            "none" if word is None else f"“{word['word']}”{_at(word['ms'])}"
            for word in (diff["first_keyword"][side] for side in "ab")
        ]
        yield f"first word of the expected answer: {base} {words[0]}, {label} {words[1]}"


def _quoted(side: Document) -> str:
    """Words, and the time of the first one."""
    if not side["text"]:
        return "ends"
    return f"goes on “{shorten(side['text'], _LONGEST_QUOTE, placeholder=' …')}”{_at(side['start_ms'])}"


def _at(moment_ms: float | None) -> str:
    return "" if moment_ms is None else f" at {ms_text(moment_ms)}"
