"""What was set for the configurations of a comparison, side by side: what differs explains the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evprof.core.run_log import RunLog
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.configurations.settings_text import settings_of


@dataclass(frozen=True)
class ComparedSetting:
    """One setting in words for every column; None where it does not apply or, of imported runs, nobody said it."""

    key: str
    name: str
    values: list[str | None]

    @property
    def differs(self) -> bool:
        return len({value for value in self.values if value is not None}) > 1

    def to_json(self) -> dict[str, Any]:
        """An entry of `settings` in the `compare` document."""
        return {"setting": self.key, "name": self.name, "values": self.values}


def setting_rows(listed: Sequence[Configuration]) -> list[ComparedSetting]:
    """Mode, model and every setting that at least one column has, in order of reading."""
    told = [_settings(column.runs[0]) for column in listed]
    names = {key: name for settings in told for key, (name, _) in settings.items()}
    return [
        ComparedSetting(key, name, [settings[key][1] if key in settings else None for settings in told])
        for key, name in names.items()
    ]


def _settings(run: RunLog) -> dict[str, tuple[str, str]]:
    info = run.info
    model = info.models.get(info.role)
    found = {"mode": ("mode", info.mode)}
    if model is not None:
        found["model"] = ("model", model.name)
    for setting in settings_of(run, info.role):
        # What a file does not say stands at our defaults, which nobody chose.
        if info.imported is None or setting.key in info.given_settings or _is_told_by_model(setting.key, run):
            found[setting.key] = (setting.name, setting.text)
    return found


def _is_told_by_model(key: str, run: RunLog) -> bool:
    return key in ("dtype", "quantization") and run.info.role in run.info.models
