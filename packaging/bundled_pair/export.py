"""The trained parts put together as the published models and written as the two bundled checkpoints."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from transformers import CLIPVisionModel

from bundled_pair import tokenizer
from bundled_pair.assembly import VIDEO_TOWER_LAYERS, EventReader, VideoReader, tower_config
from bundled_pair.checkpoint import write_eventgpt, write_video_llava
from bundled_pair.dataset import VIDEO_SIZE
from engines.families.eventgpt import EventGptConfig
from engines.families.eventgpt_network import EventGptModel
from engines.families.llava_network import LlavaConfig
from engines.families.video_llava import VideoLlavaModel

EVENTGPT_NAME = "evprof-tiny-eventgpt"
VIDEO_LLAVA_NAME = "evprof-tiny-video-llava"


def export_eventgpt(folder: Path, tower: CLIPVisionModel, reader: EventReader, vocabulary: bytes) -> None:
    """Write ``folder`` in EventGPT's layout, bf16."""
    model = EventGptModel(EventGptConfig(tower.config, reader.decoder.config))
    if model.feature_adaptor is None:
        raise RuntimeError("EventGptModel was built without its adaptor")
    for target, source in (
        (model.visual_tower, tower),
        (model.visual_projector, reader.projector),
        (model.feature_adaptor, reader.adaptor),
        (model.language_model, reader.decoder),
    ):
        target.load_state_dict(source.state_dict())
    write_eventgpt(folder, model, vocabulary)


def export_video_llava(folder: Path, tower: CLIPVisionModel, reader: VideoReader, vocabulary: bytes) -> None:
    """Write ``folder`` in Video-LLaVA's layout, bf16; the image tower gets the video tower's weights."""
    config = LlavaConfig(
        family="video_llava",
        vision=tower_config(VIDEO_SIZE, VIDEO_TOWER_LAYERS),
        text=reader.decoder.config,
        slot_id=tokenizer.PIECES + tokenizer.VIDEO_LLAVA_TOKENS.index("<video>"),
        keeps_cls=True,
        image_token_id=tokenizer.PIECES + tokenizer.VIDEO_LLAVA_TOKENS.index("<image>"),
    )
    torch.manual_seed(0)
    model = VideoLlavaModel(config)
    for whole in (model.video_tower, model.image_tower):
        _copy_all_but_last_layer(whole, tower)
    first, _, second = reader.projector
    model.multi_modal_projector.linear_1.load_state_dict(first.state_dict())
    model.multi_modal_projector.linear_2.load_state_dict(second.state_dict())
    model.language_model.load_state_dict(reader.decoder.state_dict())
    write_video_llava(folder, model, tokenizer.fast_json(vocabulary))


def _copy_all_but_last_layer(whole: nn.Module, trained: CLIPVisionModel) -> None:
    """Fill a tower of one layer more; the layer no published path reads keeps its first weights."""
    missing, surplus = whole.load_state_dict(trained.state_dict(), strict=False)
    last = f"encoder.layers.{VIDEO_TOWER_LAYERS - 1}."
    if surplus or not all(name.startswith(last) for name in missing):
        raise RuntimeError(f"towers do not fit each other: missing {missing}, surplus {surplus}")
