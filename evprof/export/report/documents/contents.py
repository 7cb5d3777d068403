"""All items in the documents' order."""

from __future__ import annotations

from evprof.export.report.documents import document_000, document_001, document_002, document_003, document_004
from evprof.export.report.documents.item import Item

TITLES = {
    "000": "shapes and times of stages 4 and 5",
    "001": "LLM decoding as stage 4 of 4",
    "002": "one event frame against eight video frames",
    "003": "loading against generation",
    "004": "data flow through four stages",
}
"""What each document is about."""

ITEMS: tuple[Item, ...] = (
    *document_000.ITEMS,
    *document_001.ITEMS,
    *document_002.ITEMS,
    *document_003.ITEMS,
    *document_004.ITEMS,
)


def numbered(document: str) -> list[tuple[str, Item]]:
    """The items of a document with their numbers: "002.7"."""
    own = [item for item in ITEMS if item.document == document]
    return [(f"{document}.{place}", item) for place, item in enumerate(own, start=1)]
