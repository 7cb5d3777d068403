"""Document 003: data loading against generation, and a proposal to split the latter."""

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

_ROWS = "per-sample rows, five stages, four stages"

ITEMS: tuple[Item, ...] = listed(
    "003",
    suite("stages"),
    [
        table(
            "Executive Summary: 73 % and 27 %",
            "what loading and generation each add to the difference",
            tables.contribution,
            files(_ROWS),
        ),
        table(
            "Stage 1: Data Loading; Stage 2: Preprocessing", "times of both and their ratios", tables.both, files(_ROWS)
        ),
        question(
            "Stage 1: why (container, codec, extraction, colour)",
            "the parts of loading, bytes read and frames a second",
            tables.reading,
            never("files have one time for all of it"),
            suite("loading"),
        ),
        table(
            "Token Generation Comparison",
            "tokens, generation time, tokens per second, time per token, with ratios",
            tables.both,
            files(_ROWS),
        ),
        question(
            "Speedup Analysis: 100 % by fewer tokens",
            "token count ratio × time per token ratio",
            tables.fewer_or_faster,
            files(_ROWS),
        ),
        figure("Example outputs", "answers of both to the same sample", tables.all_texts, files(_ROWS)),
        question(
            "Why fewer tokens: events are dense, other training",
            "why one model says less than the other",
            None,
            never("the same"),
            never("a matter of training data; no measurement of these two models can tell causes apart"),
        ),
        question(
            "Why fewer tokens: vision makes up ~15 %, no CLIP overhead",
            "share of vision in the difference, vision per frame",
            tables.claims_of("003"),
            files("five stages, one-vs-eight"),
            suite("stages", OTHER_MODELS, parts=()),
        ),
        figure(
            "Stage 3 → Stage 3+4 Proposed Split",
            "vision apart from decoding, with what passes between them",
            tables.operations,
            never("files time what their script timed; nothing splits it afterwards"),
        ),
        table(
            "Implementation Locations by Model",
            "vision tower, projector and language model of either model",
            tables.diagrams,
            never("result files hold no parts of models"),
        ),
        question(
            "Challenge: generate() is monolithic",
            "a decoding loop of our own, as fast and with the same tokens",
            None,
            never("nothing to import"),
            command("bench gpu"),
        ),
        plan(
            "Recommendation: faster data loading",
            "PNG event frames and kept decoded frames against event files and video",
            tables.one_setting,
            never("no published file varied it"),
            suite("loading"),
        ),
        plan(
            "Recommendation: split stage 3",
            "five stages, each with time and share",
            tables.stage_shares,
            files("five stages"),
        ),
        plan(
            "Recommendation: fair comparison, same data format",
            "both models shown the same events, the same pictures, the same video",
            tables.same_input,
            never("no published file has it"),
            suite("loading"),
        ),
    ],
)
