"""Tiny published heads with random weights, and what they compute: from the layouts, sharing nothing with ours."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

Tensors = dict[str, torch.Tensor]


@dataclass
class Written:
    """A head's folder, what its config.json says, and its tensors by their published names."""

    folder: Path
    config: dict[str, Any]
    tensors: Tensors
    reads: tuple[int, ...] = ()
    flags: dict[str, Any] = field(default_factory=dict)


def layer_config(target: LlamaConfig, **changed: Any) -> dict[str, Any]:
    """What config.json says of the one layer: the target's own sizes, other grouping and bases."""
    return {
        "model_type": "llama",
        "hidden_size": target.hidden_size,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_act": "silu",
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500.0,
        "vocab_size": target.vocab_size,
        **changed,
    }


def _draw(shapes: dict[str, tuple[int, ...]], seed: int) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: 0.3 * torch.randn(shape, generator=generator) + (len(shape) == 1 and "bias" not in name)
        for name, shape in shapes.items()
    }


def _layer_shapes(config: dict[str, Any], entering: int, layer: str) -> dict[str, tuple[int, ...]]:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim") or hidden // config["num_attention_heads"]
    own, shared = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    return {
        f"{layer}self_attn.q_proj.weight": (own, entering),
        f"{layer}self_attn.k_proj.weight": (shared, entering),
        f"{layer}self_attn.v_proj.weight": (shared, entering),
        f"{layer}self_attn.o_proj.weight": (hidden, own),
        f"{layer}mlp.gate_proj.weight": (inner, hidden),
        f"{layer}mlp.up_proj.weight": (inner, hidden),
        f"{layer}mlp.down_proj.weight": (hidden, inner),
        f"{layer}post_attention_layernorm.weight": (hidden,),
    }


def save(written: Written, *, as_bin: bool = False) -> Written:
    written.folder.mkdir(parents=True, exist_ok=True)
    (written.folder / "config.json").write_text(json.dumps(written.config))
    if as_bin:
        name = "medusa_lm_head.pt" if "medusa_num_heads" in written.config else "pytorch_model.bin"
        torch.save(written.tensors, written.folder / name)
    else:
        save_file(written.tensors, written.folder / "model.safetensors")
    return written


def eagle1(folder: Path, target: LlamaConfig, *, seed: int = 0, bias: bool = True, layout: str = "eagle") -> Written:
    """As SafeAILab saves EAGLE-1, or speculators, or MSD."""
    config = layer_config(target)
    hidden = target.hidden_size
    layer, joining = ("transformer.", "fusion_fc") if layout == "speculators-eagle" else ("layers.0.", "fc")
    shapes = {**_layer_shapes(config, hidden, layer), f"{joining}.weight": (hidden, 2 * hidden)}
    if bias:
        shapes[f"{joining}.bias"] = (hidden,)
    told: dict[str, Any] = config
    if layout == "speculators-eagle":
        told = {"speculators_model_type": "eagle", "transformer_layer_config": config, "fusion_bias": bias}
    if layout == "msd":
        told = {**config, "model_type": "llava", "architectures": ["LlavaLlamaForCausalLM"]}
    return Written(folder, told, _draw(shapes, seed))


