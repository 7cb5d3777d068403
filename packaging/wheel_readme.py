"""The page that an index shows of the wheel: README.md without what only works beside it, its picture and its links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def standing_alone(text: str) -> str:
    """Markdown whose pictures and links of its own folder are gone; the words of links stay."""
    text = re.sub(r"^!\[[^\]]*\]\((?!https?://)[^)]*\)\n+", "", text, flags=re.MULTILINE)
    return re.sub(r"(?<!!)\[([^\]]*)\]\((?!https?://)[^)]*\)", r"\1", text)


class WheelReadme(MetadataHookInterface):
    """hatchling asks it for the description."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets the description."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": standing_alone(text)}
