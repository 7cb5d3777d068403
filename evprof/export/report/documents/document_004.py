"""Document 004: data flow through four stages, sample by sample."""

from __future__ import annotations

from evprof.export.report.documents import tables
from evprof.export.report.documents.item import OTHER_MODELS, Item, files, listed, never, plan, question, suite, table

_ROWS = "four stages, per-sample rows, five stages"
_NO_SHAPES = never("result files hold no shapes of tensors")

ITEMS: tuple[Item, ...] = listed(
    "004",
    suite("stages"),
    [
        table(
            "Overview; Stage Breakdown",
            "operation, input, output, time and share of every stage, tokenization among them",
            tables.operations,
            files(_ROWS, "times and shares, no inputs and outputs"),
        ),
        table("Stage Breakdown: share of the total", "0.8, 1.7, 0.7 and 96.8 %", tables.stage_shares, files(_ROWS)),
        table(
            "Data Flow Details: samples 0 to 9",
            "pictures, size, prompt, tokens, shape of features and answer of ten samples",
            tables.samples,
            files(_ROWS, "texts, tokens and times, no shapes"),
            suite("stages", "three samples are bundled; --data names more, and ten are listed"),
        ),
        question("Proper Stage 3+4 Decoupling", "are features encoded once and handed on", tables.diagrams, _NO_SHAPES),
        question(
            "LLM is the Bottleneck: 96.8 %, 135×",
            "share of prefill and decode, and what they are to vision",
            tables.both,
            files(_ROWS),
        ),
        plan(
            "Optimization Potential: 2-3×, 10-20 %, 1.5-2×, 2-4×",
            "speculation, pruning, quantization and batches, each judged",
            tables.claims_of("004"),
            never("no published file varied them"),
            suite("documents", OTHER_MODELS, parts=()),
        ),
        plan(
            "Optimization Potential: batch inference",
            "several samples at once",
            tables.batches,
            never("no published file varied it"),
            suite("documents", parts=("stages",)),
        ),
        table("Data Shape Summary", "pictures, features, ids in and out", tables.all_shapes, _NO_SHAPES),
        table(
            "Files Modified",
            "which files of another program were changed",
            None,
            never("the same"),
            never("says nothing that could be measured"),
        ),
    ],
)
