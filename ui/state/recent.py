"""What the person opened and set lately, kept in one small file; it knows no window."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings

KEPT = 8


class Recent:
    """Newest first. A missing, foreign or unwritable file means nothing is remembered, never an error."""

    def __init__(self, path: Path | None) -> None:
        """`path` None remembers nothing beyond this window."""
        self._path = path
        self.samples: list[Sample] = []
        self.models: list[str] = []
        self.sessions: list[str] = []
        self.settings = GenerationSettings()
        self._read()

    def note_sample(self, sample: Sample) -> None:
        key = (sample.events_path, sample.video_path)
        others = [entry for entry in self.samples if (entry.events_path, entry.video_path) != key]
        self.samples = [sample, *others][:KEPT]
        self._write()

    def forget_sample(self, sample: Sample) -> None:
        """Remembers a sample no longer, such as one that cannot be read."""
        key = (sample.events_path, sample.video_path)
        left = [entry for entry in self.samples if (entry.events_path, entry.video_path) != key]
        if left != self.samples:
            self.samples = left
            self._write()

    def note_model(self, name: str) -> None:
        self.models = [name, *(entry for entry in self.models if entry != name)][:KEPT]
        self._write()

    def note_session(self, path: Path) -> None:
        name = str(path.absolute())
        if self.sessions[:1] != [name]:
            self.sessions = [name, *(entry for entry in self.sessions if entry != name)][:KEPT]
            self._write()

    def note_settings(self, settings: GenerationSettings) -> None:
        if settings != self.settings:
            self.settings = settings
            self._write()

    def _read(self) -> None:
        if self._path is None:
            return
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError, UserError):
            values: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
            samples = [Sample.from_json(entry) for entry in values.get("samples", [])]
            for entry in samples:
                entry.validate()
            self.samples = [entry for entry in samples if entry.events_path or entry.video_path][:KEPT]
            self.models = [str(name) for name in values.get("models", [])][:KEPT]
            self.sessions = [str(path) for path in values.get("sessions", [])][:KEPT]
            settings = GenerationSettings.from_json(values.get("settings") or {})
            settings.validate()
            self.settings = settings

    def _write(self) -> None:
        if self._path is None:
            return
        values: dict[str, Any] = {
            "samples": [sample.to_json() for sample in self.samples],
            "models": self.models,
            "sessions": self.sessions,
        }
        if self.settings != GenerationSettings():
            values["settings"] = self.settings.to_json()
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._path.with_suffix(".new")
            fresh.write_text(json.dumps(values, indent=1), encoding="utf-8")
            os.replace(fresh, self._path)
