"""Which optimizations compute the answer. Every default is the published behaviour, or changes no token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evprof.core.plain import Plain
from evprof.core.vocabulary.inputs import of_eventgpt
from evprof.core.vocabulary.setting import LOSSY, ROUNDED, Range, Situation, setting

LANGUAGE_MODEL, VISION = "Language model", "Vision"

PRUNINGS = ("attention", "similarity", "random")
"""By what visual tokens are kept; `random` is the control for the others."""

OF_VISUAL_TOKENS = Range(least=0, most=1, is_above=True, step=5, is_share=True)
"""A share of the visual tokens."""

LOSSY_CACHES = ("fp8", "hqq8", "hqq4")
"""KV caches that keep less than was computed."""

FORGETFUL_CACHES = ("hqq8", "hqq4")
"""Those of them that cannot take a rejected token back."""


def _words(*names: str, **others: str) -> tuple[tuple[Any, str], ...]:
    return (*((name, name) for name in names), *others.items())


def _where_alone(here: Situation) -> str:
    return "Early exit changes the answer, and speculation must not." if here.described.is_paired else ""


def _where_tokens_leave(here: Situation) -> str:
    leaves = here.values["early_exit"] is not None and not here.described.is_paired
    return "" if leaves else "No token leaves early."


def _attention_refusal(here: Situation, value: Any) -> str:
    return "cuDNN needs a model on a CUDA device." if value == "cudnn" and not here.has_cuda else ""


def _cache_refusal(here: Situation, value: Any) -> str:
    cannot = value in FORGETFUL_CACHES and here.described.drafts
    return "An hqq cache cannot forget rejected tokens; speculative mode needs that." if cannot else ""


def _step_refusal(here: Situation, value: Any) -> str:
    """Why a decode step cannot be compiled, captured, fused or identical; in the engine's order."""
    if value not in ("compiled", "graphs", "fused", "identical"):
        return ""
    if value in ("graphs", "fused") and not here.has_cuda:
        return {"graphs": "CUDA graphs need", "fused": "The fused step needs"}[value] + " a model on a CUDA device."
    if here.values["early_exit"] is not None and not here.described.is_paired:
        return "Early exit decides token by token how far to go."
    cache, attention = here.values["cache"], here.values["attention"]
    if cache not in ("auto", "static"):
        return f"It needs a cache that is written in place: choose the static KV cache instead of {cache}."
    if value == "fused" and attention != "auto":
        return f"It computes attention with a kernel of its own: choose attention auto instead of {attention}."
    return _other_shape(here) if value == "identical" else ""


def _other_shape(here: Situation) -> str:
    mode, values = here.described, here.values
    if mode.is_parallel and values["verify"] == "last-chunk":
        return "Drafts in the prefill's last chunk are not verified in a step's shape: verify them after it."
    if mode.drafts and not mode.is_parallel and values["tree"]:
        return "A tree's tokens stand elsewhere in the cache than single steps put them: draft chains."
    return ""


