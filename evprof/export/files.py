"""Writes runs of one or several sessions to files in the formats that other programs read; whole or not at all.

Everything is written as it is made, one run at a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from evprof.core.errors import UsageError, UserError
from evprof.core.files.whole_file import refuse_session, whole_file
from evprof.core.run_info import FINISHED
from evprof.core.units import count_text
from evprof.core.vocabulary.modes import mode_of
from evprof.core.vocabulary.scoring import SCORING_RULES
from evprof.export.formats import FORMATS
from evprof.version import __version__

if TYPE_CHECKING:
    from evprof.core.run_log import RunLog
    from evprof.export.report.data import Source

STEPS_NAME = re.compile(r"\.pt\.trace\.json(?:\.gz)?$")
"""The names of PyTorch's traces: tools that know those find steps and operators in ours too."""

Tell = Callable[[str], object]

_FILE_ENDINGS = (".json", ".jsonl", ".csv", ".parquet", ".gz")
"""What a folder should not be called."""


def check_name(kind: str, path: Path) -> None:
    """Raises UserError (exit code 2) for a name that promises another format; names without an ending promise none."""
    endings = FORMATS[kind].endings
    if not endings:
        if path.suffix.lower() in _FILE_ENDINGS and not path.is_dir():
            raise UsageError(
                f"--format {kind} writes a folder of files, so '{path.name}' would mislead; name it '{path.stem}'."
            )
        return
    if path.suffix and not path.is_dir() and not path.name.lower().endswith(endings):
        folder = ", or a folder" if FORMATS[kind].is_folder else ""
        raise UsageError(
            f"--format {kind} writes {' or '.join(endings)} files, so '{path.name}' would mislead; name it "
            f"'{path.stem}{endings[0]}'{folder}."
        )


def write_export(
    sources: Iterable[Source], kind: str, path: Path, *, many: bool = False, tell: Tell | None = None
) -> list[Path]:
    """Writes the runs of `sources` in one of FORMATS; returns the files.

    Raises UserError when the place cannot be used, and whatever reading a source raises. `many`: the runs are told
    apart by their session too. `tell` is given a sentence for each thing that the format cannot hold.
    """
    refuse_session(path)
    try:
        return _written(sources, kind, path, many, tell)
    except OSError as error:
        raise UserError(f"'{path}' cannot be written ({error.strerror or error}); name another place.") from error


def _written(  # noqa: PLR0911 - a format a line
    sources: Iterable[Source], kind: str, path: Path, many: bool, tell: Tell | None
) -> list[Path]:
    match kind:
        case "csv":
            from evprof.export.tables import write_tables

            return write_tables(sources, path)
        case "aiperf":
            from evprof.export.aiperf import write_aiperf

            return write_aiperf(sources, path, many=many, tell=tell)
        case "parquet":
            from evprof.export.parquet import write_parquet

            return write_parquet(sources, path)
        case "rerun":
            from evprof.export.rerun_recording import write_rerun

            return write_rerun(sources, path, many=many, tell=tell)
        case "predictions":
            return [_write_predictions(sources, path, many, tell)]
        case "chrome":
            return [_write_trace(sources, path, many, tell)]
    return [_write_document(sources, path, many)]


def _write_trace(sources: Iterable[Source], path: Path, many: bool, tell: Tell | None) -> Path:
    from evprof.export.chrome_trace import ChromeTrace, left_out_sentences

    trace = ChromeTrace(sources, as_steps=bool(STEPS_NAME.search(path.name)), names_sessions=many)
    with whole_file(path) as stream:
        _write_json(stream, trace.head, "traceEvents", trace.entries(), lambda: trace.tail)
    if tell is not None:
        for sentence in left_out_sentences(trace.tail):
            tell(sentence)
    return path


