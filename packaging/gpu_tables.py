"""Puts what `evprof bench gpu` measured into docs/benchmarks.md, in place of what stands there.

Usage: python packaging/gpu_tables.py DIR/gpu.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from evprof.cli.bench.gpu import gpu_page
from evprof.core.errors import UserError
from evprof.run.gpu_bench.targets import is_full_size

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"

BEGIN, END = "<!-- bench gpu -->\n", "<!-- bench gpu ends -->\n"
"""Between these lines the tables stand."""


def with_tables(page: str, document: dict[str, Any]) -> str:
    """The page with the document's own in its place. Raises UserError for a document that is of no GPU or of other
    shapes, and for a page without the place."""
    if not is_full_size(document["settings"]):
        raise UserError("This gpu.json was not measured on a GPU at 7B shapes; docs/benchmarks.md only tells of such.")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"{PAGE.name} has no place between '{BEGIN.strip()}' and '{END.strip()}'.")
    return f"{before}{BEGIN}{gpu_page(document).strip()}\n{END}{after}"


def main(words: list[str]) -> int:
    """Exit code 1 with a sentence where it cannot."""
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        document = json.loads(Path(words[0]).read_text(encoding="utf-8"))
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), document), encoding="utf-8")
    except UserError as error:
        print(error.sentence, file=sys.stderr)
        return 1
    except (OSError, ValueError, LookupError, TypeError) as error:
        print(f"{words[0]} is no gpu.json: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
