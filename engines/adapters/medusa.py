"""Medusa heads as others publish them: each guesses the token so many places ahead from one hidden state alone.

Head k is some blocks x + SiLU(Wx + b) and an output matrix, on the target's last hidden state after its norm; the
first guesses the token after the one that the target itself chooses there (Cai et al., arXiv 2401.10774).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import nn

from engines.adapters.folder import HeadFiles, check_kind
from engines.adapters.published import check_fit
from engines.decoder.llama import LlamaDecoder
from evprof.core.errors import UserError
from evprof.core.vocabulary.drafters import MEDUSA
from evprof.loaders.adapters import AdapterInfo

_BLOCK = re.compile(r"(\d{1,2})\.(\d{1,2})\.linear\.weight\Z")
_MOST_HEADS, _MOST_BLOCKS = 16, 8


@dataclass(frozen=True)
class MedusaSizes:
    """`count` heads of so many `blocks` each, over `rows` tokens, on states of width `hidden`."""

    hidden: int
    rows: int
    count: int
    blocks: int


class MedusaHeads(nn.Module):
    def __init__(self, sizes: MedusaSizes) -> None:
        super().__init__()
        self.count, self.rows = sizes.count, sizes.rows
        hidden, rows, count, blocks = sizes.hidden, sizes.rows, sizes.count, sizes.blocks
        self.heads = nn.ModuleList(
            nn.ModuleList([*(nn.Linear(hidden, hidden) for _ in range(blocks)), nn.Linear(hidden, rows, bias=False)])
            for _ in range(count)
        )

    def logits(self, features: torch.Tensor, count: int, target: LlamaDecoder) -> list[torch.Tensor]:
        """The first `count` heads on one last hidden state [1, H], before the target's norm: [1, V] each."""
        normed = F.rms_norm(features, features.shape[-1:], target.norm, target.config.rms_norm_eps)
        made: list[torch.Tensor] = []
        for head in list(self.heads)[:count]:
            *blocks, output = head.children()
            state = normed
            for block in blocks:
                state = state + F.silu(block(state))
            logits = output(state)
            if logits.shape[-1] < target.rows:
                logits = F.pad(logits, (0, target.rows - logits.shape[-1]), value=torch.finfo(logits.dtype).min)
            made.append(logits)
        return made


def load_medusa(info: AdapterInfo, target: LlamaDecoder, name: str = "") -> MedusaHeads:
    """The heads on the target's device, in its dtype. Raises UserError for damaged ones and for another target's."""
    check_kind(info, MEDUSA)
    files = HeadFiles(info)
    sizes = medusa_sizes(info, files)
    check_fit(replace(info, hidden_size=sizes.hidden, vocabulary=sizes.rows), target.config, target.rows, name)
    blocks = sizes.blocks
    with torch.device("meta"):
        heads = MedusaHeads(sizes)
    weight = target.embed_tokens.weight
    tensors: dict[str, torch.Tensor] = {}
    for ours, tensor in heads.state_dict().items():
        _, head, block, part = ours.split(".")
        theirs = f"{head}.{block}.weight" if int(block) == blocks else f"{head}.{block}.linear.{part}"
        tensors[ours] = files.joined((theirs,), None, tuple(tensor.shape), device=weight.device, dtype=weight.dtype)
    files.refuse_rest((), {})
    heads.load_state_dict(tensors, assign=True)
    return heads.requires_grad_(False).eval()


def medusa_sizes(info: AdapterInfo, files: HeadFiles) -> MedusaSizes:
    """As the tensors tell, for published configurations err. Raises UserError for what makes no heads."""
    found = [match for match in map(_BLOCK.match, files.names) if match is not None]
    blocks = max((int(match[2]) + 1 for match in found), default=0)
    ends = [name.split(".")[0] for name in files.names if re.fullmatch(rf"\d{{1,2}}\.{blocks}\.weight", name)]
    count = max((int(end) + 1 for end in ends), default=0)
    shape = files.shape(f"0.{blocks}.weight") if count else ()
    if not 1 <= count <= _MOST_HEADS or blocks > _MOST_BLOCKS or len(shape) != 2 or not all(shape):
        raise UserError(
            f"{info.folder} holds {count} heads of {blocks} blocks; Medusa has 1 to {_MOST_HEADS}, "
            f"of {_MOST_BLOCKS} at most."
        )
    rows, hidden = shape
    return MedusaSizes(hidden, rows, count, blocks)
