"""The page docs/documents.md, written from the items.

`PYTHONPATH=.:packaging .venv/bin/python -m site_pages.documents > docs/documents.md` writes it.
"""

from __future__ import annotations

from collections import Counter

from evprof.export.report.documents import FULL, ITEMS, NONE, PARTLY, TITLES, Availability, numbered

_HEAD = f"""# The five documents

Before evprof there were five research notes. They compare EventGPT-7B with LLaVA-1.5-7B on a GPU, from what benchmark
scripts had measured, and say what should be made faster. Wherever these pages speak of *document 000* to *document
004*, they mean these notes; their titles are the headings below.

This page lists every table, figure, plan item and question of the notes, with the one command that answers it: on
models measured here, and from result files of earlier scripts. {FULL}: all of it; {PARTLY}: a part, with the reason;
{NONE}: nothing, with the reason.

```sh
evprof suite documents -o results                       # takes minutes: what a suite can measure, in this order
evprof report results.json -o results.html --documents  # the same order for result files, or any session
```

The bundled pair takes a few minutes for the suite on two processor cores; `--draft`, `--target` and `--data` name other
models and samples. Column *imported* names the families of result files that give an item (see
[importing](importing.md)). In the suite's report an item that another command measures is {PARTLY};
other sessions answer with all their configurations. This page is written from
the program's own list:
`PYTHONPATH=.:packaging .venv/bin/python -m site_pages.documents > docs/documents.md`.
"""


def page() -> str:
    """The whole page as Markdown, ending in a newline."""
    lines = [_HEAD]
    for way, name in (("measured", "Measured here"), ("imported", "From imported files")):
        counts = Counter(getattr(item, way).mark for item in ITEMS)
        lines.append(
            f"- {name}: {', '.join(f'{counts[mark]} {mark}' for mark in (FULL, PARTLY, NONE))} of {len(ITEMS)}."
        )
    for document, title in TITLES.items():
        lines += ["", f"## Document {document}: {title}", ""]
        lines += ["| | in the document | what | measured | imported |", "|---|---|---|---|---|"]
        for number, item in numbered(document):
            cells = (
                number,
                item.place,
                f"{item.kind}: {item.asks}",
                _way(item.measured, is_code=True),
                _way(item.imported),
            )
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _way(way: Availability, *, is_code: bool = False) -> str:
    source = f"`{way.source}`" if way.source and is_code else way.source
    return " ".join(text for text in (way.mark, source, f"({way.reason})" if way.reason else "") if text)


if __name__ == "__main__":
    print(page(), end="")
