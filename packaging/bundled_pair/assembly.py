"""Sizes of the two tiny models and their parts, assembled from transformers' CLIP and Llama modules.

Both towers are trained alike; how a part is named in a published checkpoint is not known here.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from transformers import CLIPVisionConfig, CLIPVisionModel, LlamaConfig, LlamaForCausalLM

from bundled_pair.dataset import EVENT_SIZE, VIDEO_SAMPLES, VIDEO_SIZE
from bundled_pair.tokenizer import BOS_ID, EOS_ID, PIECES, VIDEO_LLAVA_TOKENS
from engines.stages.pixel_values import CLIP_MEAN, CLIP_STD

PATCH = 8
TOWER_WIDTH = 128
HIDDEN = 128
EVENT_TOWER_LAYERS = 4
VIDEO_TOWER_LAYERS = 4
"""Video-LLaVA reads its towers one layer before the last, so the fourth layer is there for the layout alone."""

VIDEO_DECODER_LAYERS = 10
FIRST_LAYERS = (0, 2, 5, 7)
"""The layers of the video decoder that are trained first. The others begin as what changes nothing, the event decoder's
as these."""

CONTEXT_LIMIT = 2048


def tower_config(size: int, layers: int) -> CLIPVisionConfig:
    return CLIPVisionConfig(
        hidden_size=TOWER_WIDTH,
        intermediate_size=2 * TOWER_WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=4,
        image_size=size,
        patch_size=PATCH,
        projection_dim=TOWER_WIDTH,
        hidden_act="quick_gelu",
    )


def decoder_config(layers: int, vocabulary: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT_LIMIT,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
        pad_token_id=None,
    )


def event_tower() -> CLIPVisionModel:
    """A tower for event frames: nearly all of such a frame is white, and its first filters start blind to that."""
    tower = CLIPVisionModel(tower_config(EVENT_SIZE, EVENT_TOWER_LAYERS))
    white = (1.0 - torch.tensor(CLIP_MEAN)) / torch.tensor(CLIP_STD)
    background = white[:, None, None].expand(3, PATCH, PATCH).flatten()
    background = background / background.norm()
    with torch.no_grad():
        embeddings = tower.embeddings
        filters = torch.randn(TOWER_WIDTH, background.numel()) * background.numel() ** -0.5
        filters -= (filters @ background)[:, None] * background
        embeddings.patch_embedding.weight.copy_(filters.view_as(embeddings.patch_embedding.weight))
        embeddings.position_embedding.weight.normal_(std=0.2)
        embeddings.class_embedding.normal_(std=0.2)
    return tower


def video_tower() -> CLIPVisionModel:
    """The layers of the video tower that the language model reads: all but the last."""
    return CLIPVisionModel(tower_config(VIDEO_SIZE, VIDEO_TOWER_LAYERS - 1))


def projector() -> nn.Sequential:
    return nn.Sequential(nn.Linear(TOWER_WIDTH, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, HIDDEN))


class EventReader(nn.Module):
    """EventGPT after its tower: projector, adaptor, spatio-temporal pooling, decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.projector = projector()
        self.adaptor = nn.Linear(HIDDEN, HIDDEN)
        self.decoder = LlamaForCausalLM(decoder_config(len(FIRST_LAYERS), PIECES))

    @torch.no_grad()
    def begin_as(self, target: VideoReader) -> None:
        """Take over the target's words and the layers it learned them with."""
        own, theirs = self.decoder.model, target.decoder.model
        for layer, index in zip(own.layers, FIRST_LAYERS, strict=True):
            layer.load_state_dict(theirs.layers[index].state_dict())
        own.norm.load_state_dict(theirs.norm.state_dict())
        own.embed_tokens.weight.copy_(theirs.embed_tokens.weight[:PIECES])
        self.decoder.lm_head.weight.copy_(target.decoder.lm_head.weight[:PIECES])

    def visual_embeddings(self, features: torch.Tensor) -> torch.Tensor:
        """[B, T, N, width] tower features to [B, T + N, hidden]: means over tokens first, then means over frames."""
        projected = self.adaptor(self.projector(features))
        return torch.cat([projected.mean(dim=2), projected.mean(dim=1)], dim=1)

    def some_places(self, count: int, rng: np.random.Generator) -> torch.Tensor:
        """All of them: they are few."""
        return torch.arange(count)

    def shrink(self) -> None:
        """Nothing: all layers are trained from the beginning."""

    def grow(self) -> None:
        """Nothing."""


class VideoReader(nn.Module):
    """Video-LLaVA after its tower: projector and decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.projector = projector()
        self.decoder = LlamaForCausalLM(decoder_config(VIDEO_DECODER_LAYERS, PIECES + len(VIDEO_LLAVA_TOKENS)))
        # In a tuple, so that they are not registered a second time.
        self._layers = (self.decoder.model.layers,)
        for index, layer in enumerate(self._layers[0]):
            if index not in FIRST_LAYERS:
                nn.init.zeros_(layer.self_attn.o_proj.weight)
                nn.init.zeros_(layer.mlp.down_proj.weight)

    def visual_embeddings(self, features: torch.Tensor) -> torch.Tensor:
        """[B, T, N, width] tower features to [B, T * N, hidden]."""
        projected: torch.Tensor = self.projector(features)
        return projected.flatten(1, 2)

    def shrink(self) -> None:
        """Leave out the layers that change nothing yet: the same numbers for less than half the price."""
        self.decoder.model.layers = nn.ModuleList(self._layers[0][index] for index in FIRST_LAYERS)

    def grow(self) -> None:
        """All layers again."""
        self.decoder.model.layers = self._layers[0]

    def some_places(self, count: int, rng: np.random.Generator) -> torch.Tensor:
        """Where the tokens of two frames stand among the ``count`` of all."""
        frames = torch.from_numpy(np.sort(rng.choice(VIDEO_SAMPLES, size=2, replace=False)))
        each = count // VIDEO_SAMPLES
        return (frames[:, None] * each + torch.arange(each)).flatten()
