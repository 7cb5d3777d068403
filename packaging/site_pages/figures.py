"""Every figure that runs are compared by, from the vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

from evprof.core.vocabulary.figures import FIGURES, SECTIONS, Figure
from site_pages.markdown import code, plain, table

_INTRODUCTION = """# Every figure

What the comparison, reports and `evprof compare` tell, in their order. *Counted* figures are the same whenever the same
is asked; all others are measured, and have an interval. *Depends on* names what must be alike in two runs before the
figure can be compared ([why](../statistics.md#what-can-be-compared)).
How to read them is in [reading the figures](../reading-the-figures.md).
"""

_BETTER = {True: "lower", False: "higher", None: ""}


def page() -> str:
    """The page."""
    return "\n".join((_INTRODUCTION, *_sections()))


def _sections() -> Iterator[str]:
    for section in SECTIONS:
        listed = [figure for figure in FIGURES.values() if figure.head == section]
        yield f"## {section}\n"
        yield table(
            ("figure", "key", "unit", "what it is", "better", "depends on"),
            (_row(figure) for figure in listed),
        )


def _row(figure: Figure) -> tuple[str, ...]:
    tip = plain(figure.tip) + (" (counted)" if figure.is_counted else "")
    depends = ", ".join(figure.depends_on)
    better = _BETTER[figure.lower_is_better]
    return plain(figure.title), code(figure.key), plain(figure.unit), tip, better, depends