def eagle3(
    folder: Path,
    target: LlamaConfig,
    *,
    seed: int = 0,
    reads: tuple[int, ...] = (1, 2, 3),
    choices: int | None = None,
    layout: str = "eagle3",
    own_embeddings: bool = False,
    has_head: bool = True,
    nests: bool = False,
    **flags: Any,
) -> Written:
    """As SafeAILab and SpecForge save EAGLE-3, or speculators. `reads` are layers by what enters them.

    Without `has_head` it is the target's, or its own embeddings where they are tied; `nests`: vLLM's place of flags.
    """
    config, hidden, rows = layer_config(target), target.hidden_size, target.vocab_size
    is_speculators = layout == "speculators-eagle3"
    layer = "layers.0." if is_speculators else "midlayer."
    count = choices or rows
    shapes = {
        **_layer_shapes(config, 2 * hidden, layer),
        f"{layer}input_layernorm.weight": (hidden,),
        f"{layer}hidden_norm.weight": (hidden,),
        "fc.weight": (hidden, len(reads) * hidden),
        "norm.weight": (hidden,),
        "lm_head.weight": (count, hidden),
    }
    if flags.get("fc_norm"):
        shapes |= {f"fc_norm.{number}.weight": (hidden,) for number in range(len(reads))}
    if flags.get("use_aux_norm"):
        shapes |= {f"aux_norm_{name}.weight": (hidden,) for name in ("low", "mid", "high")}
    if flags.get("norm_before_fc"):
        shapes["input_norm.weight"] = (len(reads) * hidden,)
    if own_embeddings:
        shapes["embed_tokens.weight"] = (rows, hidden)
    if not has_head:
        del shapes["lm_head.weight"]
    tensors = _draw(shapes, seed)
    if choices is not None:
        chosen = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))[:choices].sort().values
        tensors["d2t"] = chosen - torch.arange(choices)
        tensors["t2d"] = torch.zeros(rows, dtype=torch.bool).index_fill(0, chosen, True)
    if is_speculators:
        told = {
            "architectures": ["Eagle3DraftModel"],
            "speculators_model_type": "eagle3",
            "transformer_layer_config": config,
            "speculators_config": {
                "algorithm": "eagle3",
                "default_proposal_method": "greedy",
                "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
                "verifier": {"name_or_path": None, "architectures": ["LlamaForCausalLM"]},
            },
            "eagle_aux_hidden_state_layer_ids": list(reads),
            "draft_vocab_size": count,
            **flags,
        }
    else:
        outputs = [layer - 1 for layer in reads]
        told = {
            **config,
            "architectures": ["LlamaForCausalLMEagle3"],
            "draft_vocab_size": count if has_head else None,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": outputs, **(flags if nests else {})},
            **({} if nests else flags),
        }
    return Written(folder, told, tensors, reads, flags)


def medusa(folder: Path, target: LlamaConfig, *, heads: int = 3, blocks: int = 1, seed: int = 0) -> Written:
    """As Medusa is saved: a configuration that may be wrong about the heads, and a file of its own."""
    hidden = target.hidden_size
    shapes: dict[str, tuple[int, ...]] = {}
    for head in range(heads):
        for block in range(blocks):
            shapes |= {f"{head}.{block}.linear.weight": (hidden, hidden), f"{head}.{block}.linear.bias": (hidden,)}
        shapes[f"{head}.{blocks}.weight"] = (target.vocab_size, hidden)
    config = {"medusa_num_heads": 2, "medusa_num_layers": blocks, "base_model_name_or_path": "tiny-target"}
    return Written(folder, config, _draw(shapes, seed))


