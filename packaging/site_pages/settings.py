"""Every setting of a run, from the vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

from evprof.core.records import DRAFT, TARGET
from evprof.core.vocabulary.setting import EFFECT_WORDS, Setting
from evprof.core.vocabulary.settings import SETTINGS
from site_pages.markdown import code, plain, table

_INTRODUCTION = """# Every setting

One list for the settings popover of the window (Ctrl+,), the options of `evprof run`, the keys of a suite's grid and
the `settings` of a run's JSON. *Key* is the name in grids and JSON. What each optimization is good for is in
[what each optimization does](../optimizations.md).
"""


def page() -> str:
    """The page."""
    return "\n".join((_INTRODUCTION, *_sections()))


def _sections() -> Iterator[str]:
    heads = dict.fromkeys(entry.head for entry in SETTINGS.values())
    for head in heads:
        yield f"## {plain(head).capitalize() or 'Others'}\n"
        listed = [entry for entry in SETTINGS.values() if entry.head == head]
        yield table(("setting", "key", "option", "values", "what it does"), (_row(entry) for entry in listed))


def _row(entry: Setting) -> tuple[str, ...]:
    flags = [entry.flag, *(entry.role_flag(role) for role in (DRAFT, TARGET) if entry.is_per_role)]
    effect = EFFECT_WORDS[entry.effect]
    tip = plain(f"{entry.tip} {effect}" if entry.is_lossy is None else entry.tip)
    return plain(entry.name), code(entry.key), ", ".join(map(code, flags)), _values(entry), tip


def _values(entry: Setting) -> str:
    default = entry.range.low if entry.default in (None, "") else str(entry.default)
    if entry.kind is bool:
        return f"on or off (default: {'on' if entry.default else 'off'})"
    if entry.choices:
        known = ", ".join(code(value) for value, _ in entry.choices if value not in (None, ""))
        said = dict(entry.choices).get(entry.default) or default
        return f"{known}{' and others' if entry.is_free else ''} (default: {plain(said)})"
    least, most = entry.range.least, entry.range.most
    if least is not None and most is not None:
        span = f"{least:g} to {most:,g}"
    else:
        span = "text" if least is None else f"{least:g} or more"
    return f"{span} (default: {plain(default)})" if default else span
