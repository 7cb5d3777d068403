"""Files without measured runs that lie beside result files, in words: a refusal says what a file is."""

from __future__ import annotations

from typing import Any

from evprof.loaders.legacy.checks import finite
from evprof.loaders.legacy.reading import Preview

_TRAINING = "the history of a training, without runs"
_STATISTICS = "statistics of hidden states or features, without runs"

_OF_OBJECTS = (
    ({"task", "adapter", "training"}, "the settings of a training; its history.json holds the losses"),
    ({"features", "splits"}, "the description of a data set"),
    ({"source", "num_samples", "extracted_at"}, "the description of extracted outputs"),
    ({"source_dataset", "num_samples"}, "the description of a data set"),
    ({"total_questions", "unique_questions"}, "a count of the questions in a data set"),
    ({"train_loss"}, _TRAINING),
    ({"final_stats"}, _TRAINING),
    ({"training_history", "final"}, _TRAINING),
    ({"baseline_acceptance", "final_acceptance"}, _TRAINING),
    ({"best_val_acc", "train_size"}, _TRAINING),
    ({"before_adapter", "after_adapter"}, _STATISTICS),
    ({"before_alignment", "after_alignment"}, _STATISTICS),
    ({"cos_sim_mean", "total_valid_positions"}, _STATISTICS),
    ({"phase2_shifted_top1"}, _STATISTICS),
    ({"step_statistics"}, "the times of a script that runs no model"),
)
_OF_ROWS = (
    ({"conversations", "event_data"}, "the questions and answers of a data set"),
    ({"sequence_name", "left_events"}, "a list of event recordings with their sizes"),
    ({"question", "frequency"}, "a count of the questions in a data set"),
    ({"question", "count"}, "a count of the questions in a data set"),
    ({"position", "num_samples", "accept_80"}, _STATISTICS),
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
