"""The request that would make more runs like one that was made: told from what the run recorded."""

from __future__ import annotations

from evprof.core.records import DRAFT, TARGET
from evprof.core.request import RunRequest, roles_of
from evprof.core.run_info import ModelFacts
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import ModelChoice


def request_again(run: RunLog, mode: str, repeat: int) -> RunRequest:
    """The same sample, models and settings in a mode, measured `repeat` times; warm-up as it is needed.

    A model that the run did not load is missing, which `RunRequest.validate` tells.
    """
    info = run.info
    taken = roles_of(mode, info.settings.speculation)
    draft, target = (_choice(info.models.get(role)) if role in taken else None for role in (DRAFT, TARGET))
    return RunRequest(mode, info.sample, draft, target, settings=info.settings, warmup=None, repeat=repeat)


def _choice(model: ModelFacts | None) -> ModelChoice | None:
    return None if model is None else ModelChoice(model.name, model.device, model.dtype, model.quantization)
