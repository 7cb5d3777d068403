"""What the benchmarks tell: the engine, readers of events and video, evprof's own parts, coverage of intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evprof.cli.terminal.tables import Block, Column, PrintedTable, Row, TableName, filled
from evprof.core.units import count_text, number_text, percent_text


def _right(row: Row) -> str:
    if row["ours_equal"] is None:
        return ""
    return ("yes" if row["ours_equal"] else "NO") + (", library NO" if row["library_equal"] is False else "")


def _ends(ends: Sequence[float] | None) -> str:
    return "" if ends is None else f"{100 * ends[0]:.1f}–{percent_text(ends[1], 1)}"


_ENGINE: tuple[Column, ...] = (
    ("", "{phase} {contender}"),
    ("time", lambda row: filled("{ms:ms} / token" if row["phase"] == "decode" else "{ms:ms}", row)),
    ("middle half", "{ms_low:ms} … {ms_high:ms}"),
    ("tok/s", "{tok_s:,.1f}"),
    ("vs hf_eager", "{vs_hf_eager:times}"),
    ("same tokens", "{agreement:percent}"),
    ("MBU", "{mbu:percent}"),
    ("MFU", "{mfu:percent}"),
    ("turns", "{turns}"),
)
_EVENTS: tuple[Column, ...] = (
    ("", "{format}"),
    ("file", lambda row: "" if row["file_bytes"] is None else f"{row['file_bytes'] / 1e6:,.1f} MB"),
    ("Mev/s", "{ours_mev_s:.3g}"),
    ("best", "{ours_best_mev_s:.3g}"),
    ("beside", "{library}"),
    ("Mev/s", "{library_mev_s:.3g}"),
    ("ratio", "{ratio:times}"),
    ("CPU", "{cpu_ratio:times}"),
    ("MB", "{ours_peak_mb:,.0f}"),
    ("its MB", "{library_peak_mb:,.0f}"),
    ("right", _right),
)
_VIDEO: tuple[Column, ...] = (
    ("", "{reader}"),
    ("median", "{median_ms:ms}"),
    ("best", "{best_ms:ms}"),
    ("ours takes", "{ours_vs_this:times}"),
    ("right frames", lambda row: "yes" if row["exact"] else "no"),
)
_PARTS: tuple[Column, ...] = (
    ("", "{part}"),
    ("of", "{amount:,} {unit}"),
    ("median", "{ms:ms}"),
    ("best", "{best_ms:ms}"),
    ("worst", "{worst_ms:ms}"),
    ("a second", "{per_s:,.0f} {unit}"),
)
_SESSIONS: tuple[Column, ...] = (
    ("", "{step}"),
    ("which is to", "{does}"),
    ("seconds", "{seconds:.2f}"),
    ("of the processor", "{cpu_s:.2f}"),
    ("memory of the process", lambda row: "" if row["peak_mb"] is None else f"{row['peak_mb']:,.0f} MB"),
)
_COVERAGE: tuple[Column, ...] = (
    ("simulated runs", "{scenario}"),
    ("estimated", "{estimator}"),
    ("n a side", "{n}"),
    ("held", "{coverage:share}"),
    ("of which 95 % sure", lambda row: _ends(row["coverage_ci95"])),
    ("width", "{width:.3f}"),
)


def engine_blocks(document: Row) -> Iterator[Block]:
    """What ran where, a table of phases and contenders, the machine's ceilings, and what to doubt."""
    found = document["environment"] | document["summary"]
    count = document["environment"]["threads"]
    threads = f"{count_text(count, 'thread')} · " if found["device"] == "cpu" else ""
    where = f"{document['environment']['device']} · torch {found['torch']} · transformers {found['transformers']}"
    yield filled(f"{{shape}} in {{dtype}} on {where} · {threads}prompt {{context:,}} · {{tokens:,}} tokens", found)
    yield ""
    yield PrintedTable(_ENGINE, [row for row in document["rows"] if row["status"] == "measured"])
    yield ""
    yield (
        f"This machine copies {found['copy_bytes_s'] / 1e9:,.0f} GB/s, reads {found['read_bytes_s'] / 1e9:,.0f} GB/s "
        f"and multiplies matrices at {number_text(found['matmul_flops_s'] / 1e12, 3)} TFLOP/s."
    )
    if found["decode_ceiling_tok_s"] is None:
        yield f"No ceiling by memory: {found['decode_mbu_reason']}."
    else:
        read = "A step reads {weight_bytes_per_token:bytes} of weights and {kv_bytes_per_token:bytes} of cache: "
        best = filled(" Ours reaches {decode_tok_s:,.1f} ({decode_mbu:percent}).", found, "")
        yield filled(f"{read}at most {{decode_ceiling_tok_s:,.1f}} tok/s.{best}", found)
    yield from found["problems"]


