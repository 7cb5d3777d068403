"""Document 004: data flow through four stages, sample by sample."""

from __future__ import annotations

from evprof.export.report.documents import tables
from evprof.export.report.documents.item import (
    OTHER_MODELS,
    PLAN,
    QUESTION,
    TABLE,
    Item,
    files,
    never,
    suite,
)

_STAGES = ("stages",)
_ROWS = "four stages, per-sample rows, five stages"

ITEMS: tuple[Item, ...] = (
    Item(
        "004",
        "Overview; Stage Breakdown",
        TABLE,
        "operation, input, output, time and share of every stage, tokenization among them",
        suite("stages"),
        files(_ROWS, "times and shares, no inputs and outputs"),
        _STAGES,
        tables.operations,
    ),
    Item(
        "004",
        "Stage Breakdown: share of the total",
        TABLE,
        "0.8, 1.7, 0.7 and 96.8 %",
        suite("stages"),
        files(_ROWS),
        _STAGES,
        tables.stage_shares,
    ),
    Item(
        "004",
        "Data Flow Details: samples 0 to 9",
        TABLE,
        "pictures, size, prompt, tokens, shape of features and answer of ten samples",
        suite("stages", "three samples are bundled; --data names more, and ten are listed"),
        files(_ROWS, "texts, tokens and times, no shapes"),
        _STAGES,
        tables.samples,
    ),
    Item(
        "004",
        "Proper Stage 3+4 Decoupling",
        QUESTION,
        "are features encoded once and handed on",
        suite("stages"),
        never("result files hold no shapes of tensors"),
        _STAGES,
        tables.diagrams,
    ),
    Item(
        "004",
        "LLM is the Bottleneck: 96.8 %, 135x",
        QUESTION,
        "share of prefill and decode, and what they are to vision",
        suite("stages"),
        files(_ROWS),
        _STAGES,
        tables.both,
    ),
    Item(
        "004",
        "Optimization Potential: 2-3x, 10-20 %, 1.5-2x, 2-4x",
        PLAN,
        "speculation, pruning, quantization and batches, each judged",
        suite("documents", OTHER_MODELS),
        never("no published file varied them"),
        (),
        tables.claims_of("004", ""),
    ),
    Item(
        "004",
        "Optimization Potential: batch inference",
        PLAN,
        "several samples at once",
        suite("documents"),
        never("no published file varied it"),
        _STAGES,
        tables.batches,
    ),
    Item(
        "004",
        "Data Shape Summary",
        TABLE,
        "pictures, features, ids in and out",
        suite("stages"),
        never("result files hold no shapes of tensors"),
        _STAGES,
        tables.all_shapes,
    ),
    Item(
        "004",
        "Files Modified",
        TABLE,
        "which files of another program were changed",
        never("says nothing that could be measured"),
        never("the same"),
    ),
)