def _write_document(sources: Iterable[Source], path: Path, many: bool) -> Path:
    """The document of a session; of several, one document whose runs name their session."""
    from evprof.core.plain import SCHEMA_VERSION
    from evprof.metrics.configurations.parts import parts_document
    from evprof.metrics.document import run_document
    from evprof.session.facts import mark_documents, read_batches

    sessions: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    batches: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []

    def documents(source: Source, others: Iterator[Source]) -> Iterator[dict[str, Any]]:
        for each in (source, *others):
            sessions.append({"session": each.name, "environment": environment_of(each)})
            named = {"session": each.name} if many else {}
            batches.extend(named | row.to_json() for row in read_batches(each.facts))
            related = _related(each)
            told: set[int] = set()
            for run in each.runs:
                told.add(run.run_id)
                yield named | run_document(run, related(run))
            parts.extend(named | entry for entry in parts_document(each.runs))
            marks.extend(named | mark for mark in mark_documents(each.facts, told))

    remaining = iter(sources)
    first = next(remaining)
    head = {
        "schema_version": SCHEMA_VERSION,
        "evprof_version": __version__,
        "environment": environment_of(first),
    }
    with whole_file(path) as stream:
        _write_json(
            stream,
            head,
            "runs",
            documents(first, remaining),
            lambda: (
                {"time_by_part": parts, "batches": batches, "marks": marks} | ({"sessions": sessions} if many else {})
            ),
        )
    return path


def _related(source: Source) -> Callable[[RunLog], list[RunLog]]:
    """What finds the runs that looked at the same sample, for a run that speculates: its baseline is among them."""
    from evprof.metrics.configurations.gathering import sample_of

    by_sample: dict[tuple[str, str], list[RunLog]] = {}
    for run in source.runs:
        by_sample.setdefault(sample_of(run.info), []).append(run)

    def find(run: RunLog) -> list[RunLog]:
        is_paired = mode_of(run.info.mode).is_paired and run.info.imported is None
        return by_sample.get(sample_of(run.info), []) if is_paired else []

    return find


def environment_of(source: Source) -> dict[str, Any]:
    """The session's environment, or that of its latest run that has one."""
    if source.environment:
        return source.environment
    runs: Iterable[RunLog] = reversed(source.runs)
    return next((run.info.environment for run in runs if run.info.environment), {})


def _write_json(
    stream: TextIO, head: dict[str, Any], key: str, items: Iterable[Any], tail: Callable[[], dict[str, Any]]
) -> None:
    """One object: the fields of `head`, then `key` with every item on a line of its own, then the fields of `tail`."""
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
    stream.write("{")
    for name, value in head.items():
        stream.write(f"{encoder.encode(name)}: {encoder.encode(value)},\n")
    stream.write(f"{encoder.encode(key)}: [")
    separator = "\n"
    for item in items:
        stream.write(separator + encoder.encode(item))
        separator = ",\n"
    stream.write("\n]")
    for name, value in tail().items():
        stream.write(f",\n{encoder.encode(name)}: {encoder.encode(value)}")
    stream.write("}\n")


def _write_predictions(sources: Iterable[Source], path: Path, many: bool, tell: Tell | None) -> Path:
    """The questions, answers and right answers of finished runs that are neither warm-up nor profiled."""
    left_out = 0
    with whole_file(path) as stream:
        for source in sources:
            named = {"session": source.name} if many else {}
            for run in source.runs:
                info = run.info
                if info.status != FINISHED or info.warmup or info.profiled:
                    left_out += 1
                    continue
                stream.write(json.dumps(named | _prediction(run), ensure_ascii=False, allow_nan=False) + "\n")
    if left_out and tell is not None:
        tell(f"{count_text(left_out, 'run')} left out: warm-ups, profiled or unfinished.")
    return path


def _prediction(run: RunLog) -> dict[str, Any]:
    from evprof.metrics.comparison.figures import READERS
    from evprof.metrics.figures.decoding import answer_text
    from evprof.metrics.figures.scores import named_letter, score
    from evprof.metrics.figures.stages import END_TO_END

    info, sample = run.info, run.info.sample
    model = info.models.get(info.role)
    expected = sample.expected
    return {
        "id": sample.name or str(run.run_id),
        "run_id": run.run_id,
        "cell": info.cell,
        "repeat": info.repeat,
        "mode": info.mode,
        "role": info.role,
        "model": model.name if model else None,
        "question": sample.prompt,
        "prediction": answer_text(run),
        "reference": list(sample.answers),
        "choices": list(expected.choices) if expected else [],
        "right_choice": (expected.letter or None) if expected else None,
        "named_choice": named_letter(run),
        "task": sample.task,
        "scores": {key: value for key in SCORING_RULES if (value := score(run, key)) is not None},
        "rules": {key: rule.version for key, rule in SCORING_RULES.items()},
        "total_ms": READERS["total_ms"](run, info.role, END_TO_END),
        "energy_j": READERS["energy_per_answer_j"](run, info.role, END_TO_END),
    }