def events_blocks(document: Row) -> Iterator[Block]:
    """A row for each format, what was left out and why, windows and rendering."""
    libraries = document["environment"]["libraries"].items()
    versions = ", ".join(f"{name} {version}" for name, version in libraries if version)
    values = document["settings"] | document["environment"] | document["summary"] | {"versions": versions}
    yield filled(
        "{events:,} events · {rounds} rounds in turns, each in a process of its own · {cpus} CPUs · {versions}", values
    )
    yield ""
    yield PrintedTable(_EVENTS, document["rows"])
    yield ""
    reasons: dict[str, list[str]] = {}
    for row in document["rows"]:
        if row["reason"]:
            reasons.setdefault(row["reason"], []).append(row["format"])
    for reason, formats in reasons.items():
        yield f"{', '.join(formats)}: {reason}"
    if values["slowest_vs_library"] is not None:
        yield filled("Slowest beside its library: {slowest_format}, {slowest_vs_library:times}.", values)
    if values["window_100ms_ms"] is not None:
        peak = filled("{window_peak_mb:,.0f}", values, "?")
        yield filled(
            "A window of 100 ms ({window_events:,} events at most) out of a DSEC file of {window_file_bytes:bytes}: "
            f"{{window_100ms_ms:ms}}, at most {{window_slowest_ms:ms}}, with {peak} MB; opened in "
            "{window_open_ms:ms}.",
            values,
        )
    same = "the same pixels" if values["render_is_identical"] else "OTHER PIXELS"
    yield filled(
        f"EventGPT's picture of {{render_events:,}} events: {{render_vs_loop:.0f}}× a loop over them, {same}.", values
    )


def video_blocks(document: Row) -> Iterator[Block]:
    """A table per clip, who could not take part, and how ours fares where it fares worst."""
    summary, rows = document["summary"], document["rows"]
    yield f"{document['settings']['frames']} evenly spread frames, from opening the file to RGB"
    for clip in summary["clips"]:
        measured = [row for row in rows if row["clip"] == clip["clip"] and row["median_ms"] is not None]
        yield ""
        yield TableName(clip["clip"])
        yield PrintedTable(_VIDEO, sorted(measured, key=lambda row: float(row["median_ms"])))
    yield ""
    took_part = {row["reader"] for row in rows if row["reason"] is None}
    yield from dict.fromkeys(
        f"{row['reader']}{', ' + row['clip'] if row['reader'] in took_part else ''}: {row['reason']}"
        for row in rows
        if row["reason"]
    )
    yield filled(
        "evprof takes at most {worst_vs_best_strategy:times} the time of the best fixed strategy ({worst_clip}).",
        summary,
    )
    if summary["short_gop_vs_full_decode"] is not None:
        yield filled("On short GOPs it is {short_gop_vs_full_decode:.1f} times as fast as decoding it all.", summary)


def parts_blocks(document: Row) -> Iterator[Block]:
    yield f"{document['settings']['rounds']} turns each · {document['environment']['cpus']} CPUs"
    yield ""
    yield PrintedTable(_PARTS, document["rows"])


def sessions_blocks(document: Row) -> Iterator[Block]:
    """A row for each step; those of the list share a process, whose memory is told with each."""
    yield filled("{runs:,} runs, {file_mb:,.0f} MB", document["summary"])
    yield ""
    yield PrintedTable(_SESSIONS, document["rows"])


def coverage_blocks(document: Row) -> Iterator[Block]:
    yield PrintedTable(_COVERAGE, document["rows"])
    yield ""
    if document["summary"]["lowest_coverage"] is not None:
        yield filled(
            "In each of {rows} rows, nominal 95 % intervals held the truth in at least {lowest_coverage:share} of "
            "{simulations:,} simulations.",
            document["summary"],
        )
