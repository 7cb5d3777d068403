"""The draft model after it was taught: its changed weights were merged when it was loaded, so it drafts as any."""

from __future__ import annotations

from engines.drafters.model_drafter import make_model as make

__all__ = ["make"]
