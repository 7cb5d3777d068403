"""The page docs/documents.md, written from the items.

`PYTHONPATH=.:packaging .venv/bin/python -m site_pages.documents > docs/documents.md` writes it.
"""

from __future__ import annotations

from evprof.export.report.documents import FULL, ITEMS, NONE, PARTLY, TITLES, Item

_HEAD = f"""# The five documents

Before evprof there were five research notes. They compare EventGPT-7B with LLaVA-1.5-7B on a GPU, from what benchmark
scripts had measured, and say what should be made faster. Wherever these pages speak of *document 000* to *document
004*, they mean these notes; their titles are the headings below.

This page lists every table, figure, plan item and question of the notes, what its whole answer needs, and the one
command that measures it.

```sh
evprof suite documents -o results                       # takes minutes: what a suite can measure, in this order
evprof report results.json -o results.html --documents  # the same order for result files, or any session
```

The report marks every item by what the session holds. {FULL}: all that the column *needs* lists. {PARTLY}: a part of
it, and the report names the rest. {NONE}: nothing of it, or no table in the report shows it. No mark is fixed: the
same item can be {FULL} for one session and {NONE} for another. A claim needs a verdict, and only runs of 7B models
give one.

With the bundled pair, its three samples and one repeat on a CPU, `evprof suite documents` answers
56 {FULL}, 15 {PARTLY} and 12 {NONE} of 83. It takes a few minutes on two processor cores; `--draft`, `--target` and
`--data` name other models and samples. Sessions without parts of the suite answer with all their configurations. This
page is written from the program's own list:
`PYTHONPATH=.:packaging .venv/bin/python -m site_pages.documents > docs/documents.md`.
"""


def page() -> str:
    """The whole page as Markdown, ending in a newline."""
    lines = [_HEAD]
    for document, title in TITLES.items():
        lines += ["", f"## Document {document}: {title}", ""]
        lines += ["| | in the document | what | needs | measured by |", "|---|---|---|---|---|"]
        for item in (item for item in ITEMS if item.document == document):
            command = f"`evprof {item.measured}`" if item.measured else ""
            cells = (item.number, item.place, f"{item.kind}: {item.asks}", _needs(item), command)
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _needs(item: Item) -> str:
    """The needs in words, and what no session can hold."""
    beyond = f"no session holds {item.beyond}" if item.beyond and item.measured else item.beyond
    return "; ".join(filter(None, [*item.phrases, beyond])) or "another command"


if __name__ == "__main__":
    print(page(), end="")
