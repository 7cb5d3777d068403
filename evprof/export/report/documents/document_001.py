"""Document 001: LLM decoding as the last of four stages."""

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

_ROWS = "four stages, per-sample rows, five stages"
_NO_SHAPES = never("result files hold no shapes of tensors")
_NO_FEATURES_KEPT = never("no published file kept features")
_NOT_VARIED = never("no published file varied it")
_NEVER_DONE = never("no published file did it")

ITEMS: tuple[Item, ...] = listed(
    "001",
    suite("stages"),
    [
        table(
            "Performance Comparison",
            "time, share, tokens and tokens per second of the language model, with ratios",
            tables.both,
            files(_ROWS),
        ),
        table(
            "Input Format Analysis",
            "inputs of the last stage: ids, features, image sizes, attention mask, generation settings",
            tables.all_shapes,
            _NO_SHAPES,
        ),
        table(
            "Output Format Analysis",
            "ids that come out, and how long answers are",
            tables.all_texts,
            files(_ROWS, "texts and counts, no shapes"),
        ),
        table(
            "Generation parameters",
            "sampling, tokens at most, cache",
            tables.settings,
            files("all", "frames and samples; of sampling and limits files say little"),
        ),
        question(
            "Why EventGPT is Faster: feature caching, data type",
            "do cached features save 100-200 ms; is bfloat16 smaller and faster than float16; "
            "are the tokenizers different",
            tables.claims_of("001"),
            never("no published file has the same configuration both ways"),
            suite("documents", OTHER_MODELS, parts=()),
        ),
        question(
            "Feature caching",
            "vision with and without kept features",
            tables.stage_shares,
            _NO_FEATURES_KEPT,
            suite("loading"),
        ),
        table(
            "Context Length",
            "text, visual and all positions of the context",
            tables.lengths,
            files("one-vs-eight, five stages, prefill rows"),
        ),
        table(
            "Data Type",
            "memory and speed in bfloat16 and float16",
            tables.peaks,
            never("no published file has one model in both"),
            suite("shapes", "peak memory by dtype is the allocator's, which a GPU has and a CPU has not"),
        ),
        question("Output Length", "half the tokens, half the time", tables.fewer_or_faster, files(_ROWS)),
        figure("Architecture Differences", "both models as chains of stages", tables.diagrams, _NO_SHAPES),
        plan(
            "Optimization Opportunities: quantization, token pruning, early exit",
            "one switch at a time, of either model",
            tables.one_setting,
            never("no published file varied them"),
            suite("optimizations"),
        ),
        plan(
            "Optimization Opportunities: speculative decoding",
            "with a smaller draft",
            tables.break_evens,
            files("end to end"),
            suite("drafters"),
        ),
        plan(
            "Optimization Opportunities: batch inference",
            "several samples at once",
            tables.batches,
            _NOT_VARIED,
            suite("documents", parts=("stages",)),
        ),
        plan(
            "Optimization Opportunities: Flash Attention",
            "one kernel of attention against another",
            None,
            _NOT_VARIED,
            command(
                "bench switches",
                "PyTorch's flash kernel needs a CUDA device; on a CPU its own fused attention is taken",
            ),
        ),
        plan(
            "Optimization Opportunities: feature caching of the video model",
            "kept features of video, too",
            tables.one_setting,
            _NO_FEATURES_KEPT,
            suite("loading"),
        ),
        plan(
            "Optimization Opportunities: model distillation",
            "a smaller model as good as the large one",
            None,
            _NEVER_DONE,
            command(
                "run --mode speculative --draft evprof-tiny-video-llava:layers=5 --draft-input video -o S.evprof",
                "a shallower model by leaving layers out; a distilled target is not made, for it "
                "takes a data set and days of a large GPU: drafts are taught on the target's answers "
                "instead (evprof adapter train)",
            ),
        ),
        question(
            "Speculative Decoding Feasibility: acceptance of 4.2 %",
            "how many tokens of the draft the target accepts, by which definition",
            tables.acceptances,
            files("four stages, end to end, per-sample rows"),
            suite("speculation"),
        ),
        question(
            "Requirements: shared tokenizer",
            "which ids of the two vocabularies mean the same",
            None,
            never("files hold ids, no vocabularies"),
            command("inspect evprof-tiny-eventgpt --against evprof-tiny-video-llava"),
        ),
        question(
            "Requirements: output style", "how long and how alike the answers are", tables.all_texts, files(_ROWS)
        ),
        question(
            "Requirements: feature alignment",
            "how alike the features of both vision encoders are, position by position",
            tables.aligned,
            never("files hold no features"),
            suite("documents", parts=()),
        ),
        plan(
            "Recommendation: teach the draft the target's answers",
            "low-rank changes of the draft, and what they bring",
            tables.failures,
            files("end to end", "adapters of that program only"),
            suite("drafters"),
        ),
        plan(
            "Recommendation: feature adapter, shared decoder heads",
            "the draft's features under the target's own head",
            tables.acceptances,
            _NEVER_DONE,
            command("run --mode speculative --adapter evprof-tiny-hidden -o S.evprof", parts=("drafters",)),
        ),
        question(
            "Summary: four causes of 1.86×", "what each stage adds to the difference", tables.contribution, files(_ROWS)
        ),
    ],
)
