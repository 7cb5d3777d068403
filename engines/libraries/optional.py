"""Libraries that are used only when asked for, and what is said when one is missing."""

from __future__ import annotations

import importlib
from typing import Any

from evprof.core.errors import UserError
from evprof.core.installation import how_to_add

EXTRA = "evprof[quant]"

LIBRARIES = {"bitsandbytes": "bitsandbytes"}
"""Library -> the module that is used of it."""


def optional_module(name: str, purpose: str) -> Any:
    """Imports `name`, a module of a library of the extra `quant`.

    Raises UserError where it is missing or does not load; `purpose` begins that sentence.
    """
    library = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise UserError(f"{purpose} needs {library}, which is not installed; {how_to_add(EXTRA)}.") from None
    except (ImportError, OSError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise UserError(
            f"{purpose} needs {library}, which does not load here ({reason}); {how_to_add(EXTRA)}."
        ) from None
