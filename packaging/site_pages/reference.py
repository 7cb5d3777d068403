"""Pages of the site about settings, figures, models, keys and the session file, from the program's own lists."""

from __future__ import annotations

import contextlib
import inspect
import sqlite3
from collections.abc import Iterable, Iterator

from evprof.core.records import DRAFT, STREAMS, TARGET, column_kinds
from evprof.core.vocabulary.drafters import DRAFTERS
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.figures import FIGURES, SECTIONS, Figure
from evprof.core.vocabulary.modes import MODES
from evprof.core.vocabulary.setting import EFFECT_WORDS, Setting
from evprof.core.vocabulary.settings import SETTINGS
from evprof.session import chunk, tables
from site_pages.markdown import code, plain, prose, table
from ui.window.actions import ENTRIES, FOCUSED, MOUSE, TIMELINE, ActionEntry

_SETTINGS = """# Every setting

One list for the settings popover of the window (Ctrl+,), the options of `evprof run`, the keys of a suite's grid and
the `settings` of a run's JSON. *Key* is the name in grids and JSON. What each optimization is good for is in
[what each optimization does](../optimizations.md).
"""


def settings_page() -> str:
    return "\n".join((_SETTINGS, *_settings_sections()))


def _settings_sections() -> Iterator[str]:
    heads = dict.fromkeys(entry.head for entry in SETTINGS.values())
    for head in heads:
        yield f"## {plain(head).capitalize() or 'Others'}\n"
        listed = [entry for entry in SETTINGS.values() if entry.head == head]
        yield table(("setting", "key", "option", "values", "what it does"), (_settings_row(entry) for entry in listed))


def _settings_row(entry: Setting) -> tuple[str, ...]:
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


_FIGURES = """# Every figure

What the comparison, reports and `evprof compare` tell, in their order. *Counted* figures are the same whenever the same
is asked; all others are measured, and have an interval. *Depends on* names what must be alike in two runs before the
figure can be compared ([why](../statistics.md#what-can-be-compared)).
How to read them is in [reading the figures](../reading-the-figures.md).
"""

_BETTER = {True: "lower", False: "higher", None: ""}


def figures_page() -> str:
    return "\n".join((_FIGURES, *_figures_sections()))


def _figures_sections() -> Iterator[str]:
    for section in SECTIONS:
        listed = [figure for figure in FIGURES.values() if figure.head == section]
        yield f"## {section}\n"
        yield table(
            ("figure", "key", "unit", "what it is", "better", "depends on"),
            (_figures_row(figure) for figure in listed),
        )


def _figures_row(figure: Figure) -> tuple[str, ...]:
    tip = plain(figure.tip) + (" (counted)" if figure.is_counted else "")
    depends = ", ".join(figure.depends_on)
    better = _BETTER[figure.lower_is_better]
    return plain(figure.title), code(figure.key), plain(figure.unit), tip, better, depends


_OF_MODES = """# Models, modes, drafters

## Modes

Which models run, in which order, and whose answer it is: `--mode` on the command line, the toolbar of the window.
"""

_OF_FAMILIES = """
## Families of models

A checkpoint says in its `config.json` which family it is of (`model_type`). *Frames* is how many pictures it is shown
by default, which may depend on how long a recording is. How checkpoints are found and read is in
[checkpoints](../checkpoints.md).
"""

_OF_DRAFTERS = """
## Drafters

Who can propose tokens in speculative modes: `--drafter`, and *drafter* in the settings of the window. What each is
worth is in [speculation](../speculation.md).
"""


def models_page() -> str:
    modes = (
        (code(mode.key), plain(mode.title), plain(mode.tip), "the target's own" if mode.drafts else "")
        if mode.is_lossless
        else (code(mode.key), plain(mode.title), plain(mode.tip), "may differ (lossy)")
        for mode in MODES.values()
    )
    families = (
        (plain(family.title), code(family.model_type), family.reads, family.frames_text, plain(family.sentence))
        for family in FAMILIES.values()
    )
    drafters = (
        (code(kind.key), plain(kind.sentence), "yes" if kind.takes_draft else "no", "yes" if kind.is_trained else "no")
        for kind in DRAFTERS.values()
    )
    return "\n".join(
        (
            _OF_MODES,
            table(("mode", "in the window", "what it does", "answer"), modes),
            _OF_FAMILIES,
            table(("family", "model_type", "reads", "frames", ""), families),
            _OF_DRAFTERS,
            table(("drafter", "what it is", "needs the draft model", "is trained"), drafters),
        )
    )


_KEYS = """# Keys and mouse

`?` in the window shows this list. Everything in the menu can be done with the keyboard; Tab moves between views.
"""


def keys_page() -> str:
    keyed = [entry for entry in ENTRIES if entry is not None and entry.keys]
    groups = {
        "Menu": _keys_rows(entry for entry in keyed if entry.below != TIMELINE),
        TIMELINE: _keys_rows(entry for entry in keyed if entry.below == TIMELINE),
        "Focused part": [(plain(keys), plain(meaning)) for keys, meaning in FOCUSED],
        "Mouse": [(plain(gesture), plain(meaning)) for gesture, meaning in MOUSE],
    }
    parts = [f"## {head}\n\n{table(('', ''), rows)}" for head, rows in groups.items()]
    return "\n".join((_KEYS, *parts))


def _keys_rows(entries: Iterable[ActionEntry]) -> list[tuple[str, str]]:
    return [(_keys(entry.keys), plain(entry.text)) for entry in entries]


def _keys(keys: str) -> str:
    """Keys as a keyboard shows them: `Ctrl+K`, or several with a gap between."""
    return " ".join(f"<kbd>{plain(key)}</kbd>" for key in keys.split())


_SESSION = f"""# The session file

A session (`{tables.SUFFIX}`) is one SQLite file: any SQLite tool opens it. It is marked with the application id
`{tables.APPLICATION_ID:#x}`, and `user_version` is the number of the format, now {tables.FORMAT}. An older evprof
refuses a newer format in a sentence; a newer evprof reads every older one. To read figures rather than rows, use
[`evprof show --json`](../json.md).

## Tables
"""

_STREAMS = """
## Streams

Everything that was measured is a stream of records. {rows} are ordinary rows; all other streams lie in `chunks`: each
commit (every 250 ms while a run goes on) writes one row per stream, with its columns as little-endian arrays in one
BLOB. Times are nanoseconds on the clock of the process that measured.
"""


def session_page() -> str:
    rows = ", ".join(map(code, tables.ROW_STREAMS)).capitalize()
    return "\n".join((_SESSION, *_tables(), *_packing(), _STREAMS.format(rows=rows), *_streams()))


def _tables() -> Iterator[str]:
    """As SQLite tells the columns of an empty session."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as session:
        tables.create(session)
        names = [name for (name,) in session.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            yield f"### Table {code(name)}\n"
            columns = session.execute(f"PRAGMA table_info({name})").fetchall()
            yield table(("column", "type"), ((code(column[1]), column[2].lower()) for column in columns))


def _packing() -> Iterator[str]:
    yield "## How a chunk is packed\n"
    yield f"```text\n{inspect.cleandoc(chunk.__doc__ or '')}\n```\n"


def _streams() -> Iterator[str]:
    for name, kind in STREAMS.items():
        yield f"### {name}\n"
        for paragraph in inspect.cleandoc(kind.__doc__ or "").split("\n\n"):
            yield prose(paragraph) + "\n"
        yield table(("column", "type"), ((code(column), word) for column, word in column_kinds(name).items()))
