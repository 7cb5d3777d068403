"""Modes, families and drafters, from the vocabulary."""

from __future__ import annotations

from evprof.core.vocabulary.drafters import DRAFTERS
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.modes import MODES
from site_pages.markdown import code, plain, table

_MODES = """# Models, modes, drafters

## Modes

Which models run, in which order, and whose answer it is: `--mode` on the command line, the toolbar of the window.
"""

_FAMILIES = """
## Families of models

A checkpoint says in its `config.json` which family it is of (`model_type`). *Frames* is how many pictures it is shown
by default, which may depend on how long a recording is. How checkpoints are found and read is in
[checkpoints](../checkpoints.md).
"""

_DRAFTERS = """
## Drafters

Who can propose tokens in speculative modes: `--drafter`, and *drafter* in the settings of the window. What each is
worth is in [speculation](../speculation.md).
"""


def page() -> str:
    """The page."""
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
            _MODES,
            table(("mode", "in the window", "what it does", "answer"), modes),
            _FAMILIES,
            table(("family", "model_type", "reads", "frames", ""), families),
            _DRAFTERS,
            table(("drafter", "what it is", "needs the draft model", "is trained"), drafters),
        )
    )
