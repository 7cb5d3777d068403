"""Document 002: one event frame against eight video frames, and speculation inside the prefill."""

from __future__ import annotations

from evprof.export.report.documents import tables
from evprof.export.report.documents.item import (
    OTHER_MODELS,
    Item,
    command,
    figure,
    files,
    listed,
    never,
    plan,
    question,
    suite,
    table,
)

_FILE = files("one-vs-eight")
_NEVER_DONE = never("no published file did it")

ITEMS: tuple[Item, ...] = listed(
    "002",
    suite("one-vs-eight"),
    [
        table("Configuration", "frames and samples of both", tables.settings, _FILE),
        table(
            "Results Summary",
            "prompt, vision, prefill, five decode steps and total of both, with ratios",
            tables.both,
            _FILE,
        ),
        table(
            "Throughput Analysis, Memory Usage",
            "prefill and decode rates, samples per second, KV cache",
            tables.both,
            _FILE,
        ),
        question(
            "Key Findings: 66.16 ± 1.12 ms, constant prompt",
            "means with standard deviation and interval of every stage",
            tables.stage_shares,
            _FILE,
        ),
        table(
            "Attention Complexity; why less than 53.3×",
            "squares of the lengths, operations and measured time; what bounds the prefill",
            tables.theory_blocks,
            files("one-vs-eight", "no ceilings of the machine it was measured on"),
        ),
        question(
            "Claims of the results",
            "smaller cache, memory-bound prefill, 13.7 % and 86.3 %, naive speculation, 2.85×, 2.0×, 80 %, 66 ms",
            tables.claims_of("002"),
            files("one-vs-eight, end to end"),
            suite("documents", OTHER_MODELS, parts=()),
        ),
        table(
            "KV Cache Memory Scaling, batch size in 24 GB",
            "bytes by formula and measured; samples that fit, by cache alone and beside weights",
            tables.how_many_fit,
            _FILE,
        ),
        table(
            "Token Scaling Analysis",
            "prompt, time and cache by number of frames, with ×; what is past the context is told",
            tables.frames,
            never("the file has one number of frames for each model"),
            suite("token-scaling"),
        ),
        figure(
            "Stage-by-Stage Breakdown",
            "bars of both, and what each stage adds to the difference in ms",
            tables.contribution,
            _FILE,
        ),
    ],
) + listed(
    "002",
    suite("parallel-prefill"),
    [
        table(
            "Research Documents: naive speculation",
            "speculation in rounds against the target alone",
            tables.break_evens,
            files("end to end"),
            suite("speculation"),
        ),
        table(
            "Research Documents: KV cache adaptation, 2.85×",
            "the target over a cache mapped from the draft's",
            None,
            _NEVER_DONE,
            command(
                "run --mode kv-adapted --adapter FOLDER -o S.evprof",
                "an adapter has to be trained first (evprof adapter train --kind kv); none is "
                "bundled, for a mapped cache changes answers",
            ),
        ),
        table(
            "Research Documents: parallel prefill, 2.0×",
            "tokens hidden in the target's prefill, contention, net gain",
            tables.hidden,
            files("prefill rows", "windows only: nothing was drafted in those files' prefills"),
        ),
        plan(
            "Phase 1: ParallelPrefillSpeculative, multi-threaded execution",
            "both models at once, a thread each",
            tables.hidden,
            _NEVER_DONE,
        ),
        plan(
            "Phase 1: draft budget by the time window",
            "how many tokens the window holds",
            tables.faster_stages,
            files("prefill rows"),
        ),
        plan(
            "Phase 1: KV cache management for both models",
            "how both caches lie in memory, and that rejected positions are gone",
            tables.layouts,
            _NEVER_DONE,
            suite("documents", parts=("parallel-prefill",)),
        ),
        plan(
            "Phase 2: without an adapter; baseline; acceptance on a validation set",
            "drafted and accepted tokens of the draft as it is",
            tables.acceptances,
            files("end to end"),
            suite("drafters"),
        ),
        plan(
            "Phase 2: failure modes",
            "first rejections by kind, place and round",
            tables.failures,
            _NEVER_DONE,
            suite("drafters"),
        ),
        plan(
            "Phase 3: collect draft and target pairs",
            "training pairs in shards",
            None,
            _NEVER_DONE,
            command("adapter collect DATA -o SHARDS"),
        ),
        plan(
            "Phase 3: adapter with cross-attention, trained for 80 %",
            "a head that looks at what the target sees",
            None,
            never("result files hold no runs of a training"),
            command("adapter train SHARDS --kind hidden -o FOLDER"),
        ),
        plan(
            "Phase 3: validate on held-out samples",
            "acceptance and speed of an adapter on samples it has not seen",
            None,
            files("end to end"),
            command("adapter evaluate FOLDER DATA"),
        ),
        plan(
            "Phase 4: separate GPUs, transfers, one against two",
            "the same run on one and on two devices, with bytes and time of transfers",
            None,
            _NEVER_DONE,
            command(
                "run --mode parallel-prefill --draft-device cuda:0 --target-device cuda:1 -o S.evprof",
                "needs two CUDA devices",
            ),
        ),
        plan(
            "Phase 4: memory layout",
            "shape, strides and bytes of both caches",
            tables.layouts,
            _NEVER_DONE,
            suite("documents", parts=("parallel-prefill",)),
        ),
        table(
            "Expected Final Performance",
            "totals at 5, 20, 50 and 100 tokens, target alone and with hidden drafts",
            tables.by_answer_length,
            files("one-vs-eight", "expected from the file's paces, not measured"),
        ),
    ],
)
