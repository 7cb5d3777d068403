"""EventGPT-Plus: camera events in 4 to 32 bins, CLIP, a projector, patches pooled two by two, Qwen2.5-1.5B.

Public is its program (XduSyL/EventBench), and so the names of its tensors, the projector, the pooling, the bins and the
prompt. Its checkpoint is given on request only: config.json, which tower it holds and of which size, and whether the
vocabulary kept all of Qwen2.5's rows have not been seen; all are read from the files. Not public, too, is the Llama
form its program mentions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.checkpoints.config import ModelConfig
from engines.checkpoints.naming import Naming
from engines.checkpoints.qwen2_text import qwen2_text
from engines.checkpoints.shape_check import check_pooling
from engines.families.binned_event_model import EVENTGPT_PLUS, BinnedEventModel
from engines.families.eventgpt_plus_network import EventGptPlusConfig, EventGptPlusModel
from engines.families.lent_tower import LentTowerFamily
from engines.families.llava_network import LlavaConfig
from evprof.core.errors import UserError

if TYPE_CHECKING:
    from transformers import CLIPVisionConfig


class EventGptPlusFamily(LentTowerFamily):
    """Its tensors and files as its program reads them."""

    tower_key = "event_tower"
    tower_prefix = "model.event_tower.vision_tower.vision_model."
    names = Naming(
        (
            ("vision_tower.", tower_prefix),
            ("multi_modal_projector.linear_1.", "model.event_projector.0."),
            ("multi_modal_projector.linear_2.", "model.event_projector.2."),
            ("language_model.lm_head.", "lm_head."),
            ("language_model.model.", "model."),
        )
    )
    template = EVENTGPT_PLUS
    network = EventGptPlusModel
    model = BinnedEventModel

    def read(self, folder: Path, values: dict[str, Any], clip: str | None, *, holds_tower: bool) -> ModelConfig:
        """The language model's values, and the tower's from the CLIP folder that describes it."""
        path = folder / "config.json"
        tower, projector = values.get("event_tower_type"), values.get("event_projector_type", "mlp")
        if tower not in (None, "CLIP"):
            raise UserError(f"{path}: the event tower is of type '{tower}'; evprof runs those with a CLIP tower.")
        if projector != "mlp":
            raise UserError(f"{path}: the event projector is of type '{projector}'; evprof runs those of type 'mlp'.")
        vision, found = self.read_tower(folder, values, clip, holds_tower=holds_tower)
        if tower is None:
            found["assumptions"] += ("config.json has no event_tower_type; the tower is taken to be CLIP.",)
        limit = values.get("tokenizer_model_max_length")
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise ValueError(f"tokenizer_model_max_length is {limit!r}, not a number of positions")
        # Its program empties what scales rotary positions, whatever the file says.
        return EventGptPlusConfig(
            vision, qwen2_text({**values, "rope_scaling": None}, path), sequence_limit=limit, **found
        )

    def random(self, vision: CLIPVisionConfig, text: Mapping[str, Any]) -> ModelConfig:
        """As published."""
        return EventGptPlusConfig(vision, qwen2_text(text, Path()))

    def check(self, config: LlavaConfig) -> None:
        """Patches must fill squares."""
        check_pooling(config.pooling, config.pool_stride, config.vision)


FAMILY = EventGptPlusFamily("eventgpt_plus")
