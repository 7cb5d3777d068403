"""What stands beside result files and holds no measurement, in words: a refusal should say what a file is."""

from __future__ import annotations

from typing import Any

from evprof.loaders.legacy.checks import finite
from evprof.loaders.legacy.reading import Preview

_OF_OBJECTS = (
    ({"task", "adapter", "training"}, "the settings of a training; its history.json holds the losses"),
    ({"features", "splits"}, "the description of a data set"),
    ({"source", "num_samples", "extracted_at"}, "the description of extracted outputs"),
    ({"source_dataset", "num_samples"}, "the description of a data set"),
    ({"total_questions", "unique_questions"}, "a count of the questions in a data set"),
)
_OF_ROWS = (
    ({"conversations", "event_data"}, "the questions and answers of a data set"),
    ({"sequence_name", "left_events"}, "a list of event recordings with their sizes"),
    ({"question", "frequency"}, "a count of the questions in a data set"),
    ({"question", "count"}, "a count of the questions in a data set"),
)
_MANY = 100


def described(preview: Preview) -> str | None:
    """What a file without measurements is; None for all others."""
    row, head = preview.first_row(()), preview.head
    for kinds, keys in ((_OF_ROWS, set(row)), (_OF_OBJECTS, set(head))):
        if found := next((words for wanted, words in kinds if wanted <= keys), None):
            return found
    listed = preview.first.get((), [])
    if listed and all(isinstance(entry, str) for entry in listed):
        return "a list of names"
    return "a table of token ids" if len(head) >= _MANY and _is_table(head) else None


def _is_table(head: dict[str, Any]) -> bool:
    return all(key.isdecimal() and finite(value) is not None for key, value in head.items())
