"""How a person arranged the lanes: order, pinned lanes and collapsed lanes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_MOST = 100


@dataclass
class LaneOrder:
    """Lanes by their keys; lanes nobody moved stand where they stand at first.

    `folded` says of a lane whether a person collapsed it (True) or opened it (False); of the others the lane decides.
    """

    order: list[str] = field(default_factory=list)
    pinned: list[str] = field(default_factory=list)
    folded: dict[str, bool] = field(default_factory=dict)

    def arranged(self, keys: Sequence[str]) -> list[str]:
        """The same keys, pinned ones first; a key that is not known follows the one it followed at first."""
        found = [key for key in self.order if key in keys]
        for place, key in enumerate(keys):
            if key not in found:
                before = next((other for other in reversed(keys[:place]) if other in found), None)
                found.insert(0 if before is None else found.index(before) + 1, key)
        return [key for key in found if key in self.pinned] + [key for key in found if key not in self.pinned]

    def move(self, key: str, before: str | None, keys: Sequence[str]) -> None:
        """Puts a lane before another one, or last; pinned lanes and others stay apart."""
        found = [other for other in self.arranged(keys) if other != key]
        found.insert(found.index(before) if before in found else len(found), key)
        self.order = found

    def toggle_pin(self, key: str) -> None:
        """Keeps a lane at the top while others scroll, or lets it go."""
        if key in self.pinned:
            self.pinned.remove(key)
        else:
            self.pinned.append(key)

    def is_folded(self, key: str, is_empty: bool) -> bool:
        """Whether a lane is collapsed: as the person said, else where it has nothing to show."""
        return self.folded.get(key, is_empty)

    def reset(self) -> None:
        self.order, self.pinned, self.folded = [], [], {}

    def to_text(self) -> str:
        return json.dumps({"order": self.order, "pinned": self.pinned, "folded": self.folded})

    @classmethod
    def from_text(cls, text: str) -> LaneOrder:
        """The inverse; what is nothing of the kind is nobody's order."""
        try:
            values: Any = json.loads(text)
        except ValueError:
            return cls()
        if not isinstance(values, dict):
            return cls()
        folded = values.get("folded")
        entries = folded.items() if isinstance(folded, dict) else ()
        return cls(
            _names(values.get("order")),
            _names(values.get("pinned")),
            {key: value for key, value in entries if isinstance(value, bool)},
        )


def _names(value: object) -> list[str]:
    found = [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []
    return list(dict.fromkeys(found))[:_MOST]
