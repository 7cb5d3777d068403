"""What transformers' own classes of the LLaVA families call the parameters of our networks, and the families' names."""

from __future__ import annotations

LLAVA, VIDEO_LLAVA, LLAVA_NEXT_VIDEO = "llava", "video_llava", "llava_next_video"


def vendor_name(module_name: str) -> str:
    """The name in transformers from 5.17 on of a parameter of ours."""
    if module_name.startswith("language_model.lm_head."):
        return module_name.removeprefix("language_model.")
    return "model." + module_name.replace("language_model.model.", "language_model.", 1)
