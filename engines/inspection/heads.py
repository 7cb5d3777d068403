"""What a published draft head is, whether its tensors are those of its layout, and whether it fits a target: from
headers and configurations, without reading weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from engines.adapters.head_files import HeadFiles
from engines.adapters.medusa import medusa_sizes
from engines.adapters.published import check_fit, layer_config
from engines.loading.weights import find_checkpoint
from evprof.core.errors import UserError
from evprof.core.vocabulary.drafters import MEDUSA
from evprof.loaders.adapters import DESCRIPTION, AdapterInfo, read_adapter
from evprof.loaders.heads import LAYERS, LAYOUTS, is_head_folder

_ANY_LLAMA = "eagle"
"""The layout whose config.json is any Llama's: there the tensors tell."""


def find_head(path: str) -> AdapterInfo | None:
    """The published head in a folder; None where something else lies there, a whole model for instance."""
    folder = Path(path)
    if not is_head_folder(folder) or (folder / DESCRIPTION).is_file():
        return None
    try:
        info = read_adapter(path)
        if info.layout is LAYOUTS[_ANY_LLAMA] or info.layout is LAYOUTS["msd"]:
            return info if "fc.weight" in HeadFiles(info).names else None
    except UserError:
        return None
    return info


def inspect_head(info: AdapterInfo, against: str | None = None, clip: str | None = None) -> dict[str, Any]:
    """The `inspect` document of a head; with `against`, a model, the key "fit" says whether it may draft for that.

    Raises UserError where that model is not found.
    """
    layout = info.layout
    if layout is None:
        raise RuntimeError("a published head has a layout")
    problems: list[str] = []
    found: dict[str, Any] = {"layout": layout.word, "drafter": layout.kind, "made_for": info.target or None}
    try:
        files = HeadFiles(info)
        found |= {"tensors": len(files.names), "bytes": files.nbytes}
        if layout.kind == MEDUSA:
            sizes = medusa_sizes(info, files)
            info = replace(info, hidden_size=sizes.hidden, vocabulary=sizes.rows)
            found["heads"] = sizes.count
        else:
            layer_config(info)
    except UserError as error:
        problems.append(error.sentence)
    found |= {"hidden_size": info.hidden_size, "vocabulary": info.vocabulary}
    if layout.reads == LAYERS:
        layers = info.config["layers"]
        found["draft_vocabulary"] = info.config["draft_vocabulary"]
        found["reads_layers"] = "2, half, last but 3" if layers is None else ", ".join(map(str, layers))
    if against is not None:
        text = find_checkpoint(against, clip).config.text
        fit: dict[str, Any] = {"target": against, "fits": True}
        try:
            check_fit(info, text, text.vocab_size, against)
        except UserError as error:
            fit |= {"fits": False, "reason": error.sentence}
        found["fit"] = fit
    return {"problems": problems, **found}