def _norm(states: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return states * torch.rsqrt(states.pow(2).mean(-1, keepdim=True) + eps) * weight


class Reference:
    """A head without a cache: all places anew for every token. `target` is transformers' own model."""

    def __init__(self, written: Written, target: Any) -> None:
        self.tensors, self.flags, self.reads = written.tensors, written.flags, written.reads
        self.target = target
        self.config = written.config.get("transformer_layer_config", written.config)
        self.is_eagle3 = bool(written.reads)
        self.sees_pictures = written.config.get("model_type") == "llava"
        # SGLang's and vLLM's llama_eagle3: the head is always normed; `norm_output` chooses what is fed on.
        self.feeds_normed = bool(self.flags.get("norm_output"))

    def states(self, ids: torch.Tensor) -> torch.Tensor:
        """Of ids [S] what the head takes of the target, [S, H]."""
        return self.states_of(self.target.model.embed_tokens(ids))

    def states_of(self, embeddings: torch.Tensor) -> torch.Tensor:
        """The same of embeddings [S, H]."""
        raw: list[torch.Tensor] = []
        hook = self.target.model.norm.register_forward_pre_hook(lambda _, inputs: raw.append(inputs[0]))
        # hidden_states[i] is what enters layer i; the last one is normed already.
        seen = self.target.model(inputs_embeds=embeddings[None], output_hidden_states=True).hidden_states
        hook.remove()
        if not self.is_eagle3:
            last: torch.Tensor = seen[-1][0]
            return last
        read = [state[0] for state in [*seen[:-1], *raw]]
        read = [read[layer] for layer in self.reads]
        if self.flags.get("fc_norm"):
            read = [_norm(state, self.tensors[f"fc_norm.{number}.weight"]) for number, state in enumerate(read)]
        if self.flags.get("use_aux_norm"):
            names = ("low", "mid", "high")
            read = [
                _norm(state, self.tensors[f"aux_norm_{name}.weight"]) for name, state in zip(names, read, strict=True)
            ]
        joined = torch.cat(read, dim=-1)
        if self.flags.get("norm_before_fc"):
            joined = _norm(joined, self.tensors["input_norm.weight"])
        return joined @ self.tensors["fc.weight"].T

    def embeddings(self, ids: torch.Tensor) -> torch.Tensor:
        """[S, H]."""
        own = self.tensors.get("embed_tokens.weight")
        found: torch.Tensor = self.target.model.embed_tokens(ids) if own is None else own[ids]
        return found

    def guesses(
        self, states: torch.Tensor, embeddings: torch.Tensor, pictures: torch.Tensor | None = None
    ) -> torch.Tensor:
        """What leaves the layer at every place, [S, H]."""
        tensors = {}
        for name, tensor in self.tensors.items():
            own = name.removeprefix("layers.0.").removeprefix("midlayer.").removeprefix("transformer.")
            tensors[own] = tensor
        if self.is_eagle3:
            normed = _norm(states, tensors["hidden_norm.weight"])
            entering = torch.cat([_norm(embeddings, tensors["input_layernorm.weight"]), normed], dim=-1)
            residual = normed if self.flags.get("norm_before_residual") else states
        else:
            joining = "fusion_fc" if "fusion_fc.weight" in tensors else "fc"
            joined = torch.cat([embeddings, states], dim=-1)
            entering = F.linear(joined, tensors[f"{joining}.weight"], tensors.get(f"{joining}.bias"))
            if pictures is not None and self.sees_pictures:
                entering = torch.where(pictures[:, None], embeddings, entering)
            residual = entering
        heads, shared = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        count = states.shape[0]

        def split(name: str, number: int) -> torch.Tensor:
            return F.linear(entering, tensors[f"self_attn.{name}_proj.weight"]).view(count, number, -1).transpose(0, 1)

        queries, keys, values = split("q", heads), split("k", shared), split("v", shared)
        known = ("hidden_size", "num_attention_heads", "max_position_embeddings", "rope_theta")
        rotary = LlamaRotaryEmbedding(LlamaConfig(**{name: self.config[name] for name in known}))
        cos, sin = rotary(states, torch.arange(count)[None])
        queries, keys = apply_rotary_pos_emb(queries[None], keys[None], cos, sin)
        keys, values = (each.repeat_interleave(heads // shared, -3) for each in (keys[0], values))
        scores = queries[0] @ keys.transpose(-1, -2) / queries.shape[-1] ** 0.5
        scores = scores.masked_fill(torch.ones(count, count, dtype=torch.bool).triu(1), -torch.inf)
        mixed = (scores.softmax(-1) @ values).transpose(0, 1).reshape(count, -1)
        hidden = residual + mixed @ tensors["self_attn.o_proj.weight"].T
        normed = _norm(hidden, tensors["post_attention_layernorm.weight"])
        inner = F.silu(normed @ tensors["mlp.gate_proj.weight"].T) * (normed @ tensors["mlp.up_proj.weight"].T)
        left = hidden + inner @ tensors["mlp.down_proj.weight"].T
        return _norm(left, tensors["norm.weight"]) if self.feeds_normed else left

    def choose(self, guess: torch.Tensor) -> int:
        """The target's id of the likeliest token after a guess [H]."""
        if not self.is_eagle3:
            return int(self.target.lm_head(guess).argmax())
        normed = guess if self.feeds_normed else _norm(guess, self.tensors["norm.weight"])
        head = self.tensors.get("lm_head.weight")
        if head is None:
            is_tied = self.config.get("tie_word_embeddings")
            head = self.tensors["embed_tokens.weight"] if is_tied else self.target.lm_head.weight
        chosen = int((head @ normed).argmax())
        added = self.tensors.get("d2t")
        return chosen if added is None else chosen + int(added[chosen])

    def chain(self, ids: list[int], count: int) -> tuple[list[int], torch.Tensor]:
        """Drafted tokens after `ids`, whose last the target has not seen, and the guesses they were chosen from."""
        states = self.states(torch.tensor(ids[:-1]))
        return self.chain_from(states, self.embeddings(torch.tensor(ids[1:])), count)

    def chain_from(
        self, states: torch.Tensor, embeddings: torch.Tensor, count: int, pictures: torch.Tensor | None = None
    ) -> tuple[list[int], torch.Tensor]:
        """The same of states [S, H] and the embeddings after them [S, H]."""
        tokens: list[int] = []
        guesses: list[torch.Tensor] = []
        while True:
            guess = self.guesses(states, embeddings, pictures)[-1]
            guesses.append(guess)
            tokens.append(self.choose(guess))
            if len(tokens) == count:
                return tokens, torch.stack(guesses)
            states = torch.cat([states, guess[None]])
            embeddings = torch.cat([embeddings, self.embeddings(torch.tensor(tokens[-1:]))])
            if pictures is not None:
                pictures = torch.cat([pictures, torch.tensor([False])])
