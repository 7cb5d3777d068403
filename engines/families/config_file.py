"""A checkpoint's config.json: which family it is of, what it describes, whether such a model can exist."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from huggingface_hub.errors import StrictDataclassError

from engines.checkpoints.config import ModelConfig
from engines.checkpoints.json_file import read_json
from engines.checkpoints.shape_check import check_activation, check_layer, check_shape
from engines.families.family import engine_family
from evprof.core.errors import UserError
from evprof.core.vocabulary.families import FAMILIES


def read_config(folder: Path, clip: str | None = None, *, stored: Collection[str] | None = None) -> ModelConfig:
    """The configuration in `folder`/config.json. Raises UserError for a missing file or an unknown model_type.

    `clip` is a CLIP folder the user named. It describes EventGPT's tower unless the weights hold a tower of their own
    and config.json names a folder for it. `stored` are the names of the weights; None: they are whole.
    """
    path = folder / "config.json"
    values = read_json(path)
    model_type = values.get("model_type")
    key = next((family.key for family in FAMILIES.values() if str(model_type) in family.model_types), None)
    if key is None:
        known = ", ".join(name for family in FAMILIES.values() for name in family.model_types)
        named = f"names model_type '{model_type}'" if model_type is not None else "names no model_type"
        raise UserError(f"{path} {named}; evprof knows {known}: choose a checkpoint of one of these.")
    family = engine_family(key)
    try:
        config = family.read(folder, values, clip, holds_tower=stored is None or family.holds_tower(stored))
        check_shape(config.vision, config.text)
        check_layer(config.feature_layer, config.vision)
        check_activation("the projector's", config.projector_act)
        family.check(config)
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, StrictDataclassError) as error:
        # transformers' own complaint stands below its validator's name.
        reason = (
            (str(error).strip() or type(error).__name__)
            .splitlines()[-1]
            .strip()
            .removeprefix("ValueError: ")
            .removeprefix("TypeError: ")
        )
        raise UserError(
            f"{path} does not describe a {key} model ({reason.rstrip('.')}); download the checkpoint again."
        ) from None
    return config
