"""Writes what was asked, answered and expected, a line of JSON for each run: for other scorers, and to look at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from evprof.core.files.whole_file import whole_file
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.core.units import count_text
from evprof.core.vocabulary.scoring import SCORING_RULES
from evprof.export.report.data import Source
from evprof.metrics.comparison.figures import READERS
from evprof.metrics.figures.decoding import answer_text
from evprof.metrics.figures.scores import named_letter, score
from evprof.metrics.figures.stages import END_TO_END


def write_predictions(
    sources: Iterable[Source], path: Path, *, many: bool = False, tell: Callable[[str], object] | None = None
) -> list[Path]:
    """Writes the finished runs that are neither warm-up nor profiled; returns the file. Raises OSError.

    `many`: every line names its session. `tell` is given a sentence for what is left out.
    """
    left_out = 0
    with whole_file(path) as stream:
        for source in sources:
            named = {"session": source.name} if many else {}
            for run in source.runs:
                info = run.info
                if info.status != FINISHED or info.warmup or info.profiled:
                    left_out += 1
                    continue
                stream.write(json.dumps(named | _line(run), ensure_ascii=False, allow_nan=False) + "\n")
    if left_out and tell is not None:
        tell(f"{count_text(left_out, 'run')} left out: warm-ups, profiled or unfinished.")
    return [path]


def _line(run: RunLog) -> dict[str, Any]:
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
