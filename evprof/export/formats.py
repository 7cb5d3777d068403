"""The formats that sessions are exported in, described once: options, help, names of files, the window's menu."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ExportFormat:
    """A format. `title` names one such export; `name` is the usual file or folder.

    `endings` are those of its files, none where it is always a folder; `is_folder`: without one of these it is.
    `help` is what `evprof export --help` says, a sentence or two.
    """

    key: str
    title: str
    name: str
    help: str
    endings: tuple[str, ...] = ()
    is_folder: bool = False


_ALL = (
    ExportFormat(
        "chrome",
        "Chrome trace",
        "trace.json",
        "a trace that Perfetto and chrome://tracing open (name it .json or .json.gz); named .pt.trace.json or "
        ".pt.trace.json.gz, with the runs as steps, for TensorBoard and other readers of PyTorch's traces.",
        (".json", ".json.gz"),
    ),
    ExportFormat(
        "json",
        "JSON document",
        "session.json",
        "the document that `evprof show --json` prints; of several sessions one, whose runs name their session.",
        (".json",),
    ),
    ExportFormat(
        "csv",
        "CSV tables",
        "tables",
        "with PATH ending in .csv one row per run, otherwise a folder with runs, stages, tokens, rounds, figures and "
        "KV cache.",
        (".csv",),
        is_folder=True,
    ),
    ExportFormat(
        "parquet",
        "Parquet files",
        "frames",
        "a folder with every recorded stream and the table of runs, for data frames.",
        is_folder=True,
    ),
    ExportFormat(
        "aiperf",
        "AIPerf files",
        "aiperf",
        "a folder with AIPerf's profile_export.jsonl and profile_export_aiperf.json of each configuration.",
        is_folder=True,
    ),
    ExportFormat(
        "predictions",
        "Predictions",
        "predictions.jsonl",
        "a line of JSON for each finished run: id, question, answer, right answers, choices, task and scores (name it "
        ".jsonl).",
        (".jsonl",),
    ),
    ExportFormat(
        "rerun",
        "Rerun recording",
        "session.rrd",
        "pictures, stages, tokens, rounds, caches and memory on sensor time and compute time, for Rerun's viewer (name "
        "it .rrd).",
        (".rrd",),
    ),
)


FORMATS = {entry.key: entry for entry in _ALL}
