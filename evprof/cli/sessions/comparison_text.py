"""A comparison for people to read in a terminal: columns, settings, figures, what makes a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill, shorten
from typing import Any

from evprof.cli.sessions.accuracy_text import mcnemar_line, print_accuracy
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.fitting import GAP, Cell, Piece, total_width
from evprof.core.units import amount_text, bytes_text, count_text, ms_text, percent_text, ratio_digits, times_text

BAR = 24
"""Letters of the longest bar."""

BETTER, WORSE = "▲ better", "▼ worse"
_LONGER_BAR, _SHORTER_BAR = "█", "░"

_GOOD, _BAD, _NEITHER = "green", "red", "cyan"
_STRONG = 2.0
"""A ratio from which a difference is shown bold."""

_LONGEST_TOLD, _LEAST_TOLD = 60, 12

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
        told = f": {_column_text(column, _is_of_many(document))}"
        if len(label + told) > out.width:
            out.folded(label + told)
        else:
            out.line((label, "bold"), told)
    _print_settings(document, labels, out)
    out.line()
    if said := document["comparability"]["sentence"]:
        out.line((fill(said, out.width), "yellow"))
    if document["rows"]:
        _print_rows(document, labels, out)
    else:
        out.line("No figure is known to differ from the baseline's: no interval leaves 1 out.")
    if document["accuracy"] is not None:
        print_accuracy(document["accuracy"], labels, out)
    others = [label for label, column in listed if not column["is_baseline"]]
    for label, pair in zip(others, document["pairs"], strict=True):
        _print_pair(label, labels[_baseline(document)], pair, out)


def labels_of(document: Document) -> list[str]:
    """What the columns are called in short."""
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


def _print_settings(document: Document, labels: Sequence[str], out: Console) -> None:
    """Only what differs: everything else is told by `show`."""
    rows = [
        (setting["name"], [value or "n/a" for value in setting["values"]])
        for setting in document["settings"]
        if len({value for value in setting["values"] if value is not None}) > 1
    ]
    if not rows:
        return
    room = max(_LEAST_TOLD, out.width - max(len(name) for name, _ in rows) - len(GAP))
    out.line()
    out.line("set differently:")

    def lines(chosen: Sequence[int]) -> list[Cells]:
        head: Cells = ["", *((labels[index], "bold") for index in chosen)]
        return [head, *([name, *(_cut(values[index], room) for index in chosen)] for name, values in rows)]

    for chosen in _fitting(range(len(labels)), lines, out.width):
        out.table(lines(chosen), left=1 + len(chosen))


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _fitting(indices: Sequence[int], lines: Callable[[Sequence[int]], list[Cells]], width: int) -> Iterator[list[int]]:
    """The columns in groups whose table is no wider than `width`, at least one in each."""
    rest = list(indices)
    while rest:
        taken = 1
        while taken < len(rest) and total_width(lines(rest[: taken + 1])) <= width:
            taken += 1
        yield rest[:taken]
        rest = rest[taken:]


def figure_text(value: float | None, unit: str) -> str:
    """A figure of the comparison with its unit."""
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
    """Tables of as many columns beside the baseline as a line holds."""
    base = _baseline(document)

    def lines(chosen: Sequence[int]) -> list[Cells]:
        return _lines(document, labels, chosen)

    for chosen in _fitting([index for index in range(len(labels)) if index != base], lines, out.width):
        out.table(_widest(document, labels, chosen, out.width))
        out.line()
    for note in dict.fromkeys(note for row in document["rows"] for note in row["notes"]):
        out.line(fill(f"note: {note}", out.width))
    out.line(fill(_MEANING, out.width))


FULL, WITHOUT_DIFFERENCES, IN_TWO_LINES = range(3)
"""What a row tells, by the room there is: a difference can be reckoned from its two values, and no line may break."""

_TITLES = {FULL: ("difference", "ratio", ""), WITHOUT_DIFFERENCES: ("ratio", ""), IN_TWO_LINES: ()}
"""What stands above what is told behind a value."""


def _widest(document: Document, labels: Sequence[str], chosen: Sequence[int], width: int) -> list[Cells]:
    """The table that tells most of those that `width` holds."""
    told: list[Cells] = []
    for layout in (FULL, WITHOUT_DIFFERENCES, IN_TWO_LINES):
        told = _lines(document, labels, chosen, layout)
        if total_width(told) <= width:
            break
    return told


def _lines(document: Document, labels: Sequence[str], others: Sequence[int], layout: int = FULL) -> list[Cells]:
    """A table of the baseline and some of the other columns; with `differences_only` of what differs in these."""
    base, rows = _baseline(document), document["rows"]
    counts = [max(row["counts"][index] for row in rows) for index in range(len(labels))]
    titles = _TITLES[layout]
    head: list[Cells] = [["", (labels[base], "bold")], ["n", f"{counts[base]:,}"]]
    for index in others:
        head[0] += [(labels[index], "bold"), *titles]
        head[1] += [f"{counts[index]:,}", *[""] * len(titles)]
    rows = [row for row in rows if any(row["counts"][index] for index in (base, *others))]
    if document["differences_only"]:
        rows = [row for row in rows if any(row["differs"][index] for index in others)]
    told: list[Cells] = []
    for row in rows:
        line: Cells = [row["metric"], _value(row, base, counts, layout)]
        below: Cells = ["", ""]
        for index in others:
            change = _change(row, index, layout)
            line += [_value(row, index, counts, layout), *(change if layout != IN_TWO_LINES else [])]
            below += change
        told += [line, below] if layout == IN_TWO_LINES else [line]
    return head + told


def _change(row: Document, index: int, layout: int) -> Cells:
    """Difference, ratio and judgement of a column that is not the baseline."""
    word, style = _judgement(row, index)
    interval = row["ci95"][index] if row["ci95"] else None
    paired = row["paired_counts"][index]
    # Where one of both lacks samples, the ratio is over fewer than the value.
    few = f" over {paired}" if paired is not None and paired < row["counts"][index] else ""
    ratio = ratio_text(row["ratio"][index], interval) + few
    if layout == FULL:
        texts = [signed_text(row["delta"][index], row["unit"]), ratio, word]
    elif layout == WITHOUT_DIFFERENCES:
        texts = [ratio, word]
    else:
        texts = [" ".join(filter(None, (ratio, word)))]
    return [(text, style) for text in texts]


def _value(row: Document, index: int, counts: Sequence[int], layout: int) -> Piece:
    count = row["counts"][index]
    text = figure_text(row["values"][index], row["unit"])
    if layout != FULL and row["metric"].endswith(row["unit"].replace("/", "_")) and "/" in row["unit"]:
        text = text.removesuffix(f" {row['unit']}")  # the name says it
    return (f"{text} (n = {count})" if 0 < count < counts[index] else text), ""


def _judgement(row: Document, index: int) -> Piece:
    """What is certain of a difference, in words as well as colour: its worth, else its direction."""
    if not row["differs"][index]:
        return "", ""
    ratio = row["ratio"][index]
    strong = "bold " if ratio is not None and (ratio >= _STRONG or ratio <= 1 / _STRONG) else ""
    if row["lower_is_better"] is None:
        return "more" if row["delta"][index] > 0 else "less", strong + _NEITHER
    is_good = (row["delta"][index] < 0) == row["lower_is_better"]
    return (BETTER, strong + _GOOD) if is_good else (WORSE, strong + _BAD)


def _print_pair(label: str, base: str, pair: Document, out: Console) -> None:
    """What is said of one column and the baseline."""
    parts = sorted(pair["contributions"], key=lambda part: -abs(part["delta_ms"]))
    if parts:
        out.line()
        how = (
            "" if pair["samples"] is None else f" (mean of {count_text(pair['samples'], 'sample')} that both measured)"
        )
        out.folded(f"where the difference of {label} from {base} comes from{how}:")
        out.table(_bars(parts, out.width))
    found = pair["generation"]
    if found["product"] is not None:
        out.line(
            f"generation: {times_text(found['token_count_ratio'])} tokens · "
            f"{times_text(found['time_per_token_ratio'])} time per token = {times_text(found['product'])}"
        )
    match = pair["token_match"]
    if match["rate"] is not None:
        out.line(
            f"same token at the same position: {match['matched']:,} of {match['compared']:,} "
            f"({percent_text(match['rate'])})"
        )
    if pair["mcnemar"] is not None:
        out.folded(mcnemar_line(pair["mcnemar"], base, label))
    if pair["text_diff"] is not None:
        for text in _answer_lines(pair["text_diff"], base, label):
            out.folded(text)


def _answer_lines(diff: Document, base: str, label: str) -> list[str]:
    """Where the answers part and when; and when each came to a word of the expected answer."""
    common = diff["common_words"]
    lines = []
    if diff["parting"] is not None:
        after = f"after {count_text(common, 'word')} that both say" if common else "at the first word"
        lines.append(
            f"answers part {after}: {base} {_told(diff['parting']['a'])}, {label} {_told(diff['parting']['b'])}"
        )
    elif common:
        lines.append(f"answers have the same {common} words")
    if diff["first_keyword"] is not None:
        a, b = (_keyword(diff["first_keyword"][side]) for side in "ab")
        lines.append(f"first word of the expected answer: {base} {a}, {label} {b}")
    return lines


def _told(side: Document) -> str:
    """Words and when their first one was said."""
    if not side["text"]:
        return "ends"
    when = "" if side["start_ms"] is None else f" at {ms_text(side['start_ms'])}"
    return f"goes on “{shorten(side['text'], _LONGEST_TOLD, placeholder=' …')}”{when}"


def _keyword(found: Document | None) -> str:
    if found is None:
        return "none"
    return f"“{found['word']}”" + ("" if found["ms"] is None else f" at {ms_text(found['ms'])}")


def _bars(parts: Sequence[Document], width: int) -> list[Cells]:
    """Parts of a difference as bars, the longest first: full ones took longer, light ones shorter."""
    longest = max(abs(part["delta_ms"]) for part in parts)
    lines: list[Cells] = []
    for part in parts:
        interval = part["ci95"]
        spread = f"[{signed_text(interval[0], 'ms')}, {signed_text(interval[1], 'ms')}]" if interval else ""
        share = "" if part["share"] is None else percent_text(part["share"])
        lines.append([part["stage"], signed_text(part["delta_ms"], "ms"), spread, share])
    room = min(BAR, max(1, width - total_width(lines) - len(GAP)))
    for part, line in zip(parts, lines, strict=True):
        delta = part["delta_ms"]
        length = round(room * abs(delta) / longest) if longest else 0
        style = "" if not length else _BAD if delta > 0 else _GOOD
        line.append((((_LONGER_BAR if delta > 0 else _SHORTER_BAR) * length).ljust(room), style))
    return lines