@dataclass(frozen=True)
class Switches(Plain):
    """Which optimizations are on. "auto" leaves the choice to the engine, which reports what it took."""

    attention: str = setting(
        "auto",
        "attention",
        "The kernel that computes attention. cuDNN's plans every new length, so it is for a prefill alone, when named.",
        LANGUAGE_MODEL,
        ROUNDED,
        choices=_words("auto", sdpa="SDPA", flash="flash", cudnn="cuDNN", eager="eager"),
        refuses=_attention_refusal,
        label={"sdpa": "sdpa", "flash": "flash", "cudnn": "cudnn", "eager": "eager attention"},
        is_told_idle=True,
    )
    cache: str = setting(
        "auto",
        "KV cache",
        "Dynamic grows, static is set aside once: same answer. fp8 and hqq keep less: may change the answer.",
        LANGUAGE_MODEL,
        choices=_words("auto", "dynamic", "static", "fp8", hqq8="hqq 8 bit", hqq4="hqq 4 bit"),
        refuses=_cache_refusal,
        is_lossy=lambda value: value in LOSSY_CACHES,
        label={"dynamic": "dynamic", "static": "static", **{name: f"{name} cache" for name in LOSSY_CACHES}},
        is_told_idle=True,
    )
    step: str = setting(
        "auto",
        "decode step",
        "One kernel at a time, compiled, a CUDA graph, seven kernels a layer (fused), or the same bits in any block.",
        LANGUAGE_MODEL,
        ROUNDED,
        choices=_words("auto", "eager", "compiled", "identical", graphs="CUDA graphs", fused="fused kernels"),
        refuses=_step_refusal,
        label={
            "eager": "eager step",
            "compiled": "compiled",
            "graphs": "graphs",
            "fused": "fused step",
            "identical": "identical step",
        },
        is_told_idle=True,
    )
    prefill_chunk: int = setting(
        0,
        "prefill",
        "Positions per prefill pass: smaller takes less memory and more time.",
        LANGUAGE_MODEL,
        ROUNDED,
        range=Range(least=0, shown=65_536, step=256, low="all at once"),
        label="chunk {}",
        text=lambda value, _: f"{value} at a time" if value else "all at once",
        is_told_idle=True,
        is_advanced=True,
    )
    early_exit: int | None = setting(
        None,
        "early exit",
        "Lets a token leave after this layer when the model is sure enough.",
        LANGUAGE_MODEL,
        LOSSY,
        metavar="N",
        idle=_where_alone,
        range=Range(least=1, shown=256, low="never"),
        label=lambda value, values: f"exit {value} at {values['exit_confidence']:g}",
        text=lambda value, values: "off" if value is None else f"layer {value} when {values['exit_confidence']:g} sure",
        axis=lambda value, _: "no early exit" if value is None else f"early exit {value}",
        is_told_idle=True,
        is_advanced=True,
    )
    exit_confidence: float = setting(
        0.9,
        "confidence",
        "The probability from which a token may leave early.",
        LANGUAGE_MODEL,
        LOSSY,
        metavar="SHARE",
        idle=_where_tokens_leave,
        is_lossy=lambda _: False,
        range=Range(least=0, most=1, step=5, is_share=True),
        told_with="early_exit",
        is_advanced=True,
    )
    vision_cache: str = setting(
        "off",
        "vision cache",
        "Keeps visual embeddings for the next run on the same input.",
        VISION,
        choices=_words("off", "memory"),
        label={"memory": "vision cache"},
        is_told_idle=True,
        is_advanced=True,
    )
    visual_keep: float = setting(
        1.0,
        "tokens kept",
        "Share of the visual tokens that reach the language model.",
        VISION,
        LOSSY,
        metavar="SHARE",
        range=OF_VISUAL_TOKENS,
        label=lambda value, values: f"keep {value:g}" + _unusual_pruning(values),
        text=lambda value, values: "all" if value == 1 else f"{value:g} by {values['prune_by']}",
        is_told_idle=True,
    )
    prune_by: str = setting(
        "attention",
        "chosen by",
        "Keeps what the tower attends to most, what is least alike, or any (random: the control).",
        VISION,
        LOSSY,
        choices=_words(*PRUNINGS),
        idle=lambda here: "Every visual token is kept." if here.values["visual_keep"] == 1 else "",
        is_lossy=lambda _: False,
        told_with="visual_keep",
        is_advanced=True,
    )
    projector: str = setting(
        "reference",
        "projector",
        "EventGPT's projector before pooling, as published, or fused with it after pooling: less work.",
        VISION,
        ROUNDED,
        choices=_words("reference", "fused"),
        idle=of_eventgpt,
        label="{} projector",
        is_advanced=True,
    )
    prefetch: str = setting(
        "off",
        "input files",
        "Before every run the input's files are read into memory (warm), or dropped from it (cold).",
        VISION,
        choices=_words("off", "warm", "cold"),
        label="{} files",
        text={"off": "as they are", "warm": "in memory", "cold": "on disk"},
        is_told_idle=True,
        is_advanced=True,
    )


def _unusual_pruning(values: Any) -> str:
    by = values["prune_by"]
    return "" if by == "attention" else f" by {by}"
