"""Files of trainings: losses and accuracies epoch by epoch, and what was measured before and after. No row is a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evprof.loaders.legacy.checks import MS_PER_S, SHORTEST_MS, finite, mapping
from evprof.loaders.legacy.reading import Preview, Published, StepSeries, flattened
from evprof.loaders.legacy.summary import SummaryReader, columns_of, difference, known, ratio, series_of

_MATCHES = "“acceptance” is the share of tokens guessed right at their places in a known text; no draft was verified"
_LISTS = ("train_losses", "val_losses", "acceptance_rates")


class TrainingHistory(SummaryReader):
    """Losses and shares by epoch: lists side by side, or one list of epochs."""

    name = "training history"
    looks_for = "train_loss and val_loss by epoch, or final_stats.train_losses"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By lists of losses."""
        return isinstance(preview.head.get("train_loss"), list) or bool(_final_lists(preview))

    def _summary(self, preview: Preview) -> tuple[Published, Sequence[str]]:
        head = preview.head
        series = series_of("epoch", _final_lists(preview) or head)
        told = {name: value for name in ("train_size", "val_size") if (value := finite(head.get(name))) is not None}
        sentences = [] if series is None else _oddities(series)
        return Published(told=told, series=series), sentences


def _final_lists(preview: Preview) -> dict[str, object]:
    stats = mapping(preview.head.get("final_stats"))
    return {name: stats[name] for name in _LISTS if isinstance(stats.get(name), list)}


def _oddities(series: StepSeries) -> list[str]:
    """What the lists say of themselves: different lengths, and values that never moved."""
    found = []
    lengths = {len(values) for values in series.values.values()}
    if len(lengths) > 1:
        found.append(f"The lists are of different lengths: {', '.join(map(str, sorted(lengths)))} epochs")
    still = [name for name, values in series.values.items() if len(values) > 2 and len(set(values)) == 1]
    if still:
        found.append(f"Training moved nothing here: {', '.join(still)} is the same in all epochs")
    return found


class TokenAdapterTraining(SummaryReader):
    """An adapter from EventGPT's tokens to the target's: epochs, and the shares guessed right before and after."""

    name = "token adapter training"
    looks_for = "training_history with baseline and final, or baseline_acceptance with final_acceptance"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By its history, or by its three shares."""
        head = preview.head
        return (
            ("training_history" in head and "final" in head)
            or ("baseline_acceptance" in head and "final_acceptance" in head)
            or ("best_val_acc" in head and "train_size" in head)
        )

    def _summary(self, preview: Preview) -> tuple[Published, Sequence[str]]:
        head = preview.head
        told = flattened({key: value for key, value in head.items() if key not in ("config", "model_params")})
        history = head.get("training_history")
        series = series_of("epoch", columns_of(history if isinstance(history, list) else [], "epoch"))
        published = Published(told=told, computed=_computed(head, series), over_nothing=_untimed(head), series=series)
        return published, _sentences(head)


def _computed(head: dict[str, Any], series: StepSeries | None) -> dict[str, float]:
    found: dict[str, float | None] = {
        "improvement": difference(head.get("final_acceptance"), head.get("baseline_acceptance"))
    }
    for part in ("baseline", "final"):
        for split, own in _splits(head, part):
            name = f"{part}.{split}"
            found[f"{name}.acceptance_rate"] = ratio(own.get("total_correct"), own.get("total_tokens"))
            found[f"{name}.samples_per_sec"] = ratio(own.get("num_samples"), own.get("inference_time_sec"))
    best = [] if series is None else [value for value in series.values.get("val_acc", []) if value is not None]
    found["best_val_acc"] = max(best) if best else None
    return known(found)


def _splits(head: dict[str, Any], part: str) -> list[tuple[str, dict[str, Any]]]:
    return [(str(split)[:80], own) for split, own in mapping(head.get(part)).items() if isinstance(own, dict)]


def _untimed(head: dict[str, Any]) -> frozenset[str]:
    """The times of stages that took none, even at most: the file that they were to come from holds none."""
    found: set[str] = set()
    for split, own in _splits(head, "final"):
        for side, stages in mapping(own.get("timing_stats")).items():
            for stage, values in mapping(stages).items():
                if (finite(mapping(values).get("max")) or 0.0) * MS_PER_S < SHORTEST_MS:
                    found.update(f"final.{split}.timing_stats.{side}.{stage}.{name}" for name in mapping(values))
    return frozenset(found)


def _sentences(head: dict[str, Any]) -> list[str]:
    found = [_MATCHES]
    best = finite(head.get("best_val_acc"))
    if best is not None and best == finite(mapping(mapping(head.get("final")).get("test")).get("acceptance_rate")):
        found.append("The best epoch was chosen on the test set, so the test figure is not of unseen samples")
    if any(own.get("timing_stats") for _, own in _splits(head, "final")):
        found.append("timing_stats are of the files that the tokens came from; import those for their rows")
    size = finite(head.get("val_size"))
    if size is not None and size < 10:
        found.append(f"best_val_acc is of {size:.0f} sample{'' if size == 1 else 's'}")
    return found
