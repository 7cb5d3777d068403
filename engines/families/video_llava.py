"""Video-LLaVA: two towers of one shape; frames go through the video tower and share one slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engines.families.llava import LlavaFamily, names_of
from engines.families.llava_network import LlavaModel
from engines.tokens.prompts import PromptTemplate

if TYPE_CHECKING:
    from transformers import CLIPVisionModel


class VideoLlavaModel(LlavaModel):
    """The network with both towers."""

    def _build_towers(self) -> None:
        from transformers import CLIPVisionModel

        self.image_tower = CLIPVisionModel(self.config.vision)
        self.video_tower = CLIPVisionModel(self.config.vision)

    @property
    def frame_tower(self) -> CLIPVisionModel:
        """The video tower."""
        return self.video_tower


class VideoLlavaFamily(LlavaFamily):
    """What differs from LLaVA-1.5."""

    names = names_of(("image_tower.", "image_tower.vision_model."), ("video_tower.", "video_tower.vision_model."))
    template = PromptTemplate("video_llava", "<video>", "USER: ", "\n{question} ASSISTANT:")
    network = VideoLlavaModel
    extra_tokens = ("<image>", "<video>", "<pad>")

    def of_its_own(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Video features are never cut, whatever the strategy says; it is the images' alone."""
        return {"keeps_cls": True}


FAMILY = VideoLlavaFamily("video_llava")
