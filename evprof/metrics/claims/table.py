"""All claims of the documents in their order, and how a report answers them."""

from __future__ import annotations

from functools import partial

from evprof.metrics.claims import memory, speculation, speed
from evprof.metrics.claims.evidence import CheckedClaim, Claim, Evidence

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "001",
        "Feature caching saves 100-200 ms per sample",
        "vision with a cache hit against vision computed (evprof suite loading)",
        memory.feature_caching,
    ),
    Claim(
        "001",
        "bfloat16 uses less memory and is faster than float16",
        "the same configuration in both (evprof suite shapes)",
        memory.bfloat16,
    ),
    Claim(
        "001",
        "The two models have different tokenizers",
        "answers of both models with token ids to one sample, or their vocabularies",
        memory.tokenizers,
    ),
    Claim("001", "EventGPT's context is ~306 tokens", "prompt length of EventGPT-7B", memory.eventgpt_context),
    Claim(
        "002",
        "Decoding is 1.55× faster because of the smaller KV cache",
        "time per token at both lengths with a static and with a dynamic cache, on equally large models",
        speed.smaller_cache,
    ),
    Claim(
        "002",
        "The prefill ratio (8.59× instead of 53.3×) is memory-bandwidth bound",
        "prefill of a known shape, with the machine's ceilings (any suite measures them)",
        speed.memory_bound_prefill,
    ),
    Claim(
        "002",
        '"13.7 % acceptance equivalent", "86.3 % token rejection"',
        "prompt lengths of both models, and speculation that counts drafted and accepted tokens",
        speculation.length_ratio_as_acceptance,
    ),
    Claim(
        "002",
        "Naive speculation is slower than the target alone",
        "speculation and the target alone on the same samples (evprof suite speculation)",
        speculation.naive_is_slower,
    ),
    Claim(
        "002",
        "A trained KV adapter makes it 2.85× as fast",
        "speculation through a KV adapter and the target alone on the same samples",
        speculation.adapter_speedup,
    ),
    Claim(
        "002",
        "Parallel prefill makes it 2.0× as fast",
        "drafting inside the target's prefill, or at least the paces of both models (evprof suite one-vs-eight)",
        speculation.parallel_prefill_doubles,
    ),
    Claim(
        "002",
        "An adapter reaches 80 % acceptance",
        "drafted and accepted tokens through an adapter",
        speculation.adapter_acceptance,
    ),
    Claim(
        "003",
        "100 % of the generation speedup is fewer output tokens",
        "answers of both models at their own length (evprof suite stages)",
        speed.fewer_tokens,
    ),
    Claim(
        "003",
        "Vision makes up ~15 % of the generation speedup",
        "vision, prefill and decode apart, of both models",
        speed.vision_share,
    ),
    Claim(
        "003",
        "EventGPT's vision is faster per frame: no CLIP overhead",
        "vision time and number of frames of both models",
        speed.faster_per_frame,
    ),
    Claim(
        "000",
        "EventGPT's prefill of ~641 positions takes 90-115 ms",
        "EventGPT-7B, warm and repeated, in 16 bit on a GPU, with its clocks",
        partial(speed.warm_prefill, speed.PREFILL_000),
    ),
    Claim(
        "002",
        "EventGPT's prefill of ~636 positions takes 66 ms",
        "EventGPT-7B, warm and repeated, in 16 bit on a GPU, with its clocks",
        partial(speed.warm_prefill, speed.PREFILL_002),
    ),
    Claim(
        "000",
        "7 % more tokens explain EventGPT's slower prefill",
        "EventGPT with five event frames and LLaVA-1.5 with one image (evprof suite shapes)",
        speed.seven_percent,
    ),
    Claim(
        "004",
        "Speculation brings 2-3×",
        "speculation and the target alone on the same samples (evprof suite speculation)",
        speculation.speculation_doubles,
    ),
    Claim(
        "004",
        "Token pruning saves 10-20 %",
        "a suite with an axis of visual_keep, such as [1.0, 0.5]",
        speculation.pruning_saves,
    ),
    Claim(
        "004",
        "Quantization brings 1.5-2×",
        'a suite with an axis of quantization, such as ["none", "int8"]',
        speculation.quantization_speeds_up,
    ),
    Claim(
        "004",
        "Batch inference brings 2-4×",
        "several samples at once (evprof bench switches --only batch)",
        speculation.batching_speeds_up,
    ),
)


def answer_claims(evidence: Evidence) -> list[CheckedClaim]:
    """Every claim with what these measurements say of it."""
    return [CheckedClaim(claim, claim.judge(evidence)) for claim in CLAIMS]
