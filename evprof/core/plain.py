"""Dataclasses to and from plain values: what travels over a pipe and stays in a session file."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any, Self


class Plain:
    """For dataclasses whose fields are plain already. Unknown keys are ignored, so that newer writers stay readable."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for the pipe and the session file."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]  # every subclass is a dataclass

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        names = {entry.name for entry in fields(cls)}  # type: ignore[arg-type]  # every subclass is a dataclass
        return cls(**{name: value for name, value in values.items() if name in names})
