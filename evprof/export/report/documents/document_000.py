"""Document 000: why EventGPT's prefill is no faster than Video-LLaVA's; shapes at each stage."""

from __future__ import annotations

from evprof.export.report.documents import tables
from evprof.export.report.documents.item import (
    OTHER_MODELS,
    Item,
    figure,
    files,
    listed,
    never,
    plan,
    question,
    suite,
    table,
)

_ALL_BUT_END_TO_END = files("all but end to end")
_NEVER_VARIED = never("no published file varied them")

ITEMS: tuple[Item, ...] = listed(
    "000",
    suite("shapes"),
    [
        table(
            "Prefill Sequence Length Comparison",
            "visual, text and all positions of both prompts",
            tables.lengths,
            files(
                "one-vs-eight, five stages, prefill rows",
                "the video model's lengths only where its file counts them once",
            ),
        ),
        table(
            "Data Shapes at Each Stage: EventGPT and Video-LLaVA",
            "what goes into every stage and comes out, with dtypes and bytes",
            tables.all_shapes,
            never("result files hold no shapes of tensors"),
        ),
        table(
            "Data Shapes at Each Stage: times and tokens per second",
            "vision, prefill and decode times and rates of both, with ratios",
            tables.both,
            files("one-vs-eight, five stages, prefill rows, per-sample rows"),
        ),
        table(
            "Why EventGPT Prefill is NOT Faster",
            "backbone, hidden size, heads, layers, vision tower of both",
            tables.architecture,
            files("all", "the published sizes of 7B models: files name the models only"),
        ),
        question(
            "Why EventGPT Prefill is NOT Faster: impact",
            "do 7 % more tokens explain the slower prefill, and is its time as printed",
            tables.claims_of("000"),
            files("five stages, prefill rows"),
            suite("shapes", OTHER_MODELS, parts=()),
        ),
        figure(
            "Core insight",
            "compression of five frames' features (2,885 to 582)",
            tables.compression,
            files("one-vs-eight, five stages", "positions of a frame are the published ones"),
        ),
        figure(
            "Time Distribution Analysis", "time of each stage and its share", tables.stage_shares, _ALL_BUT_END_TO_END
        ),
        question(
            "Key observation",
            "fewer tokens or faster tokens: where does 1.86× come from",
            tables.fewer_or_faster,
            files("per-sample rows, five stages, four stages"),
        ),
        question(
            "Why Decode Dominates",
            "is decoding bound by memory, and what is a step made of",
            tables.theory_blocks,
            files("one-vs-eight, five stages", "no ceilings of the machine they were measured on"),
            suite("shapes", "on a CPU the ceilings are this machine's; small models fit its caches"),
        ),
        question(
            "Even a 2× prefill speedup",
            "what a stage twice as fast would gain",
            tables.faster_stages,
            _ALL_BUT_END_TO_END,
        ),
        plan(
            "Recommendations: speculative decoding",
            "a smaller draft for several tokens at once",
            tables.break_evens,
            files("end to end"),
            suite("speculation"),
        ),
        plan(
            "Recommendations: token reduction, quantization",
            "fewer visual tokens; int8 weights",
            tables.one_setting,
            _NEVER_VARIED,
            suite("optimizations", "nf4 needs bitsandbytes"),
        ),
        plan(
            "Recommendations: KV cache optimization",
            "PagedAttention, continuous batching; what a cache takes and how it lies",
            tables.layouts,
            _NEVER_VARIED,
            suite(
                "documents",
                "static, 8-bit and 4-bit caches and fixed batches are here; PagedAttention and "
                "continuous batching belong to a server of many requests, not to a profiler of one",
                parts=("shapes",),
            ),
        ),
        plan(
            "Recommendations: batches",
            "several samples at once",
            tables.batches,
            _NEVER_VARIED,
            suite("documents", parts=("shapes",)),
        ),
    ],
)
